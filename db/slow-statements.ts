import type { Statement } from "./batch.ts";

/** The SQL of transactions that were slow. Times are in milliseconds. */
export type SlowStatement = {
  readonly text: string;
  readonly count: number;
  readonly total: number;
  readonly max: number;
  /** Milliseconds since 1970. */
  readonly last: number;
};

/** Milliseconds from which a transaction is slow. */
export const SLOW = 100;
const MAX_STATEMENTS = 100;
const MAX_TEXT = 10_000;

/** The transactions of callers that were slow, by their SQL, in this process. The one that was slow least recently is dropped first. */
export class SlowStatements {
  readonly #byText = new Map<string, SlowStatement>();

  /** The greatest total time first. */
  get all(): readonly SlowStatement[] {
    return [...this.#byText.values()].sort((a, b) => b.total - a.total);
  }

  add(statements: readonly Statement[], milliseconds: number): void {
    const text = statements
      .map((statement) => statement.text)
      .join(";\n")
      .slice(0, MAX_TEXT);
    const { count = 0, total = 0, max = 0 } = this.#byText.get(text) ?? {};
    this.#byText.delete(text);
    if (this.#byText.size >= MAX_STATEMENTS) this.#byText.delete(this.#byText.keys().next().value as string);
    const times = { count: count + 1, total: total + milliseconds, max: Math.max(max, milliseconds) };
    this.#byText.set(text, { text, ...times, last: Date.now() });
  }
}
