/** A committed change of one row, from any source. `keys` are its key columns as text, including foreign keys. */
export type Change = {
  readonly schema: string;
  readonly table: string;
  readonly operation: "INSERT" | "UPDATE" | "DELETE";
  readonly keys: Readonly<Record<string, string>>;
};

/** The changes that a subscriber receives: those of one table and operation whose keys have these values. */
export type ChangeFilter = {
  readonly schema: string;
  readonly table: string;
  readonly operation: Change["operation"];
  readonly where: Readonly<Record<string, string>>;
};

/**
 * The rights of a user (by id), a session or a key (by SHA-256 in hex) have changed. "lost": no changes are received
 * until "back".
 */
export type IdentityChange =
  | { readonly user: string }
  | { readonly session: string }
  | { readonly key: string }
  | "lost"
  | "back";

/** Changes of the database. An implementation decides where they originate. */
export interface ChangeFeed {
  /**
   * The matching changes from now on, in commit order. The iteration throws FeedInterrupted when changes may have been
   * missed or the subscriber reads too slowly; it ends when the feed is closed.
   */
  subscribe(filter: ChangeFilter): AsyncIterableIterator<Change>;
  /** Calls back when tables, functions, grants or comments have changed, or may have changed. */
  onSchemaChange(listener: () => void): void;
  /** Calls back when the rights of a user, session or key have changed. */
  onIdentityChange(listener: (change: IdentityChange) => void): void;
  close(): Promise<void>;
}

/** Thrown to a subscriber that may have missed changes. */
export class FeedInterrupted extends Error {
  constructor(reason: string) {
    super(`${reason}; subscribe again and reload the data`);
  }
}
