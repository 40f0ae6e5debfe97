import { randomBytes } from "node:crypto";
import pg from "pg";
import { inject } from "vitest";
import { TEMPLATE } from "./cluster.ts";

export type TestDatabase = {
  readonly name: string;
  /** The owner's connection string. */
  readonly url: string;
  /** The owner's connection, like a DBA's psql. */
  readonly owner: pg.Client;
  drop(): Promise<void>;
};

/** A separate database for a test file: users ada (1), bob (2), admin (3) and carol (4), articles 1 to 4, comments 1 to 3. */
export async function createTestDatabase(
  clusterUrl: string = inject("clusterUrl"),
  template: string = TEMPLATE,
): Promise<TestDatabase> {
  const root = new pg.Client({ connectionString: clusterUrl });
  await root.connect();
  const name = `test_${randomBytes(5).toString("hex")}`;
  // One copy at a time: no other connection to the template may exist.
  await root.query("select pg_advisory_lock(1)");
  // Copies files, which takes half the CPU time of the default strategy.
  await root.query(`create database ${name} template ${template} strategy file_copy`);
  await root.query("select pg_advisory_unlock(1)");

  const url = new URL(clusterUrl);
  url.pathname = `/${name}`;
  const owner = new pg.Client({ connectionString: url.href });
  await owner.connect();
  return {
    name,
    url: url.href,
    owner,
    async drop() {
      await owner.end();
      // A service that has not stopped would connect again.
      await root.query(`alter database ${name} allow_connections false`);
      // A process that was killed keeps its replication slot until Postgres notices.
      await root.query(
        "select pg_terminate_backend(active_pid, 5000) from pg_replication_slots where database = $1 and active",
        [name],
      );
      await root.query("select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = $1", [
        name,
      ]);
      await root.query(`drop database ${name} with (force)`);
      await root.end();
    },
  };
}
