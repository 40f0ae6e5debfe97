import { problem } from "../../problems/problem.ts";

export const taskHasEnded = (status: string) =>
  problem("task has ended", { ended: status === "cancelled" ? "been cancelled" : status });

export const tooManyTasks = (max: number) => problem("too many tasks", { max });

export const ownStorageFull = (max: number) => problem("own storage full", { max, retryAfter: STORAGE_RETRY_SECONDS });

export const storageFull = () => problem("task storage full", { retryAfter: STORAGE_RETRY_SECONDS });

/** Stored results are deleted every few minutes. */
const STORAGE_RETRY_SECONDS = 300;
