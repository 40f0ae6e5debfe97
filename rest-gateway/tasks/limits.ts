import type { Config } from "../../config/config.ts";

type Settings = Pick<Config, "taskConcurrency" | "workers" | "embedded">;

export type TaskLimits = Readonly<ReturnType<typeof taskLimits>>;

/** Numbers of tasks that no operator has a reason to change. Clients are users, or IP addresses of anonymous callers. */
export const taskLimits = ({ taskConcurrency, workers, embedded }: Settings) => ({
  /** Tasks of one caller that run at the same time, in all processes. All anonymous callers count as one. */
  taskConcurrencyPerOwner: Math.max(1, Math.floor((taskConcurrency * workers) / 2)),
  /** Unfinished tasks per user, or per IP address of anonymous callers. */
  taskMaxPending: 100,
  /** Bytes of the result of a task. */
  taskMaxResultBytes: 67_108_864,
  /** Bytes of stored tasks per user, or per IP address of anonymous callers: requests, results and 4 KiB per task. */
  taskMaxStoredBytesPerOwner: 268_435_456,
  /** Bytes of all stored tasks. Tasks of anonymous callers may use at most half of them. */
  taskMaxStoredBytes: 2_147_483_648,
  /** Seconds that finished tasks and their results are kept. */
  taskRetention: 604_800,
  /** Seconds that finished tasks of anonymous callers are kept. 0: such callers have no tasks. */
  taskAnonymousRetention: embedded ? 3600 : 0,
});
