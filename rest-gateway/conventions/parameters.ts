import { badParameter, badRequest, unknownParameter } from "./problem.ts";

/** Parameters of the query string that may come with every request. */
const EVERYWHERE = ["version", "api_key"];
/** Credentials: they are read before, and stay out of what is kept or answered. */
export const CREDENTIALS: readonly string[] = ["api_key", "_csrf"];

/** The parameters of a request, each named once. */
export class Parameters {
  readonly #values: URLSearchParams;

  constructor(search: string) {
    this.#values = new URLSearchParams(search);
  }

  /** Throws RestError for a parameter that comes twice, and for text that is no UTF-8. */
  refuseMalformed(): void {
    if (this.#values.size === 0) return;
    const seen = new Set<string>();
    for (const [name, value] of this.#values) {
      if (seen.has(name)) throw badParameter(name, `${name} must not be given twice`);
      if (value.includes("\0") || value.includes("�")) throw badRequest("parameters must be UTF-8, without NUL");
      seen.add(name);
    }
  }

  /** Null when it is not given; an empty one is given. */
  get(name: string): string | null {
    return this.#values.get(name);
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  /** Throws RestError for one that means nothing here: a slip of the pen would else give wrong data. */
  allowOnly(names: readonly string[], hasOtherName: (name: string) => boolean = () => false): void {
    for (const name of this.#values.keys()) {
      const isKnown = names.includes(name) || EVERYWHERE.includes(name) || CREDENTIALS.includes(name);
      if (!isKnown && !hasOtherName(name)) throw unknownParameter(name, [...names, ...EVERYWHERE]);
    }
  }

  /** The query string with these parameters in place of its own, for an address whose path leads to the version. */
  with(changes: Readonly<Record<string, number>>): string {
    const changed = new URLSearchParams(this.#values);
    for (const name of [...CREDENTIALS, "version"]) changed.delete(name);
    for (const [name, value] of Object.entries(changes)) changed.set(name, String(value));
    return changed.toString();
  }
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => UUID.test(text);
