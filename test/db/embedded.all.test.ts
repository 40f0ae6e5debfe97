import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { chmod, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { type Cluster, type ClusterOptions, startCluster } from "../../db/cluster/embedded.ts";
import { POLL } from "../support/until.ts";

const EMBEDDED = new URL("../../db/cluster/embedded.ts", import.meta.url);
const PASSWORD = "it's a % secret";

const isRoot = process.getuid?.() === 0;

let folder: string;
/** Kept between tests, like an operator's data. */
let dataDir: string;

beforeAll(async () => {
  folder = await makeFolder();
  dataDir = join(folder, "postgres");
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function makeFolder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "content-service-cluster-"));
  // mkdtemp creates it with 0700, but the server's system user must be able to enter it.
  await chmod(path, 0o711);
  return path;
}

/** A data directory separate from that of the other tests. */
async function otherFolder(): Promise<string> {
  const path = await makeFolder();
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

const startShared = (options: Partial<ClusterOptions> = {}) =>
  startCluster({ dataDir, password: PASSWORD, durable: false, ...options });

async function start(options: Partial<ClusterOptions> = {}): Promise<Cluster> {
  const cluster = await startShared(options);
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

const deadPid = () => spawnSync("true").pid;

/** The server's processes: the postmaster and its children. */
function processesOf(postmaster: number): number[] {
  const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(postmaster)], { encoding: "utf8" });
  return [postmaster, ...children.trim().split(/\s+/).map(Number)];
}

/** Runs a separate service process, which starts a cluster, and then the script. */
function runService(script: string, options: Partial<ClusterOptions> = {}) {
  const given = JSON.stringify({ dataDir, password: PASSWORD, durable: false, ...options });
  const begin = `
    const { startCluster } = await import(${JSON.stringify(EMBEDDED)});
    const cluster = await startCluster(${given});
    ${script}`;
  const child = spawn(process.execPath, ["--max-old-space-size=64", "--input-type=module", "-e", begin], {
    cwd: "/",
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

/** Prints the server's pid and keeps running. */
async function startService() {
  const child = runService('process.once("SIGTERM", () => process.exit()); console.log(cluster.pid);');
  const [line] = await once(child.stdout, "data");
  const pid = Number(line);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    if (isListed(pid) && argumentsOf(pid).includes(dataDir)) process.kill(pid, "SIGQUIT");
    await expect.poll(() => isListed(pid)).toBe(false);
  });
  return { child, pid };
}

describe("the first start", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    await mkdir(`${dataDir}.new-abcdef/data`, { recursive: true });
    cluster = await startShared();
    return () => cluster.stop();
  });

  test("creates the cluster and serves queries, with logical decoding", async () => {
    const settings = "listen_addresses|unix_socket_directories|jit|TimeZone|wal_level|fsync|server_encoding";
    const rows = await query(
      cluster.url("postgres"),
      `select json_object_agg(name, setting) as settings from pg_settings where name ~ '^(${settings})$'`,
    );
    expect(rows).toEqual([
      {
        settings: {
          listen_addresses: "127.0.0.1",
          unix_socket_directories: `"${dataDir}"`,
          jit: "off",
          TimeZone: "UTC",
          wal_level: "logical",
          fsync: "off",
          server_encoding: "UTF8",
        },
      },
    ]);
    expect(cluster.port).toBeLessThan(32768);
    await query(cluster.url("postgres"), "create table kept as select 42 as answer");
  });

  test("listens on a Unix socket too, in a folder that only its user may enter", async () => {
    const through = "select inet_server_addr()::text as address";
    expect(await query(cluster.socketUrl("postgres"), through)).toEqual([{ address: null }]);
    expect(await query(cluster.url("postgres"), through)).toEqual([{ address: "127.0.0.1/32" }]);
    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
    const wrong = cluster.socketUrl("postgres").replace(encodeURIComponent(PASSWORD), "wrong");
    await expect(query(wrong, "select")).rejects.toMatchObject({ code: "28P01" });
  });

  test("removes the files of an initdb that was killed", () =>
    expect(readdirSync(folder).sort()).toEqual(["postgres", "postgres.lock"]));

  test("requires the password, which no process argument contains", async () => {
    const wrong = `postgres://postgres:wrong@127.0.0.1:${cluster.port}/postgres`;
    await expect(query(wrong, "select 1")).rejects.toMatchObject({ code: "28P01" });
    expect(argumentsOf(cluster.pid)).not.toContain(PASSWORD);
  });

  test("ends with stop, which leaves no process and no lock even with open connections, and may be called twice", async () => {
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
});

describe("a data directory", () => {
  const sockets = (of: string) => readdirSync(of).filter((name) => name.startsWith(".s.PGSQL."));

  test("whose path has a space, a comma and other characters has a socket", async () => {
    const other = join(await otherFolder(), "a, b c%é");
    const cluster = await start({ dataDir: other });
    expect(cluster.socketUrl("postgres")).not.toBe(cluster.url("postgres"));
    expect(await query(cluster.socketUrl("postgres"), "select 1 as one")).toEqual([{ one: 1 }]);
  });

  test("whose path is too long for a socket has none", async () => {
    const cluster = await start({ dataDir: join(await otherFolder(), "x".repeat(90)) });
    expect(cluster.socketUrl("postgres")).toBe(cluster.url("postgres"));
    expect(await query(cluster.url("postgres"), "show unix_socket_directories")).toEqual([
      { unix_socket_directories: "" },
    ]);
  });

  test("has only the socket of the running server, even after one that was killed", async () => {
    const other = join(await otherFolder(), "postgres");
    const first = await startCluster({ dataDir: other, password: PASSWORD, durable: false });
    process.kill(first.pid, "SIGKILL");
    await first.ended;
    await first.stop();
    expect(sockets(other).length).toBeGreaterThan(0);
    const { port } = await start({ dataDir: other });
    expect(sockets(other).sort()).toEqual([`.s.PGSQL.${port}`, `.s.PGSQL.${port}.lock`]);
  });
});

describe("a later start", () => {
  let cluster: Cluster;
  const log: string[] = [];
  beforeAll(async () => {
    // An empty lock, without an owner.
    await writeFile(`${dataDir}.lock`, "");
    cluster = await startShared({ durable: undefined, onLog: (line) => log.push(line) });
    return () => cluster.stop();
  });

  test("keeps the data, and is durable by default", async () => {
    expect(await query(cluster.url("postgres"), "select answer from kept")).toEqual([{ answer: 42 }]);
    expect(await query(cluster.url("postgres"), "show fsync")).toEqual([{ fsync: "on" }]);
  });

  test("has the same port with each start, so that saved connections stay valid, unless another program has it", async () => {
    const own = { dataDir: join(await otherFolder(), "postgres") };
    const first = await startShared(own);
    await first.stop();
    const second = await startShared(own);
    await second.stop();
    expect(second.port).toBe(first.port);
    const other = createServer().listen(first.port, "127.0.0.1");
    await once(other, "listening");
    onTestFinished(() => void other.close());
    expect((await start(own)).port).not.toBe(first.port);
  });

  test("ignores an empty lock", () => {
    expect(readFileSync(`${dataDir}.lock`, "utf8")).toMatch(new RegExp(`^${process.pid} `));
  });

  test("forwards the log of the server", () =>
    expect(log.join("\n")).toContain("database system is ready to accept connections"));

  test("resolves ended when another process ends the server", async () => {
    process.kill(cluster.pid, "SIGINT");
    await cluster.ended;
  });
});

describe("a start after a crash", () => {
  let unrelated: number;
  beforeAll(async () => {
    const owner = isRoot ? { uid: statSync(dataDir).uid } : {};
    // As the server's user: PostgreSQL itself ignores the processes of other users.
    const sleep = spawn("sleep", ["60"], owner);
    unrelated = sleep.pid!;
    await writeFile(join(dataDir, "postmaster.pid"), `${unrelated}\n${dataDir}\n1\n5432\n`);
    await writeFile(`${dataDir}.lock`, `${process.pid} 1`);
    const cluster = await startShared();
    return async () => {
      await cluster.stop();
      sleep.kill();
    };
  });

  test("ignores the lock of a process whose pid has been reused", () => {
    expect(readFileSync(`${dataDir}.lock`, "utf8")).toMatch(new RegExp(`^${process.pid} (?!1$)`));
  });

  test("ignores a postmaster.pid that names an unrelated process, and does not end that process", () => {
    expect(isListed(unrelated)).toBe(true);
  });
});

test("one of two concurrent starts on a dead service's data succeeds", async () => {
  await writeFile(`${dataDir}.lock`, `${deadPid()} 1`);
  const outcomes = await Promise.allSettled([start(), start()]);
  expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
});

test("a service that exits without stop ends the server", async () => {
  const service = await startService();
  service.child.kill("SIGTERM");
  await expect.poll(() => isListed(service.pid)).toBe(false);
  await expect.poll(() => readdirSync(folder)).toEqual(["postgres"]);
});

test.each<[string, (service: ChildProcess) => void]>([
  ["is killed", (service) => service.kill("SIGKILL")],
  ["is killed with its process group", (service) => process.kill(-service.pid!, "SIGKILL")],
])("a service that %s leaves no server", async (_, kill) => {
  const { child, pid } = await startService();
  const processes = processesOf(pid);
  kill(child);
  await expect.poll(() => processes.filter(isListed), POLL).toEqual([]);
  const cluster = await start();
  expect(await query(cluster.url("postgres"), "select 1 as one")).toEqual([{ one: 1 }]);
});

test("a service whose memory is exhausted leaves no server", async () => {
  const child = runService("console.log(cluster.pid); const all = []; for (;;) all.push(new Array(10_000).fill(all));");
  const [line] = await once(child.stdout, "data");
  const [, signal] = await once(child, "exit");
  expect(signal).toBe("SIGABRT");
  await expect.poll(() => isListed(Number(line)), POLL).toBe(false);
});

test("services that are killed at any moment of their start, during initdb too, leave no process and a usable directory", async () => {
  const other = join(await otherFolder(), "postgres");
  const named = () =>
    execFileSync("ps", ["-eww", "-o", "args="], { encoding: "utf8" })
      .split("\n")
      .filter((line) => line.includes(other));
  for (let i = 0; i < 10; i++) {
    const child = runService("", { dataDir: other });
    // The moments of a start: the lock, initdb, its end, the server, its readiness.
    const reached = [
      () => existsSync(`${other}.lock`),
      () => named().some((line) => line.includes("initdb")) || existsSync(other),
      () => named().some((line) => line.includes("--boot")) || existsSync(other),
      () => existsSync(other),
      () => named().some((line) => line.includes("/postgres -D")),
      () => existsSync(join(other, "postmaster.pid")),
    ][randomInt(6)]!;
    await expect.poll(reached, { ...POLL, interval: 1 }).toBe(true);
    child.kill("SIGKILL");
    await expect.poll(() => named().filter((line) => !line.startsWith(process.execPath)), POLL).toEqual([]);
  }
  const cluster = await start({ dataDir: other });
  expect(await query(cluster.url("postgres"), "select 1 as one")).toEqual([{ one: 1 }]);
  await cluster.stop();
  expect(readdirSync(join(other, ".."))).toEqual(["postgres"]);
});

test("a server that ends at once is reported with its log, and can be started again", async () => {
  const control = join(dataDir, "global", "pg_control");
  await rename(control, `${control}.away`);
  await expect(start()).rejects.toThrow(/ended before it was ready:.*could not find the database system/s);
  await expect(start()).rejects.toThrow(/could not find the database system/);
  await rename(`${control}.away`, control);
});

test("a directory with other files is refused", async () => {
  const other = join(await otherFolder(), "postgres");
  await mkdir(other);
  await writeFile(join(other, "diary.txt"), "");
  await expect(start({ dataDir: other })).rejects.toThrow(
    `data directory ${other} does not contain a PostgreSQL cluster`,
  );
  expect(readdirSync(join(other, ".."))).toEqual(["postgres"]);
});

test("clusters that start at once with a folder of copies are copies of one", async () => {
  const home = await otherFolder();
  const copies = join(home, "copies");
  await mkdir(copies);
  const clusters = await Promise.all(["a", "b"].map((name) => start({ dataDir: join(home, name), copies })));
  const identifiers = clusters.map(({ url }) =>
    query(url("postgres"), "select system_identifier::text from pg_control_system()"),
  );
  expect(new Set((await Promise.all(identifiers)).map((rows) => JSON.stringify(rows))).size).toBe(1);
  expect(readdirSync(copies)).toHaveLength(1);
});

describe.skipIf(!isRoot)("when started by root", () => {
  test("a folder that the system user cannot access is reported, with advice", async () => {
    const closed = await otherFolder();
    await chmod(closed, 0o700);
    await expect(start({ dataDir: join(closed, "postgres") })).rejects.toThrow(
      new RegExp(`cannot reach ${closed}, needed for ${closed}; set DATA_DIR to .*, or run .* as an ordinary user`),
    );
  });

  test("a cluster that root has copied becomes the property of the system user", async () => {
    execFileSync("chown", ["-R", "0:0", dataDir]);
    const cluster = await start();
    expect(await query(cluster.url("postgres"), "select 1 as one")).toEqual([{ one: 1 }]);
  });

  test("the cluster of another user is served as that user", async () => {
    execFileSync("chown", ["-R", "54321:54321", dataDir]);
    const cluster = await start();
    expect(statSync(`/proc/${cluster.pid}`)).toMatchObject({ uid: 54321, gid: 54321 });
  });
});
