import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { type Cluster, type ClusterOptions, startCluster } from "../../db/cluster/embedded.ts";

const EMBEDDED = new URL("../../db/cluster/embedded.ts", import.meta.url);
const DEBIAN_15 = "/usr/lib/postgresql/15/bin";
const PASSWORD = "it's a % secret";

const isRoot = process.getuid?.() === 0;

let sample: string;
let folder: string;
let dataDir: string;

beforeAll(async () => {
  sample = await makeFolder();
  const cluster = await startCluster({ dataDir: join(sample, "postgres"), password: PASSWORD, durable: false });
  await cluster.stop();
  return () => rm(sample, { recursive: true });
});

beforeEach(async (context) => {
  folder = await makeFolder();
  dataDir = join(folder, "postgres");
  // Not afterEach, which comes before the tests' own clean-up: the servers must have stopped.
  context.onTestFinished(() => rm(folder, { recursive: true, force: true }));
});

async function makeFolder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "content-service-cluster-"));
  // mkdtemp makes it 0700, and the system user the server runs as has to get in.
  await chmod(path, 0o711);
  return path;
}

/** A cluster from an earlier start, for tests that are not about the first. */
const copySample = () => execFileSync("cp", ["-a", join(sample, "postgres"), dataDir]);

async function start(options: Partial<ClusterOptions> = {}): Promise<Cluster> {
  const cluster = await startCluster({ dataDir, password: PASSWORD, durable: false, ...options });
  onTestFinished(() => cluster.stop());
  return cluster;
}

/** The rows of one statement in database postgres. */
async function query(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

const isListed = (pid: number) =>
  existsSync(`/proc/${pid}`) && !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z");

const argumentsOf = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, "utf8");

/** The server's processes: the postmaster and its children. */
function processesOf(postmaster: number): number[] {
  const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(postmaster)], { encoding: "utf8" });
  return [postmaster, ...children.trim().split(/\s+/).map(Number)];
}

/** Runs a service of its own process, which starts a cluster, prints its facts as one line and stays. */
async function startService(options: Partial<ClusterOptions> = {}, as: { uid?: number; gid?: number } = {}) {
  const script = `
    const { startCluster } = await import(${JSON.stringify(EMBEDDED)});
    const cluster = await startCluster(${JSON.stringify({ dataDir, password: PASSWORD, durable: false, ...options })});
    process.once("SIGTERM", () => process.exit());
    console.log(JSON.stringify({ pid: cluster.pid, url: cluster.url("postgres") }));`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    ...as,
    cwd: "/",
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = await once(child.stdout, "data");
  const { pid, url } = JSON.parse(String(line)) as { pid: number; url: string };
  onTestFinished(async () => {
    child.kill("SIGKILL");
    if (isListed(pid) && argumentsOf(pid).includes(dataDir)) process.kill(pid, "SIGQUIT");
    await expect.poll(() => isListed(pid)).toBe(false);
  });
  return { child, pid, url };
}

test("the first start makes the cluster and serves queries, with logical decoding", async () => {
  const cluster = await start();
  const settings = "listen_addresses|unix_socket_directories|jit|TimeZone|wal_level|fsync|server_encoding";
  const rows = await query(
    cluster.url("postgres"),
    `select json_object_agg(name, setting) as settings from pg_settings where name ~ '^(${settings})$'`,
  );
  expect(rows).toEqual([
    {
      settings: {
        listen_addresses: "127.0.0.1",
        unix_socket_directories: "",
        jit: "off",
        TimeZone: "UTC",
        wal_level: "logical",
        fsync: "off",
        server_encoding: "UTF8",
      },
    },
  ]);
  expect(cluster.port).toBeLessThan(32768);
  expect(readdirSync(folder).sort()).toEqual(["postgres", "postgres.lock"]);
});

test("the password is asked for and appears in no argument", async () => {
  copySample();
  const cluster = await start();
  const wrong = `postgres://postgres:wrong@127.0.0.1:${cluster.port}/postgres`;
  await expect(query(wrong, "select 1")).rejects.toMatchObject({ code: "28P01" });
  expect(argumentsOf(cluster.pid)).not.toContain(PASSWORD);
});

test("a second start on the same data keeps it, and is durable unless told otherwise", async () => {
  const first = await start();
  await query(first.url("postgres"), "create table kept as select 42 as answer");
  await first.stop();
  const second = await start({ durable: undefined });
  expect(await query(second.url("postgres"), "select answer from kept")).toEqual([{ answer: 42 }]);
  expect(await query(second.url("postgres"), "show fsync")).toEqual([{ fsync: "on" }]);
});

test("stop leaves no postgres process and no lock, open connections or not, and may be called twice", async () => {
  copySample();
  const cluster = await start();
  const client = new pg.Client(cluster.url("postgres"));
  client.on("error", () => {});
  await client.connect();
  const processes = processesOf(cluster.pid);
  expect(processes.length).toBeGreaterThan(4);
  await Promise.all([cluster.stop(), cluster.stop()]);
  await cluster.stop();
  await cluster.ended;
  expect(processes.filter(isListed)).toEqual([]);
  expect(readdirSync(folder)).toEqual(["postgres"]);
});

test("ended resolves when somebody else ends the server", async () => {
  copySample();
  const cluster = await start();
  process.kill(cluster.pid, "SIGINT");
  await cluster.ended;
  await cluster.stop();
});

test("a service that exits without stop takes the server with it", async () => {
  copySample();
  const service = await startService();
  service.child.kill("SIGTERM");
  await expect.poll(() => isListed(service.pid), { timeout: 5000 }).toBe(false);
  expect(readdirSync(folder)).toEqual(["postgres"]);
});

test("what a service killed with SIGKILL had committed is there for the next start, which takes over its data", async () => {
  copySample();
  const service = await startService();
  await query(service.url, "create table kept as select 42 as answer");
  service.child.kill("SIGKILL");
  await once(service.child, "exit");
  expect(isListed(service.pid)).toBe(true);
  const next = await start();
  expect(isListed(service.pid)).toBe(false);
  expect(await query(next.url("postgres"), "select answer from kept")).toEqual([{ answer: 42 }]);
});

test("a data directory that a live service uses is refused, and that service goes on", async () => {
  copySample();
  const service = await startService();
  await expect(start()).rejects.toThrow(
    `data directory ${dataDir} is in use by process ${service.child.pid}; stop it or choose another DATA_DIR`,
  );
  expect(await query(service.url, "select 1 as one")).toEqual([{ one: 1 }]);
});

test("of two starts at once on a dead service's data, one wins", async () => {
  copySample();
  await writeFile(`${dataDir}.lock`, `${deadPid()} 1`);
  const outcomes = await Promise.allSettled([start(), start()]);
  expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
});

test.each([
  ["a dead process", () => `${deadPid()} 1`],
  ["a process whose pid another one has now", () => `${process.pid} 1`],
  ["nobody, being empty", () => ""],
])("a lock left by %s is ignored", async (_owner, lock) => {
  copySample();
  await writeFile(`${dataDir}.lock`, lock());
  await start();
  expect(readFileSync(`${dataDir}.lock`, "utf8")).toMatch(new RegExp(`^${process.pid} `));
});

const deadPid = () => spawnSync("true").pid;

test("a postmaster.pid that names an unrelated process neither harms it nor hinders the start", async () => {
  copySample();
  const owner = isRoot ? { uid: statSync(dataDir).uid } : {};
  // As the server's own user: a process of somebody else PostgreSQL would ignore by itself.
  const unrelated = spawn("sleep", ["60"], owner);
  onTestFinished(() => void unrelated.kill());
  await writeFile(join(dataDir, "postmaster.pid"), `${unrelated.pid}\n${dataDir}\n1\n5432\n`);
  await start();
  expect(isListed(unrelated.pid!)).toBe(true);
});

test("what an initdb that was killed left is removed", async () => {
  await mkdir(`${dataDir}.new-abcdef/data`, { recursive: true });
  await start();
  expect(readdirSync(folder).sort()).toEqual(["postgres", "postgres.lock"]);
});

test("a directory that holds something else is refused", async () => {
  await mkdir(dataDir);
  await writeFile(join(dataDir, "diary.txt"), "");
  await expect(start()).rejects.toThrow(`data directory ${dataDir} holds no PostgreSQL cluster`);
  expect(readdirSync(folder)).toEqual(["postgres"]);
});

test("a server that ends at once is reported in its own words, and may be started again", async () => {
  copySample();
  const log: string[] = [];
  const first = await start({ onLog: (line) => log.push(line) });
  await first.stop();
  expect(log.join("\n")).toContain("database system is ready to accept connections");
  await rm(join(dataDir, "global", "pg_control"));
  await expect(start()).rejects.toThrow(/ended before it was ready:.*could not find the database system/s);
  await expect(start()).rejects.toThrow(/could not find the database system/);
});

test.skipIf(!isRoot)("as root, a place the system user cannot reach is named, with what to do", async () => {
  await chmod(folder, 0o700);
  await expect(start()).rejects.toThrow(
    new RegExp(`cannot reach ${folder}, needed for ${folder}; set DATA_DIR to .*, or run .* as an ordinary user`),
  );
});

test.skipIf(!isRoot)("as root, a cluster that root copied is given to the system user", async () => {
  copySample();
  execFileSync("chown", ["-R", "0:0", dataDir]);
  const cluster = await start();
  expect(await query(cluster.url("postgres"), "select 1 as one")).toEqual([{ one: 1 }]);
});

test.skipIf(!isRoot)("as root, another user's cluster is served as that user", async () => {
  copySample();
  execFileSync("chown", ["-R", "54321:54321", dataDir]);
  const cluster = await start();
  expect(statSync(`/proc/${cluster.pid}`)).toMatchObject({ uid: 54321, gid: 54321 });
});

test("Debian's PostgreSQL 15 works too", async (context) => {
  context.skip(!existsSync(DEBIAN_15), `${DEBIAN_15} is missing: apt-get install postgresql-15`);
  const cluster = await start({ binaries: DEBIAN_15 });
  expect(
    await query(cluster.url("postgres"), "select current_setting('server_version_num')::int / 10000 as major"),
  ).toEqual([{ major: 15 }]);
});

test("an ordinary user starts it as himself", async (context) => {
  const as = isRoot ? nobody() : { uid: process.getuid!(), gid: process.getgid!() };
  context.skip(!as, "root, and there is no user nobody who can reach this project");
  await chown(folder, as!.uid, as!.gid);
  const service = await startService({}, as);
  expect(await query(service.url, "select 1 as one")).toEqual([{ one: 1 }]);
  expect(execFileSync("ps", ["-o", "uid=", "-p", String(service.pid)], { encoding: "utf8" }).trim()).toBe(
    String(as!.uid),
  );
});

/** undefined when that user cannot run our node on our sources. */
function nobody(): { uid: number; gid: number } | undefined {
  const idOf = (flag: string) => Number(spawnSync("id", [flag, "nobody"], { encoding: "utf8" }).stdout || Number.NaN);
  const as = { uid: idOf("-u"), gid: idOf("-g") };
  if (Number.isNaN(as.uid)) return undefined;
  const attempt = spawnSync(process.execPath, [EMBEDDED.pathname], { ...as, cwd: "/" });
  return attempt.status === 0 ? as : undefined;
}
