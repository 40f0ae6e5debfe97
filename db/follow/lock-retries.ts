import type { DatabaseError } from "pg-protocol";
import { retry } from "../repeat.ts";

/**
 * Reads of the catalog lock views and their tables, and may wait for a table that a DBA is changing. If that DBA then waits for one of
 * the other tables, Postgres ends the statement of the DBA after deadlock_timeout (1 s by default). So these reads wait for a much
 * shorter time, and are retried.
 */
export const SHORT_LOCK_TIMEOUT = "set local lock_timeout = '100ms'";

/** Milliseconds before each retry of a read that was blocked by a lock. After the last retry, the lock is an error like any other. */
const PAUSES: readonly number[] = [100, 200, 400, 800, 1600, 3200, 3200];

/** The pause after the attempt with this number, from 0; undefined if the error is not a lock, or if the lock persists. */
export const pauseAfter = (error: unknown, attempt: number): number | undefined =>
  (error as DatabaseError).code === "55P03" ? PAUSES[attempt] : undefined;

/** Repeats a read that meets a lock, for about 10 s. Rejects with the error of the last attempt. */
export const retryLocked = <Result>(read: () => Promise<Result>): Promise<Result> =>
  retry(read, {
    first: PAUSES[0]!,
    max: PAUSES.at(-1)!,
    onError(error, attempt) {
      if (pauseAfter(error, attempt) === undefined) throw error;
    },
  });
