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

/**
 * Somebody's rights have changed: of a user, by the id; of a session or a key, by its SHA-256 in hex. "lost": changes are
 * not heard of until they are "back".
 */
export type IdentityChange =
  | { readonly user: string }
  | { readonly session: string }
  | { readonly key: string }
  | "lost"
  | "back";

/** Door 3 to Postgres. Where the changes come from is the business of who implements it. */
export interface ChangeFeed {
  /**
   * The changes that fit, in the order of their commits, from now on. The iteration throws FeedInterrupted when changes
   * may have been missed or the subscriber reads too slowly; it ends when the feed is closed.
   */
  subscribe(filter: ChangeFilter): AsyncIterableIterator<Change>;
  /** Calls back when tables, functions, grants or comments have changed; also when that may have been missed. */
  onSchemaChange(listener: () => void): void;
  /** Calls back when somebody's rights have changed, in the order of the calls. */
  onIdentityChange(listener: (change: IdentityChange) => void): void;
  close(): Promise<void>;
}

/** What a subscriber learns when it can no longer be told everything. */
export class FeedInterrupted extends Error {
  constructor(reason: string) {
    super(`${reason}: subscribe again, and read again what may have changed`);
  }
}
