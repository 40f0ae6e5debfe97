import { chmod, copyFile, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findTemporaryFolder } from "../../cli/scratch-cluster.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { type Haproxy, hasHaproxy, startHaproxy, startHaproxyOfInstances } from "../support/haproxy.ts";
import { hasPgBouncer, type Pooler, startDocumentedPooler } from "../support/pooler.ts";
import { processesBelow } from "../support/processes.ts";
import { Program } from "../support/program.ts";
import { hasRedis, startRedis, type TestRedis } from "../support/redis.ts";
import { Relay } from "../support/relay.ts";
import { Servers } from "./servers.ts";

const PROJECT = join(import.meta.dirname, "../..");

export const SECRET = "a secret of the rig, long enough for HS256";
/** Requests per minute of each user. */
export const RATE_LIMIT = 600;
/** The number of worker processes of each instance. */
const WORKERS = [1, 1, 2];

/** The packages of Debian that are not installed. */
export const missingPackages = (): string[] => [
  ...(hasHaproxy ? [] : ["haproxy"]),
  ...(hasPgBouncer ? [] : ["pgbouncer"]),
  ...(hasRedis ? [] : ["redis-server"]),
];

/** For commands. Tests are skipped. */
export function refuseMissing(): void {
  const missing = missingPackages();
  if (missing.length === 0) return;
  process.stderr.write(`not installed: ${missing.join(", ")}\n  apt-get install ${missing.join(" ")}\n`);
  process.exit(2);
}

export type Instance = {
  readonly name: string;
  readonly url: string;
  readonly workers: number;
  readonly program: Program;
};

/** Networks between the parts, which are cut. */
export type Links = {
  /** From the instances to PgBouncer. */
  readonly pooler: Relay;
  /** From the instances to the HAProxy of the primary: LISTEN, changes, tasks. */
  readonly direct: Relay;
  readonly redis: Relay;
};

export type Rig = AsyncDisposable & {
  /** HAProxy in front of the instances. */
  readonly url: string;
  /** Of the data and the logs. It is removed with the rig. */
  readonly folder: string;
  readonly servers: Servers;
  readonly instances: readonly Instance[];
  readonly front: Haproxy;
  /** HAProxy in front of the database servers: to the primary. */
  readonly primary: Haproxy;
  readonly pooler: Pooler;
  readonly redis: TestRedis;
  readonly links: Links;
};

/** All parts of a service that has outgrown one machine, on this one. `onStep` is called with what starts. */
export async function startRig(onStep: (text: string) => void = () => {}): Promise<Rig> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(await findTemporaryFolder(), "content-rig-"));
  stack.defer(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  // Servers run as other users than root.
  await chmod(folder, 0o711);
  const logOf = (name: string) => join(folder, `${name}.log`);
  const open = async (port: number) => stack.use(await Relay.open(`tcp://127.0.0.1:${port}`));

  onStep("a primary and two standbys");
  const servers = stack.use(await Servers.start(folder));
  onStep("HAProxy, PgBouncer and Valkey or Redis");
  const primary = await startHaproxy(
    servers.all.map((server) => server.url()),
    logOf("primary"),
  );
  stack.defer(primary.stop);
  const toPrimary = Object.assign(new URL(servers.primary.url()), { port: String(primary.port) }).href;
  const pooler = await startDocumentedPooler(toPrimary, logOf("pooler"));
  stack.defer(pooler.stop);
  const redis = await startRedis();
  stack.defer(redis.kill);
  const links = {
    pooler: await open(pooler.port),
    direct: await open(primary.port),
    redis: await open(redis.port),
  };

  onStep("three instances");
  const settings = settingsOf(servers, links);
  const instances: Instance[] = [];
  const start = async (workers: number, at: number) => {
    const name = `instance_${at + 1}`;
    const port = await findFreePort();
    const environment = { ...settings, PORT: String(port), INSTANCE_ID: name, WORKERS: String(workers) };
    const url = `http://127.0.0.1:${port}`;
    const program = await Program.start({
      ...{ environment, folder: PROJECT, log: logOf(name) },
      command: [process.execPath, "cli/content-service.ts", "start", "demo"],
      isReady: () =>
        fetch(`${url}/ready`).then(
          ({ ok }) => ok,
          () => false,
        ),
    });
    stack.defer(() => program.kill());
    instances[at] = { name, url, workers, program };
  };
  // The first one prepares the database.
  const [first, ...others] = WORKERS;
  await start(first!, 0);
  await Promise.all(others.map((workers, at) => start(workers, at + 1)));
  const front = await startHaproxyOfInstances(
    instances.map(({ url }) => Number(new URL(url).port)),
    logOf("front"),
  );
  stack.defer(front.stop);
  const parts = stack.move();
  return {
    ...{ folder, servers, instances, front, primary, pooler, redis, links },
    url: `http://127.0.0.1:${front.port}`,
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

/** Copies the logs into a folder that stays when the rig is gone. Returns its path. */
export async function keepLogs({ folder }: Pick<Rig, "folder">): Promise<string> {
  const kept = await mkdtemp(join(tmpdir(), "content-rig-logs-"));
  const logs = (await readdir(folder)).filter((name) => name.endsWith(".log"));
  await Promise.all(logs.map((name) => copyFile(join(folder, name), join(kept, name))));
  return kept;
}

/** The process of the first worker of an instance with `WORKERS`. */
export const workerOf = ({ program }: Instance): number => processesBelow(program.pid)[0]!;

function settingsOf({ primary, all }: Servers, { pooler, direct, redis }: Links): Record<string, string> {
  const databaseAt = (port: number) => Object.assign(new URL(primary.url()), { port: String(port) }).href;
  return {
    PATH: process.env.PATH ?? "",
    DATABASE_URL: databaseAt(pooler.port),
    DATABASE_DIRECT_URL: databaseAt(direct.port),
    // The primary is no replica and answers nothing. After a promotion it is another one.
    DATABASE_REPLICA_URLS: all.map(({ reads }) => `postgres://127.0.0.1:${reads.port}`).join(),
    DB_PREPARED_STATEMENTS: "0",
    REDIS_URL: `redis://content:secret@127.0.0.1:${redis.port}`,
    JWT_SECRET: SECRET,
    MFA_KEY: SECRET,
    TRUST_PROXY: "127.0.0.1",
    RATE_LIMIT: String(RATE_LIMIT),
    // After a gap, clients read all rows that were written.
    DB_MAX_ROWS: "0",
    API_KEY_REQUIRED: "off",
    METRICS: "on",
    SEED: "none",
    LOG_LEVEL: "info",
    NODE_COMPILE_CACHE: "node_modules/.cache/compiled",
  };
}
