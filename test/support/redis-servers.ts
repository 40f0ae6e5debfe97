import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { newCertificate } from "./certificate.ts";
import { Program } from "./program.ts";
import { REDIS_PROGRAM, sendTo, startRedis, type TestRedis } from "./redis.ts";
import { accepts, POLL } from "./until.ts";

const folder = async () => {
  const path = await mkdtemp(join(tmpdir(), "redis-"));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
};

export type TestServers = {
  readonly url: string;
  /** The port of the server that has the key. */
  primary(key: string): Promise<number>;
  /** Another server becomes the one that has the key. */
  move(key: string): Promise<void>;
  stop(): Promise<void>;
};

/** A server with TLS, which accepts clients with this certificate only. */
export async function startRedisWithTls(): Promise<Pick<TestServers, "url" | "stop">> {
  const { path, remove } = await folder();
  const { privateKey, certificate } = newCertificate("localhost");
  const [cert, key] = [join(path, "cert.pem"), join(path, "key.pem")];
  await Promise.all([writeFile(cert, certificate), writeFile(key, privateKey)]);
  const port = await findFreePort();
  const files = ["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert];
  const server = await startRedis({ more: ["--tls-port", `${port}`, ...files] });
  return {
    url: `rediss://content:secret@localhost:${port}?sslrootcert=${cert}&sslcert=${cert}&sslkey=${key}`,
    stop: () => server.kill().then(remove),
  };
}

/** A primary, its replica, and two Sentinels, which require a password. The URL also names one that does not run. */
export async function startSentinels(): Promise<TestServers> {
  const { path, remove } = await folder();
  const first = await startRedis({ more: ["--dir", path] });
  const second = await startRedis({ more: ["--dir", path, "--replicaof", "127.0.0.1", `${first.port}`] });
  const hasReplica = async (port: number) => `${await sendTo(port, "INFO", "replication")}`.includes("state=online");
  await vi.waitUntil(() => hasReplica(first.port), POLL);
  const ports = [await findFreePort(), await findFreePort()];
  const sentinels = await Promise.all(
    ports.map(async (port, i) => {
      const file = join(path, `sentinel-${i}.conf`);
      await writeFile(
        file,
        `port ${port}
bind 127.0.0.1
user watcher on >watch allchannels allcommands
sentinel monitor main 127.0.0.1 ${first.port} 1
sentinel failover-timeout main 1000
`,
      );
      return Program.start({ command: [REDIS_PROGRAM!, file, "--sentinel"], isReady: () => accepts(port) });
    }),
  );
  const knowsReplica = async (port: number) =>
    ((await sendTo(port, "SENTINEL", "REPLICAS", "main")) as unknown[]).length === 1;
  for (const port of ports) await vi.waitUntil(() => knowsReplica(port), POLL);
  const primaryOf = async (port: number) =>
    Number(((await sendTo(port, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")) as string[])[1]);
  const hosts = [...ports, await findFreePort()].map((port) => `127.0.0.1:${port}`);
  return {
    url: `redis+sentinel://content:secret@${hosts.join(",")}/main?sentinel_user=watcher&sentinel_password=watch`,
    primary: () => primaryOf(ports[0]!),
    async move() {
      const before = await primaryOf(ports[0]!);
      await sendTo(ports[0]!, "SENTINEL", "FAILOVER", "main");
      for (const port of ports) await vi.waitUntil(async () => (await primaryOf(port)) !== before, POLL);
      // Until then, the Sentinels may end connections again.
      await vi.waitUntil(async () => hasReplica(await primaryOf(ports[0]!)), POLL);
    },
    async stop() {
      await Promise.all([...sentinels, first, second].map((each) => each.kill()));
      await remove();
    },
  };
}

const SLOTS = 16_384;

/** A cluster of three nodes, of which the URL names one that runs, and one that does not. */
export async function startRedisCluster(): Promise<TestServers> {
  const { path, remove } = await folder();
  const nodes = await Promise.all(
    [0, 1, 2].map(async (i) => {
      const bus = await findFreePort();
      const files = ["--dir", path, "--cluster-config-file", `nodes-${i}.conf`];
      const more = [...files, "--cluster-enabled", "yes", "--cluster-port", `${bus}`];
      return Object.assign(await startRedis({ more }), { bus });
    }),
  );
  const share = Math.ceil(SLOTS / nodes.length);
  for (const [i, node] of nodes.entries()) {
    const last = Math.min(SLOTS, (i + 1) * share) - 1;
    await node.send("CLUSTER", "ADDSLOTSRANGE", `${i * share}`, `${last}`);
    if (i > 0) await nodes[0]!.send("CLUSTER", "MEET", "127.0.0.1", `${node.port}`, `${node.bus}`);
  }
  const isComplete = async (node: TestRedis) => {
    const info = `${await node.send("CLUSTER", "INFO")}`;
    return /cluster_state:ok/.test(info) && /cluster_known_nodes:3/.test(info);
  };
  for (const node of nodes) await vi.waitUntil(() => isComplete(node), POLL);
  const slotOf = (key: string) => nodes[0]!.send("CLUSTER", "KEYSLOT", key) as Promise<number>;
  const has = async (node: TestRedis, key: string) =>
    node.send("EXISTS", key).then(
      () => true,
      () => false,
    );
  const owner = async (key: string) => {
    for (const node of nodes) if (await has(node, key)) return node;
    throw new Error("no node has the key");
  };
  const hosts = [nodes[0]!.port, await findFreePort()].map((port) => `127.0.0.1:${port}`);
  return {
    url: `redis+cluster://content:secret@${hosts.join(",")}`,
    primary: async (key) => (await owner(key)).port,
    async move(key) {
      const [from, slot] = [await owner(key), String(await slotOf(key))];
      const to = nodes[(nodes.indexOf(from as (typeof nodes)[0]) + 1) % nodes.length]!;
      const id = `${await to.send("CLUSTER", "MYID")}`;
      await to.send("CLUSTER", "SETSLOT", slot, "IMPORTING", `${await from.send("CLUSTER", "MYID")}`);
      await from.send("CLUSTER", "SETSLOT", slot, "MIGRATING", id);
      // Keys may be added until the slot belongs to the other node.
      const moveKeys = async () => {
        const keys = (await from.send("CLUSTER", "GETKEYSINSLOT", slot, "1000")) as string[];
        if (keys.length > 0) await from.send("MIGRATE", "127.0.0.1", `${to.port}`, "", "0", "5000", "KEYS", ...keys);
        return keys.length === 0;
      };
      await vi.waitUntil(moveKeys, POLL);
      for (const node of [to, from, ...nodes]) await node.send("CLUSTER", "SETSLOT", slot, "NODE", id);
    },
    async stop() {
      await Promise.all(nodes.map((node) => node.kill()));
      await remove();
    },
  };
}
