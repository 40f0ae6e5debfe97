import { Cache } from "../cache/cache.ts";
import { bytesOf } from "../cache/size.ts";
import type { Statement } from "./batch.ts";
import type { Code } from "./catalog/code.ts";

/** A statement, by its text and role: the name that it is prepared as, and whether it runs `code`. */
type KnownStatement = { readonly name: string; readonly code: Code; readonly runsCode: boolean };

/** Longer statements are not prepared: one-off queries would take megabytes on every connection. */
const MAX_PREPARED_LENGTH = 10_000;

/** The statements of one pool. */
export class KnownStatements {
  readonly #isPreparing: boolean;
  readonly #byRole = new Map<string, Cache<KnownStatement>>();
  #nextName = 1;

  /** Without preparing, all names are empty. */
  constructor(isPreparing: boolean) {
    this.#isPreparing = isPreparing;
  }

  /** Whether the statements may leave state on the connection. */
  runCode(role: string, statements: readonly Statement[], code: Code): boolean {
    return statements.some(({ text }) => this.of(role, text, code)?.runsCode ?? true);
  }

  /**
   * Undefined for a statement that is too long to be kept. Row-level policies are part of a plan: a name shared by two roles
   * would be replanned at each change of role.
   */
  of(role: string, text: string, code: Code): KnownStatement | undefined {
    if (text.length > MAX_PREPARED_LENGTH) return undefined;
    const ofRole = this.#ofRole(role);
    const known = ofRole.get(text);
    if (known?.code === code) return known;

    const name = known?.name ?? (this.#isPreparing ? `s${this.#nextName++}` : "");
    const created = { name, code, runsCode: code.isIn(text) };
    ofRole.set(text, created);
    return created;
  }

  #ofRole(role: string): Cache<KnownStatement> {
    const known = this.#byRole.get(role);
    if (known) return known;
    const created = new Cache<KnownStatement>({
      name: "prepared",
      sizeOf: (statement, text) => bytesOf(text) + bytesOf(statement.name),
    });
    this.#byRole.set(role, created);
    return created;
  }
}
