import { execFile } from "node:child_process";
import { appendFile, chown, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import type { ScratchCluster } from "../../cli/scratch-cluster.ts";
import { type Cluster, startCluster } from "../../db/cluster/embedded.ts";

const run = promisify(execFile);
/** Milliseconds between two looks. */
const LOOK = 20;

export type TestReplica = {
  /** Without a user, as an operator names it. */
  readonly url: string;
  /** `127.0.0.1:25433` */
  readonly name: string;
  /** Runs SQL as the owner of the replica. */
  query(text: string): Promise<any[]>;
  /** Stops to replay, at the present position of the primary. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Follows the server on this port, or none. */
  follow(port: number | null): Promise<void>;
  /** Waits until it has replayed everything that the primary has written. */
  catchUp(): Promise<void>;
  stop(): Promise<void>;
  start(): Promise<void>;
  remove(): Promise<void>;
};

/** The server must accept replication connections of its superuser. */
export async function allowReplication(
  { dataDir }: Pick<ScratchCluster, "dataDir">,
  owner: pg.ClientBase,
): Promise<void> {
  await appendFile(join(dataDir, "pg_hba.conf"), "host replication postgres 127.0.0.1/32 scram-sha-256\n");
  await owner.query("select pg_reload_conf()");
}

const conninfoOf = (port: number) => `host=127.0.0.1 port=${port} user=postgres password=scratch`;

/** `owner` is connected to the database at the primary. */
export async function startReplica(
  primary: ScratchCluster,
  owner: pg.Client,
  database: string,
  number: number,
): Promise<TestReplica> {
  const dataDir = `${primary.dataDir}-replica-${number}`;
  await copyData(
    primary.dataDir,
    owner,
    dataDir,
    `primary_conninfo = '${conninfoOf(primary.port)}'
max_standby_streaming_delay = '100ms'
wal_retrieve_retry_interval = '100ms'
`,
  );
  const options = { dataDir, password: "scratch", durable: false };
  let cluster: Cluster = await startCluster(options);
  const { port } = cluster;
  const connect = async () => {
    const client = new pg.Client({ connectionString: cluster.url(database) });
    // A replica that is stopped ends it.
    client.on("error", () => {});
    await client.connect();
    return client;
  };
  let client = await connect();
  const query = async (text: string): Promise<any[]> => {
    try {
      return (await client.query(text)).rows;
    } catch (error) {
      // A replica that is behind cancels whatever conflicts with what it replays.
      if ((error as pg.DatabaseError).code === "40001") return query(text);
      throw error;
    }
  };
  const until = async (condition: string) => {
    while (!(await query(`select ${condition} as "isTrue"`))[0].isTrue) await sleep(LOOK);
  };
  const catchUp = async () => {
    const { rows } = await owner.query("select pg_current_wal_insert_lsn()::text as lsn");
    await until(`pg_last_wal_replay_lsn() >= '${rows[0].lsn}'`);
  };
  return {
    ...{ query, catchUp },
    url: `postgres://127.0.0.1:${port}`,
    name: `127.0.0.1:${port}`,
    async pause() {
      await catchUp();
      await query("select pg_wal_replay_pause()");
      await until("pg_get_wal_replay_pause_state() = 'paused'");
    },
    async resume() {
      await query("select pg_wal_replay_resume()");
    },
    async follow(port) {
      const source = port === null ? "" : conninfoOf(port);
      await query(`alter system set primary_conninfo = '${source}'`);
      await query("select pg_reload_conf()");
    },
    stop: () => cluster.stop(),
    async start() {
      cluster = await startCluster({ ...options, port });
      client = await connect();
    },
    async remove() {
      await client.end().catch(() => {});
      await cluster.stop();
    },
  };
}

/** Stops and resumes the replicas in turn while the requests run: for `milliseconds` each. */
export async function whileDisturbed<T>(
  replicas: readonly TestReplica[],
  run: () => Promise<T>,
  milliseconds = 20,
): Promise<T> {
  let isDone = false;
  const disturb = async () => {
    for (let i = 0; !isDone; i++) {
      const replica = replicas[i % replicas.length]!;
      await replica.query("select pg_wal_replay_pause()");
      // Not in SQL: a query that waits has a snapshot, which conflicts with what is replayed.
      await sleep(milliseconds);
      await replica.query("select pg_wal_replay_resume()");
    }
  };
  const disturbed = disturb();
  const result = await run().finally(() => {
    isDone = true;
  });
  await disturbed;
  return result;
}

/**
 * A base backup as PostgreSQL's documentation describes it, without pg_basebackup, which the embedded server does not have. `owner` is
 * connected to the server with the data directory `source`. The settings are lines of a configuration file.
 */
export async function copyData(source: string, owner: pg.ClientBase, target: string, settings: string): Promise<void> {
  await owner.query("select pg_backup_start('replica', true)");
  // Files that the server deletes meanwhile are not needed.
  await run("cp", ["-a", source, target]).catch((error: Error & { stderr: string }) => {
    if (
      error.stderr
        .trim()
        .split("\n")
        .some((line) => !line.includes("No such file or directory"))
    )
      throw error;
  });
  const { rows } = await owner.query("select labelfile from pg_backup_stop(false)");
  await run("rm", ["-rf", join(target, "postmaster.pid"), join(target, "postmaster.opts")]);
  // A replication slot belongs to its server: that of a copy would send everything again after a promotion.
  for (const slot of await readdir(join(target, "pg_replslot")))
    await rm(join(target, "pg_replslot", slot), { recursive: true });
  await appendFile(join(target, "postgresql.auto.conf"), settings);
  const { uid, gid } = await stat(source);
  for (const [name, text] of [
    ["standby.signal", ""],
    ["backup_label", rows[0].labelfile],
  ]) {
    await writeFile(join(target, name), text, { mode: 0o600 });
    await chown(join(target, name), uid, gid);
  }
}
