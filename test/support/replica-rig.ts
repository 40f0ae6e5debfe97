import { execFile } from "node:child_process";
import { appendFile, chown, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { onTestFinished, vi } from "vitest";
import { type Cluster, type ScratchCluster, startCluster, startScratchCluster } from "../../db/cluster/embedded.ts";
import { POLL } from "./command.ts";
import type { TestDatabase } from "./database.ts";
import type { TestService } from "./service.ts";

const run = promisify(execFile);
const DATABASE = "content";

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
  /** Waits until it has replayed everything that the primary has written. */
  catchUp(): Promise<void>;
  stop(): Promise<void>;
  start(): Promise<void>;
};

export type ReplicaRig = {
  readonly primary: TestDatabase;
  readonly replicas: readonly TestReplica[];
  remove(): Promise<void>;
};

/** A server of its own with one empty database, and streaming replicas of it. */
export async function startReplicaRig(count: number): Promise<ReplicaRig> {
  const cluster = await startScratchCluster();
  const clients: pg.Client[] = [];
  const connect = async (url: string) => {
    const client = new pg.Client({ connectionString: url });
    clients.push(client);
    // A replica that is stopped ends it.
    client.on("error", () => {});
    await client.connect();
    return client;
  };
  const replicas: (TestReplica & { remove(): Promise<void> })[] = [];
  const remove = async () => {
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
    for (const replica of replicas) await replica.remove();
    await cluster.remove();
  };
  try {
    const root = await connect(cluster.url("postgres"));
    await root.query(`create database ${DATABASE}`);
    const owner = await connect(cluster.url(DATABASE));
    await appendFile(join(cluster.dataDir, "pg_hba.conf"), "host replication postgres 127.0.0.1/32 scram-sha-256\n");
    await owner.query("select pg_reload_conf()");
    for (let i = 0; i < count; i++) replicas.push(await startReplica(cluster, owner, i, connect));
    const primary = { name: DATABASE, url: cluster.url(DATABASE), owner, drop: async () => {} };
    return { primary, replicas, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Waits until the replicas have replayed everything, and the services use them. */
export async function untilUsed({ replicas }: ReplicaRig, ...services: readonly TestService[]): Promise<void> {
  for (const replica of replicas) await replica.catchUp();
  for (const at of services) await vi.waitUntil(() => usesAll(replicas, at), POLL);
}

export async function usesAll(replicas: readonly TestReplica[], at: TestService): Promise<boolean> {
  const all = await metricOf(at, "db_replica_used");
  return replicas.every(({ name }) => all.some(([labels, used]) => labels === `{replica="${name}"}` && used === 1));
}

/** All replicas stay at the present state of the primary until the end of the test. */
export async function pauseReplicas(rig: ReplicaRig, ...services: readonly TestService[]): Promise<void> {
  await untilUsed(rig, ...services);
  for (const replica of rig.replicas) await replica.pause();
  onTestFinished(async () => {
    for (const replica of rig.replicas) await replica.resume();
    await untilUsed(rig, ...services);
  });
}

/** Stops and resumes the replicas in turn while the requests run. */
export async function whileDisturbed({ replicas }: ReplicaRig, run: () => Promise<unknown>): Promise<void> {
  let isDone = false;
  const disturb = async () => {
    for (let i = 0; !isDone; i++) {
      const replica = replicas[i % replicas.length]!;
      await replica.query("select pg_wal_replay_pause()");
      await replica.query("select pg_sleep(0.02), pg_wal_replay_resume()");
    }
  };
  const disturbed = disturb();
  await run().finally(() => {
    isDone = true;
  });
  await disturbed;
}

/** The values of a metric by its labels: `[['{replica="127.0.0.1:25433"}', 1]]` */
export async function metricOf(
  { url, service }: TestService,
  name: string,
): Promise<[labels: string, value: number][]> {
  const headers = { apikey: service.tokens.issueKey("service_role") };
  const text = await (await fetch(`${url}/metrics`, { headers })).text();
  return [...text.matchAll(new RegExp(`^content_service_${name}(\\{[^}]*\\})? (\\S+)$`, "gm"))].map(
    ([, labels = "", value]) => [labels, Number(value)],
  );
}

async function startReplica(
  primary: ScratchCluster,
  owner: pg.Client,
  number: number,
  connect: (url: string) => Promise<pg.Client>,
): Promise<TestReplica & { remove(): Promise<void> }> {
  const dataDir = `${primary.dataDir}-replica-${number}`;
  await copyData(primary, owner, dataDir);
  const options = { dataDir, password: "scratch", durable: false };
  let cluster: Cluster = await startCluster(options);
  const { port } = cluster;
  let client = await connect(cluster.url(DATABASE));
  const query = async (text: string) => (await client.query(text)).rows;
  const catchUp = async () => {
    const { rows } = await owner.query("select pg_current_wal_insert_lsn()::text as lsn");
    const isLevel = async () => (await query(`select pg_last_wal_replay_lsn() >= '${rows[0].lsn}' as level`))[0].level;
    await vi.waitUntil(isLevel, POLL);
  };
  return {
    ...{ query, catchUp },
    url: `postgres://127.0.0.1:${port}`,
    name: `127.0.0.1:${port}`,
    async pause() {
      await catchUp();
      await query("select pg_wal_replay_pause()");
      const isPaused = async () =>
        (await query("select pg_get_wal_replay_pause_state() as state"))[0].state === "paused";
      await vi.waitUntil(isPaused, POLL);
    },
    async resume() {
      await query("select pg_wal_replay_resume()");
    },
    stop: () => cluster.stop(),
    async start() {
      cluster = await startCluster({ ...options, port });
      client = await connect(cluster.url(DATABASE));
    },
    remove: () => cluster.stop(),
  };
}

/** A base backup as PostgreSQL's documentation describes it, without pg_basebackup, which the embedded server does not have. */
async function copyData(primary: ScratchCluster, owner: pg.Client, target: string): Promise<void> {
  await owner.query("select pg_backup_start('replica', true)");
  await run("cp", ["-a", primary.dataDir, target]);
  const { rows } = await owner.query("select labelfile from pg_backup_stop(false)");
  await run("rm", ["-rf", join(target, "postmaster.pid"), join(target, "postmaster.opts")]);
  const { port } = primary;
  const conninfo = `host=127.0.0.1 port=${port} user=postgres password=scratch`;
  await appendFile(
    join(target, "postgresql.auto.conf"),
    `primary_conninfo = '${conninfo}'\nmax_standby_streaming_delay = '100ms'\nwal_retrieve_retry_interval = '100ms'\n`,
  );
  const { uid, gid } = await stat(primary.dataDir);
  for (const [name, text] of [
    ["standby.signal", ""],
    ["backup_label", rows[0].labelfile],
  ]) {
    await writeFile(join(target, name), text, { mode: 0o600 });
    await chown(join(target, name), uid, gid);
  }
}
