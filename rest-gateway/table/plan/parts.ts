import { notEmbedded } from "../problem.ts";
import type { Query, QueryPart } from "../request.ts";

/** What the parameters say of each relation, by the paths that they call it by: `author.articles`. */
export class Parts {
  readonly #parts: Query["parts"];
  readonly #taken = new Set<string>();

  constructor(parts: Query["parts"]) {
    this.#parts = parts;
  }

  /** What is said under all these paths. Conditions add up; of order, limit and offset the first path's own count. */
  take(paths: readonly string[]): QueryPart {
    for (const path of paths) this.#taken.add(path);
    const found = paths.map((path) => this.#parts.get(path)).filter((part) => part !== undefined);
    return {
      conditions: found.flatMap(({ conditions }) => conditions),
      order: found.find(({ order }) => order.length > 0)?.order ?? [],
      limit: found.find(({ limit }) => limit !== null)?.limit ?? null,
      offset: found.find(({ offset }) => offset > 0)?.offset ?? 0,
    };
  }

  /** The paths of a relation within others, as far as parameters use them. */
  below(paths: readonly string[], name: string): string[] {
    return paths.map((path) => (path === "" ? name : `${path}.${name}`)).filter((path) => this.#isUsed(path));
  }

  #isUsed(path: string): boolean {
    for (const each of this.#parts.keys()) if (each === path || each.startsWith(`${path}.`)) return true;
    return false;
  }

  /** Throws when parameters speak of a relation that was not taken. */
  refuseUnused(): void {
    for (const path of this.#parts.keys()) if (!this.#taken.has(path)) throw notEmbedded(path);
  }
}
