import type { CommitPosition, Reading } from "../replicas/reading.ts";
import type { Result, Statement } from "../wire/batch.ts";
import type { CancelSignal } from "../wire/connection.ts";

/** How the statements of a caller are framed to be one transaction. */
export type FrameOptions = {
  /** All statements see the same snapshot of the database. Does not add a round trip. */
  readonly snapshot?: boolean;
  /** An isolation level other than read committed. */
  readonly isolation?: "repeatable read" | "serializable" | null;
  /** It asks for a role as a whole, not for one of its callers: DB_PRE_REQUEST is not called. */
  readonly isOfRole?: boolean;
  /** Rolls back at the end, after the checks of a commit. */
  readonly rollback?: boolean;
};

/** How the statements of a caller are run. */
export type RunOptions = FrameOptions & {
  /** It only reads: it may share a connection with other reads, and be executed twice, even concurrently. */
  readonly isRead?: boolean;
  /** Called when the transaction has a connection. */
  readonly onConnected?: () => void;
  /** Called as each statement completes, before the transaction is committed; `index` is its position. */
  readonly onCompleted?: (index: number) => void;
  /** Lifts the limit on the size of the result. For writes: an error would hide that they succeeded. */
  readonly unlimitedResult?: boolean;
  /** Cancels the transaction: it is not sent if it still waits for a connection, and cancelled in the database if it runs. */
  readonly signal?: CancelSignal | undefined;
  /** A replica may answer. Without it, the primary does. */
  readonly reading?: Reading | undefined;
  /** Called with what the server had replayed before it read, if it is a replica; null if it is none any more. False if that is too little. */
  readonly onReplayed?: (lsn: bigint | null) => boolean;
  /** Receives the position of the commit, if there are replicas. */
  readonly written?: CommitPosition | undefined;
};

export type Run = (statements: readonly Statement[], options: RunOptions) => Promise<Result[]>;

/** A request that an operator tries: it runs each transaction in its own way. */
export type Trial = {
  /** Who tries it: `user 3` */
  readonly operator: string;
  run(statements: readonly Statement[], options: RunOptions, run: Run): Promise<Result[]>;
};
