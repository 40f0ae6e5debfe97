/** A committed change of one row, whoever made it. `keys` are its key columns as text, foreign keys among them. */
export type Change = {
  readonly schema: string;
  readonly table: string;
  readonly operation: "INSERT" | "UPDATE" | "DELETE";
  readonly keys: Readonly<Record<string, string>>;
};

/** Which changes a subscriber wants: those of one table and operation whose keys have these values. */
export type ChangeFilter = {
  readonly schema: string;
  readonly table: string;
  readonly operation: Change["operation"];
  readonly where: Readonly<Record<string, string>>;
};

/** Door 3 to Postgres. Where the changes come from is the business of who implements it. */
export interface ChangeFeed {
  /**
   * The changes that fit, in the order of their commits, from now on. The iteration throws FeedInterrupted when changes
   * may have been missed or the subscriber reads too slowly; it ends when the feed is closed.
   */
  subscribe(filter: ChangeFilter): AsyncIterableIterator<Change>;
  /** Calls back when tables, functions, grants or comments have changed; also when that may have been missed. */
  onSchemaChange(listener: () => void): void;
  close(): Promise<void>;
}

/** What a subscriber learns when it can no longer be told everything. */
export class FeedInterrupted extends Error {
  constructor(reason: string) {
    super(`${reason}: subscribe again, and read again what may have changed`);
  }
}
