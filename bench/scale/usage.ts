import { readFileSync } from "node:fs";
import type { BenchDatabase } from "../database.ts";
import { exactCpuOf, familyOf } from "../process-usage.ts";
import type { BenchRedis } from "../redis.ts";
import type { RunningServer } from "../servers.ts";

/** Microseconds of CPU. */
export type Usage = {
  /** Of the instances. */
  readonly service: number;
  /** The processes of PostgreSQL that send the write-ahead log, */
  readonly senders: number;
  /** and all others of PostgreSQL. */
  readonly backends: number;
  /** Of Valkey or Redis; null without it, or if the bench has not started it. */
  readonly redis: number | null;
};

type Around = { readonly database: BenchDatabase; readonly redis: BenchRedis | null };

/** Begins to measure. The function that is returned tells what was used until its call, divided by a number of requests or changes. */
export function measureUsage(servers: readonly RunningServer[], { database, redis }: Around): (count: number) => Usage {
  const ofService = startMeter(() => servers.map(({ pid }) => pid));
  const ofSenders = startMeter(() => familyOf(database.pid).filter(isSender));
  const ofDatabase = startMeter(() => familyOf(database.pid));
  const ofRedis = redis?.pid ? startMeter(() => [redis.pid!]) : null;
  return (count) => {
    const senders = ofSenders() / count;
    const service = ofService() / count;
    return { service, senders, backends: ofDatabase() / count - senders, redis: ofRedis && ofRedis() / count };
  };
}

/** Microseconds of CPU of the processes that run at the end. */
function startMeter(pids: () => readonly number[]): () => number {
  const before = new Map(pids().map((pid) => [pid, exactCpuOf(pid)]));
  return () => pids().reduce((sum, pid) => sum + exactCpuOf(pid) - (before.get(pid) ?? 0), 0);
}

/** Source: PostgreSQL's documentation, "Standard Unix Tools". The command line of a process says what it does. */
function isSender(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1").startsWith("postgres: walsender");
  } catch {
    return false;
  }
}
