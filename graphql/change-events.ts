import type { Change } from "../db/changes/change.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { ChangeReader } from "../db/changes/reader.ts";

/** The changes that a subscriber receives: those of one table and operation whose columns have these values. */
export type ChangeFilter = {
  readonly schema: string;
  readonly table: string;
  readonly operation: Change["operation"];
  readonly where: Readonly<Record<string, string>>;
};

/** The values of the changed row by column: of the new row, or of the old one of a DELETE. */
export type ChangeEvent = { readonly row: Readonly<Record<string, string | null | undefined>> };

/** The matching changes that are committed from now on. Throws FeedGap when changes may have been missed. */
export class ChangeEvents implements AsyncIterableIterator<ChangeEvent> {
  readonly #filter: ChangeFilter;
  readonly #reader: Promise<ChangeReader>;
  readonly #ending = new AbortController();
  #waiting: ChangeEvent[] = [];

  constructor(feed: ChangeFeed, filter: ChangeFilter) {
    this.#filter = filter;
    this.#reader = feed.open().then(() => feed.read({ mayFallBehind: true }));
    this.#reader.catch(() => {});
  }

  async next(): Promise<IteratorResult<ChangeEvent>> {
    const reader = await this.#reader;
    for (;;) {
      const event = this.#waiting.shift();
      if (event && !this.#ending.signal.aborted) return { value: event, done: false };
      if (reader.isClosed || this.#ending.signal.aborted) return this.return();
      this.#waiting = reader.take().flatMap((change) => eventOf(change, this.#filter) ?? []);
      if (this.#waiting.length === 0) await reader.wait(this.#ending.signal);
    }
  }

  async return(): Promise<IteratorResult<ChangeEvent>> {
    this.#ending.abort();
    await this.#reader.then(
      (reader) => reader.close(),
      () => {},
    );
    return { value: undefined, done: true };
  }

  throw(): Promise<IteratorResult<ChangeEvent>> {
    return this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Null if the change does not match. */
function eventOf(change: Change, { schema, table, operation, where }: ChangeFilter): ChangeEvent | null {
  if (change.table.name !== table || change.operation !== operation || change.table.schema !== schema) return null;
  const image = change.new ?? change.old!;
  const row = Object.fromEntries(change.table.columns.map(({ name }, i) => [name, image[i]]));
  for (const column in where) if (row[column] !== where[column]) return null;
  return { row };
}
