import { vi } from "vitest";
import { POLL } from "../../support/until.ts";
import type { TaskClient } from "./support.ts";

/** An advisory lock that tasks wait for. */
export type Gate = {
  /** A step that waits until the gate is open. */
  readonly step: { readonly sql: string };
  /** The process ids of the Postgres backends that wait at the gate. */
  waiting(): Promise<number[]>;
  /** Resolves with their process ids as soon as `count` backends wait at the gate. */
  reached(count?: number): Promise<number[]>;
  open(): Promise<void>;
};

/** The advisory locks of this database. `objsubid` is 1 for locks with one key and 2 for locks with two keys. */
export const LOCKS = `pg_locks where locktype = 'advisory'
  and database = (select oid from pg_database where datname = current_database())`;

let gates = 0;
export async function newGate(sql: TaskClient["sql"]): Promise<Gate> {
  const key = ++gates;
  await sql("select pg_advisory_lock(0, $1)", key);
  const waiting = async () => {
    const text = `select pid from ${LOCKS} and objsubid = 2 and objid = $1 and not granted`;
    return (await sql(text, key)).map(({ pid }) => pid);
  };
  return {
    step: { sql: `select pg_advisory_xact_lock_shared(0, ${key})` },
    waiting,
    reached: async (count = 1) => {
      await vi.waitUntil(async () => (await waiting()).length === count, POLL);
      return waiting();
    },
    open: async () => void (await sql("select pg_advisory_unlock(0, $1)", key)),
  };
}
