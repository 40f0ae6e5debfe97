import type { Identity } from "../transaction/identity.ts";
import type { OpenedStream, StreamOptions } from "../transaction/row-stream.ts";
import type { RunOptions } from "../transaction/run-options.ts";
import type { Result, Statement } from "../wire/batch.ts";

/** The transactions of the primary or of a replica. */
export type Runner = {
  run(identity: Identity, statements: readonly Statement[], options?: RunOptions): Promise<Result[]>;
  stream(identity: Identity, statements: readonly Statement[], options: StreamOptions): Promise<OpenedStream>;
  /** Streams that wait for the end of others. */
  readonly waitingStreams: number;
};

/** Options of what may run on a replica. */
export type LocatedOptions = Pick<
  RunOptions,
  "reading" | "isRead" | "isolation" | "rollback" | "signal" | "onReplayed"
>;

/** Reads with the transactions of a replica or of the primary. */
export type Located<T, Options> = (runner: Runner, options: Options) => Promise<T>;

/** Reads on a replica, or at the primary. */
export type Reader = <T, Options extends LocatedOptions>(
  identity: Identity,
  options: Options,
  primary: Runner,
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
