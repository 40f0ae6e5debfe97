import { ROWS_PER_WRITER, writerOf } from "./writers.ts";

/** The ids of the rows that a subscriber has received, in their order, without those that it has read again after a gap. */
export class Received {
  readonly ids: number[] = [];
  /** How often the service has said that changes were missed, or could not be sent. */
  gaps = 0;
  readonly #read: (() => Promise<readonly number[]>) | undefined;
  readonly #readAgain = new Set<number>();
  /** What arrives while the table is read. */
  readonly #waiting: number[] = [];
  #reads = 0;

  /** `read` returns the ids of all rows. Without it, what a gap has hidden counts as lost. */
  constructor(read?: () => Promise<readonly number[]>) {
    this.#read = read;
  }

  add(ids: readonly number[]): void {
    if (this.#reads > 0) this.#waiting.push(...ids);
    else this.ids.push(...ids.filter((id) => !this.#readAgain.has(id)));
  }

  /** All rows, in the order of each writer. */
  replace(ids: readonly number[]): void {
    const known = new Set(this.ids);
    this.ids.push(...ids.filter((id) => !known.has(id)));
    for (const id of ids) this.#readAgain.add(id);
  }

  /** Reads the table. The subscriber must already get what is committed from now on. */
  readAgain(): void {
    if (!this.#read) return;
    this.#reads++;
    void this.#read().then((ids) => {
      this.replace(ids);
      if (--this.#reads === 0) this.add(this.#waiting.splice(0));
    });
  }
}

/** The ids of `expected` that did not arrive. */
export const lostOf = (expected: ReadonlySet<number>, ids: readonly number[]): Set<number> =>
  expected.difference(new Set(ids));

export const duplicatesOf = (ids: readonly number[]): number => ids.length - new Set(ids).size;

/** A row of a writer must not arrive after a later one, unless it is a repetition. */
export function countOutOfOrder(ids: readonly number[]): number {
  const last = new Map<number, number>();
  let count = 0;
  for (const id of new Set(ids)) {
    const writer = writerOf(id);
    if (id < (last.get(writer) ?? writer * ROWS_PER_WRITER)) count++;
    last.set(writer, id);
  }
  return count;
}
