import type { RunOptions } from "../transaction/execution.ts";
import type { Identity } from "../transaction/identity.ts";
import type { Transactions } from "../transaction/transaction.ts";

/** A read that a replica may answer. */
export type Reading = {
  /** The replica must have replayed this position of the write-ahead log. */
  readonly after: bigint;
  /** Whether the client has named a position. */
  readonly isNamed: boolean;
  /** What the replica had replayed before it read; null if the primary has answered. */
  replayed: bigint | null;
};

/** Where the write-ahead log ended after a commit: a replica that has replayed it has what was written. Null if that is unknown. */
export type CommitPosition = { lsn: bigint | null };

/** What other processes have to know about the writes of clients. */
export type SharedWrites = {
  /** Resolves when all processes know the write. Rejects if that is uncertain. */
  note(client: string, lsn: bigint): Promise<void>;
  /** From where on a replica has what these clients have written at any process, 0 if that is nothing; null if it is uncertain. */
  lastOf(clients: readonly string[]): Promise<bigint | null>;
};

/** Options of what may run on a replica. */
export type LocatedOptions = Pick<
  RunOptions,
  "reading" | "isRead" | "isolation" | "rollback" | "signal" | "onReplayed"
>;

/** Reads with the transactions of a replica or of the primary. */
export type Located<T, Options> = (transactions: Transactions, options: Options) => Promise<T>;

/** Reads on a replica, or at the primary. */
export type Reader = <T, Options extends LocatedOptions>(
  identity: Identity,
  options: Options,
  primary: Transactions,
  run: Located<T, Options>,
) => Promise<T>;

/** Of the transactions of a service with replicas. */
export type ReplicationOptions = {
  /** Reads on replicas. */
  readonly reader?: Reader;
  /** Called with the position of a commit, which takes a query; null if it is unknown. The client learns of the commit when the promise resolves. */
  readonly onWritten?: (identity: Identity, lsn: bigint | null) => Promise<void> | undefined;
  /** Whether the server is a replica: each transaction says what it has replayed. */
  readonly isReplica?: boolean;
};
