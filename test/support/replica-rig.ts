import pg from "pg";
import { onTestFinished, vi } from "vitest";
import { startScratchCluster } from "../../cli/scratch-cluster.ts";
import type { TestDatabase } from "./database.ts";
import type { TestService } from "./service.ts";
import { allowReplication, startReplica, type TestReplica } from "./streaming-replica.ts";
import { POLL } from "./until.ts";

const DATABASE = "content";

export type ReplicaRig = {
  readonly primary: TestDatabase;
  readonly replicas: readonly TestReplica[];
  /** Ends the primary as a crash does. */
  killPrimary(): Promise<void>;
  remove(): Promise<void>;
};

/** A server of its own with one empty database, and streaming replicas of it. */
export async function startReplicaRig(count: number): Promise<ReplicaRig> {
  const cluster = await startScratchCluster();
  const clients: pg.Client[] = [];
  const connect = async (url: string) => {
    const client = new pg.Client({ connectionString: url });
    clients.push(client);
    // A primary that is killed ends it.
    client.on("error", () => {});
    await client.connect();
    return client;
  };
  const replicas: TestReplica[] = [];
  const remove = async () => {
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
    for (const replica of replicas) await replica.remove();
    await cluster.remove();
  };
  try {
    const root = await connect(cluster.url("postgres"));
    await root.query(`create database ${DATABASE}`);
    const owner = await connect(cluster.url(DATABASE));
    await allowReplication(cluster, owner);
    for (let i = 0; i < count; i++) replicas.push(await startReplica(cluster, owner, DATABASE, i));
    const primary = { name: DATABASE, url: cluster.url(DATABASE), owner, drop: async () => {} };
    const killPrimary = () => {
      process.kill(cluster.pid, "SIGKILL");
      return cluster.ended;
    };
    return { primary, replicas, killPrimary, remove };
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
