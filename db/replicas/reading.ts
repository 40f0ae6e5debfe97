/** A read that a replica may answer. */
export type Reading = {
  /** The replica must have replayed this position of the write-ahead log. */
  readonly after: bigint;
  /** Whether the client has named a position. */
  readonly isNamed: boolean;
  /** What the replica had replayed before it read; null if the primary has answered. */
  replayed: bigint | null;
};

/** Where the write-ahead log ended after a commit: a replica that has replayed it has what was written. Null before a write. */
export type CommitPosition = { lsn: bigint | "unknown" | null };

/** What other processes have to know about the writes of clients. */
export type SharedWrites = {
  /** Resolves when all processes know the write. Rejects if that is uncertain. */
  note(client: string, lsn: bigint): Promise<void>;
  /** From where on a replica has what these clients have written at any process, 0 if that is nothing; null if it is uncertain. */
  lastOf(clients: readonly string[]): Promise<bigint | null>;
};
