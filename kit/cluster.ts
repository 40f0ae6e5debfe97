import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import { findTemporaryFolder, startScratchCluster } from "../cli/scratch-cluster.ts";
import { withClient } from "../db/cluster/client.ts";
import { loginNames } from "../db/cluster/provision.ts";

/** A cluster for tests. */
export type TestCluster = {
  /** A folder for files of the tests, which contains the cluster. */
  readonly folder: string;
  /** The owner's connection string. */
  url(database: string): string;
  /** Deletes the cluster with its data, and the folder. */
  remove(): Promise<void>;
};

export async function startTestCluster(): Promise<TestCluster> {
  const folder = await mkdtemp(join(await findTemporaryFolder(), "content-tests-"));
  // PostgreSQL may run as a separate user, which must be able to enter the folder.
  await chmod(folder, 0o711);
  const cluster = await startScratchCluster(undefined, folder);
  // Otherwise each connection of the owner takes 4096 iterations on both sides.
  await withClient(cluster.url("postgres"), async (owner) => {
    // Since PostgreSQL 16.
    await owner.query("select set_config(name, '1', false) from pg_settings where name = 'scram_iterations'");
    await owner.query("alter role postgres password 'scratch'");
  });
  const remove = async () => {
    await cluster.remove();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  return { folder, url: cluster.url, remove };
}

/** A copy of a database, for the tests of a file. */
export type DatabaseCopy = {
  readonly name: string;
  /** The owner's connection string. */
  readonly url: string;
  /** The owner's connection, like a DBA's psql. */
  readonly owner: pg.Client;
  drop(): Promise<void>;
};

/** Copies the database `template`. `clusterUrl` is the owner's connection string of another database of its cluster. */
export async function copyDatabase(clusterUrl: string, template: string): Promise<DatabaseCopy> {
  const root = new pg.Client({ connectionString: clusterUrl });
  await root.connect();
  const name = `test_${randomBytes(5).toString("hex")}`;
  // One copy at a time: no other connection to the template may exist.
  await root.query("select pg_advisory_lock(1)");
  // Copies files, which takes half the CPU time of the default strategy.
  await root.query(`create database ${name} template ${template} strategy file_copy`);
  await root.query("select pg_advisory_unlock(1)");

  // A copy does not have the settings of its template.
  const { rows: settings } = await root.query<{ setting: string }>(
    `select unnest(s.setconfig) as setting from pg_db_role_setting as s join pg_database as d on d.oid = s.setdatabase
     where d.datname = $1 and s.setrole = 0`,
    [template],
  );
  for (const { setting } of settings) {
    const [parameter] = setting.split("=", 1) as [string];
    await root.query("select set_config($1, $2, false)", [parameter, setting.slice(parameter.length + 1)]);
    await root.query(`alter database ${name} set ${parameter} from current`);
  }

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
      // Roles belong to the server, and each start reads them.
      await root.query(`drop role if exists ${loginNames(name).join(", ")}`);
      await root.end();
    },
  };
}
