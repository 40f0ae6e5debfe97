import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { Tokens } from "../../identity/tokens.ts";
import { type Command, nodeStart, terminalStart } from "../support/command.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { argumentsOf, kill, processesBelow, processesNamed } from "../support/processes.ts";
import { JWT_SECRET } from "../support/service.ts";
import { POLL } from "../support/until.ts";

const OTHER_SECRET = "another secret of the tests, long enough for HS256";

let folder: string;
let dataDir: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "content-service-signals-"));
  // The system user of PostgreSQL must be able to enter the directory.
  chmodSync(folder, 0o711);
  dataDir = join(folder, "data");
});
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));

const { SIGUSR2 } = constants.signals;

/** Whether a process is the service, and has a handler for the signal. */
function handles(pid: number, signal: number): boolean {
  const [, caught = "0"] = /^SigCgt:\s*(\w+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return argumentsOf(pid).includes("/server.ts") && ((BigInt(`0x${caught}`) >> BigInt(signal - 1)) & 1n) === 1n;
}

const messagesOf = (command: Command, level: string) =>
  command.logged.filter((line) => line.level === level).map(({ msg }) => msg);

describe("a running service with a settings file", () => {
  let database: TestDatabase;
  let command: Command;
  let file: string;
  const PROCESSES = 2;
  const settings = (text: string) => writeFileSync(file, `# Settings of the test\n${text}\n`);

  beforeAll(async () => {
    database = await createTestDatabase();
    file = join(folder, "settings.env");
    settings(`JWT_SECRET="${JWT_SECRET}"\nLOG_LEVEL=info`);
    const environment = {
      DATABASE_URL: database.url,
      SETTINGS_FILE: file,
      WORKERS: String(PROCESSES),
      GRAPHQL_DOCUMENTS: "any",
    };
    command = nodeStart({ dataDir, settings: environment, shared: true });
    // As early as the process handles them: long before the service does.
    await vi.waitUntil(() => handles(command.child.pid!, SIGUSR2), { ...POLL, interval: 1 });
    for (const signal of ["SIGUSR1", "SIGUSR2"] as const) kill(command.child.pid!, signal);
    await command.ready();
    // The service may have accepted the early signal too: its reload is not one of those that a test waits for.
    const early = messagesOf(command, "info").filter((msg) => msg === "reloading the settings").length;
    await vi.waitUntil(() => reloads() === PROCESSES * early, POLL);
  });
  // Not as the result of beforeAll, which has none if it fails.
  afterAll(async () => {
    await command?.end();
    await database?.drop();
  });

  const key = (secret: string) =>
    new Tokens({ secret, privateKey: "", audience: "", anonymousRole: "anon", accessSeconds: 3600 }).issueKey(
      "service_role",
    );
  /** The status on a new connection, because connections are distributed over the processes. */
  const ask = async (path: string, headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(command.url + path, { headers: { connection: "close", ...headers } });
    await response.arrayBuffer();
    return response;
  };
  /** The distinct values of eight requests, so that each process has probably answered one. */
  const everywhere = async <T>(read: () => Promise<T>) =>
    [...new Set(await Promise.all(Array.from({ length: 8 }, read)))] as T[];
  const statuses = (path: string, headers?: Readonly<Record<string, string>>) =>
    everywhere(async () => (await ask(path, headers)).status);
  /** How often a process has read the settings again. */
  const reloads = () =>
    command.logged.filter(({ msg }) => /^the settings (have been|cannot be) reloaded/.test(msg)).length;
  const reload = async () => {
    const before = reloads();
    kill(command.child.pid!, "SIGUSR2");
    await expect.poll(reloads, POLL).toBe(before + PROCESSES);
  };

  test("SIGUSR1 makes every process read the schema again", async () => {
    // Otherwise the database itself reports the change.
    const { rows } = await database.owner.query("select evtname from pg_event_trigger");
    for (const { evtname } of rows) await database.owner.query(`alter event trigger ${evtname} disable`);
    await database.owner.query("create table public.notes (id int primary key); grant select on public.notes to anon");
    const headers = { apikey: key(JWT_SECRET) };
    await database.owner.query("grant select on public.notes to service_role");
    const paths = async () =>
      Object.keys(
        (
          (await (
            await fetch(`${command.url}/rest/v1/`, { headers: { ...headers, connection: "close" } })
          ).json()) as any
        ).paths,
      ).includes("/notes");
    expect(await everywhere(paths)).toEqual([false]);
    kill(command.child.pid!, "SIGUSR1");
    await expect.poll(() => everywhere(paths), POLL).toEqual([true]);
  });

  test("no signal opens the inspector", () => {
    expect(command.stdout + command.stderr).not.toMatch(/debugger|inspector/i);
    expect(messagesOf(command, "info")).toContain("reloading the schema");
  });

  test("SIGUSR2 applies changed origins, limits, keys and the log level in every process", async () => {
    const origin = { origin: "https://app.example.com" };
    const allowed = async () => (await ask("/live", origin)).headers.get("access-control-allow-origin");
    expect(await everywhere(allowed)).toEqual(["*"]);
    expect(await statuses("/rest/v1/users", { apikey: key(OTHER_SECRET) })).toEqual([401]);
    expect((await ask("/users")).headers.get("x-ratelimit-limit")).toBe(null);

    settings(
      `JWT_SECRET="${OTHER_SECRET}"\nJWT_PREVIOUS_KEY="${JWT_SECRET}"\nCORS_ORIGINS=https://app.example.com\nLOG_LEVEL=debug\nDB_MAX_ROWS=2\nGRAPHQL_MAX_DEPTH=2`,
    );
    await reload();
    const errorOf = async (query: string) => {
      const headers = { "content-type": "application/json", connection: "close" };
      const sent = { method: "POST", headers, body: JSON.stringify({ query }) };
      return ((await (await fetch(`${command.url}/graphql`, sent)).json()) as any).errors?.[0].message;
    };
    expect(await everywhere(() => errorOf("{ user(id: 1) { id } }"))).toEqual([undefined]);
    expect(await everywhere(() => errorOf("{ user(id: 1) { articles { id } } }"))).toEqual([
      "the operation has depth 3; the maximum is 2",
    ]);
    expect(await everywhere(allowed)).toEqual(["https://app.example.com"]);
    for (const secret of [JWT_SECRET, OTHER_SECRET]) {
      const headers = { apikey: key(secret) };
      const rows = async () =>
        ((await (await fetch(`${command.url}/rest/v1/users?select=id`, { headers })).json()) as []).length;
      expect(await everywhere(rows)).toEqual([2]);
    }
    await expect.poll(() => messagesOf(command, "debug"), POLL).toContain("request");
  });

  test("SIGUSR2 ends what an invalid file would change, and names settings that need a restart", async () => {
    settings(`JWT_SECRET="${OTHER_SECRET}"\nCORS_ORIGINS=app.example.com`);
    await reload();
    expect(messagesOf(command, "error")).toContain(
      'the settings cannot be reloaded, the previous ones stay in use: CORS_ORIGINS must be * or origins such as https://app.example.com (is "app.example.com")',
    );
    expect(await statuses("/rest/v1/users", { apikey: key(JWT_SECRET) })).toEqual([200]);

    settings(`JWT_SECRET="${OTHER_SECRET}"\nDB_POOL=3`);
    await reload();
    expect(command.logged).toContainEqual(
      expect.objectContaining({
        level: "warn",
        settings: ["DB_POOL"],
        msg: "these changed settings need a restart",
      }),
    );
    expect(await statuses("/rest/v1/users", { apikey: key(JWT_SECRET) })).toEqual([401]);
  });

  test("SIGHUP waits for running requests and stops everything", async () => {
    await database.owner.query("begin; lock table users in access exclusive mode");
    const answer = fetch(`${command.url}/users/1`).then((response) => response.status);
    // Others may wait for the table too, such as a read of the catalog.
    const requests = `select from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and query like '%from "public"."users" as t%'`;
    const waiting = async () => {
      // A transaction sees the activity of its first look otherwise.
      await database.owner.query("select pg_stat_clear_snapshot()");
      return (await database.owner.query(requests)).rowCount;
    };
    await expect.poll(waiting, POLL).toBe(1);
    kill(command.child.pid!, "SIGHUP");
    await expect.poll(() => messagesOf(command, "info"), POLL).toContain("stopping");
    await database.owner.query("rollback");
    expect(await answer).toBe(200);
    expect(await command.exited()).toBe(0);
    expect(processesNamed("server.ts", command.child.pid!)).toEqual([]);
  });
});

test.each([
  ["", {}],
  [" with WORKERS", { WORKERS: "2" }],
])("SIGTERM stops a service%s that waits for the migrations of another one", async (_, workers) => {
  const database = await createTestDatabase();
  try {
    await database.owner.query("select pg_advisory_lock(hashtext('content-service:migrate'))");
    const settings = { DATABASE_URL: database.url, JWT_SECRET, ...workers };
    const command = nodeStart({ dataDir, settings, shared: true });
    await expect
      .poll(() => messagesOf(command, "warn"), POLL)
      .toContain("another service is migrating the database: waiting");
    kill(command.child.pid!, "SIGTERM");
    expect(await command.exited()).toBe(0);
    expect(messagesOf(command, "fatal")).toEqual([]);
    expect(processesNamed("server.ts", command.child.pid!)).toEqual([]);
  } finally {
    await database.drop();
  }
});

describe("a service whose terminal is closed", () => {
  const postmaster = () => processesNamed(`-D ${join(dataDir, "postgres")}`)[0];
  const start = (settings: Record<string, string> = {}) =>
    terminalStart({ dataDir, settings: { GRAPHQL_DOCUMENTS: "none", ...settings } });

  test("leaves nothing behind, not even during the start", async () => {
    const command = start();
    await expect.poll(postmaster, POLL).toBeDefined();
    const started = processesBelow(command.child.pid!);
    expect(started.length).toBeGreaterThan(1);
    kill(command.child.pid!, "SIGKILL");
    await expect.poll(() => processesNamed(dataDir), POLL).toEqual([]);
    await expect.poll(() => started.filter((pid) => argumentsOf(pid) !== ""), POLL).toEqual([]);
  });

  test("leaves nothing behind when it is ready, with WORKERS too", async () => {
    const command = start({ WORKERS: "2" });
    await expect.poll(() => command.stdout, POLL).toContain("/health");
    expect(postmaster()).toBeDefined();
    const started = processesBelow(command.child.pid!);
    expect(started.length).toBeGreaterThan(1);
    kill(command.child.pid!, "SIGKILL");
    await expect.poll(() => processesNamed(dataDir), POLL).toEqual([]);
    await expect.poll(() => started.filter((pid) => argumentsOf(pid) !== ""), POLL).toEqual([]);
  });
});
