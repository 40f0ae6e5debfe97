import { execFile } from "node:child_process";
import { appendFile, chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { withClient } from "../../db/cluster/client.ts";
import { type Cluster, findFreePort, startCluster } from "../../db/cluster/embedded.ts";
import { makeTemplate, TEMPLATE } from "./cluster.ts";

/** A primary server and its standby, with the demo in the database that `path` names. */
export type ReplicatedCluster = {
  readonly primary: Cluster;
  readonly standby: Cluster;
  /** The data directory of the standby. */
  readonly standbyDir: string;
  readonly database: string;
  /** Makes the standby the primary. Resolves when it accepts writes. */
  promote(): Promise<void>;
  remove(): Promise<void>;
};

/** Each commit waits until the standby has it, so that a failover loses none. The standby copies failover slots. */
export async function startReplicatedCluster(): Promise<ReplicatedCluster> {
  const folder = await mkdtemp(join(tmpdir(), "replicated-"));
  // The server's system user must be able to enter it.
  await chmod(folder, 0o711);
  const [primaryDir, standbyDir] = [join(folder, "primary"), join(folder, "standby")];
  const [primaryPort, standbyPort] = [await findFreePort(), await findFreePort()];
  const server = (dataDir: string, port: number) =>
    startCluster({ dataDir, port, password: "scratch", durable: false });

  const first = await server(primaryDir, primaryPort);
  await makeTemplate(first.url("postgres"), first.url(TEMPLATE));
  await withClient(first.url("postgres"), async (owner) => {
    await owner.query("create role standby login replication password 'standby'");
    await owner.query("select pg_create_physical_replication_slot('standby')");
    // The settings of a scratch cluster are on the command line, which this overrides.
    await owner.query(`alter database ${TEMPLATE} set synchronous_commit = 'on'`);
  });
  await first.stop();
  await appendFile(join(primaryDir, "pg_hba.conf"), "host replication standby 127.0.0.1/32 scram-sha-256\n");
  await promisify(execFile)("cp", ["-a", primaryDir, standbyDir]);
  await appendFile(
    join(standbyDir, "postgresql.auto.conf"),
    `primary_conninfo = 'host=127.0.0.1 port=${primaryPort} user=standby password=standby dbname=postgres application_name=standby'
primary_slot_name = 'standby'
hot_standby_feedback = on
sync_replication_slots = on
`,
  );
  await writeFile(join(standbyDir, "standby.signal"), "");
  const primary = await server(primaryDir, primaryPort);
  const standby = await server(standbyDir, standbyPort);
  await withClient(primary.url("postgres"), async (owner) => {
    await owner.query("alter system set synchronous_standby_names = 'standby'");
    await owner.query("alter system set synchronized_standby_slots = 'standby'");
    await owner.query("select pg_reload_conf()");
  });
  return {
    primary,
    standby,
    standbyDir,
    database: TEMPLATE,
    promote: () =>
      withClient(standby.url("postgres"), async (owner) => void (await owner.query("select pg_promote()"))),
    async remove() {
      await Promise.all([primary.stop(), standby.stop()]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
