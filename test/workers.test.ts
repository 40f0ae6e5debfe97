import { chmod, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { findFreePort } from "../db/cluster/embedded.ts";
import { type Command, kill, npmStart, POLL, processesNamed, type Settings } from "./support/command.ts";
import { createTestDatabase } from "./support/database.ts";

let folder: string;
let dataDir: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "content-service-workers-"));
  // The system user of PostgreSQL must get through.
  await chmod(folder, 0o711);
  dataDir = join(folder, "data");
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

const start = (settings: Settings = {}) => npmStart({ dataDir, settings: { WORKERS: "2", ...settings } });

/** npm starts the primary process as `server.ts`; workers have the whole path among their arguments. */
const workersOf = (command: Command) => processesNamed("/server.ts", command.child.pid!).sort((a, b) => a - b);

const isRunning = (pid: number) => processesNamed("server.ts").includes(pid);

/** A request on a connection of its own: connections are spread over the processes. */
async function ask(command: Command, query: string, token = ""): Promise<any> {
  const headers = { connection: "close", "x-request-id": crypto.randomUUID() };
  const { data } = await command.gql(query, { token, headers });
  return data;
}

/** The processes that have answered requests so far, by what they logged. */
const answerers = (command: Command) =>
  new Set(command.logged.filter(({ msg }) => msg === "request").map(({ pid }) => pid as number));

test("WORKERS=2 serves one address by two processes that share the secret, replaces one that is killed, lets requests end on SIGTERM, and leaves nothing", {
  timeout: 90_000,
}, async () => {
  const command = start({ LOG_LEVEL: "debug" });
  await command.ready();
  const first = workersOf(command);
  expect(first).toHaveLength(2);
  expect(command.stdout.match(/^ {2}Health /gm)).toHaveLength(1);

  const token = await command.login();
  const askAsAda = async () => {
    expect(await ask(command, "{ me { id } }", token)).toEqual({ me: { id: "1" } });
    return answerers(command);
  };
  await expect.poll(askAsAda, POLL).toEqual(new Set(first));
  expect(command.logged.find(({ pid }) => pid === first[0])).toMatchObject({ worker: expect.any(Number) });

  kill(first[0]!, "SIGKILL");
  await expect.poll(() => workersOf(command).filter((pid) => !first.includes(pid)), POLL).toHaveLength(1);
  const [replacement] = workersOf(command).filter((pid) => !first.includes(pid));
  await expect.poll(askAsAda, POLL).toContain(replacement);
  expect(command.logged).toContainEqual(
    expect.objectContaining({ level: "error", signal: "SIGKILL", msg: "a worker has ended: another takes its place" }),
  );

  await command.dba(
    "create function slow() returns text language sql stable as $$ select 'done' || pg_sleep(1.5)::text $$; grant execute on function slow() to anon",
  );
  const isAsleep = "select from pg_stat_activity where wait_event = 'PgSleep'";
  await expect.poll(() => ask(command, "{ slow }"), POLL).toEqual({ slow: "done" });
  const answers = [1, 2].map(() => ask(command, "{ slow }").catch(() => "cut off"));
  await expect.poll(async () => (await command.dba(isAsleep)).length, POLL).toBeGreaterThan(0);
  process.kill(command.pid, "SIGTERM");
  expect(await Promise.all(answers)).toContainEqual({ slow: "done" });
  expect(await command.exited()).toBe(0);
  expect(workersOf(command)).toEqual([]);
  expect(processesNamed(dataDir)).toEqual([]);
});

test("Ctrl-C, which a terminal sends to all processes, ends them once, with 0", { timeout: 60_000 }, async () => {
  const command = start();
  await command.ready();
  command.interrupt();
  expect(await command.exited()).toBe(0);
  expect(processesNamed(dataDir)).toEqual([]);
  // Nothing that should worry an operator, such as a worker that was replaced on the way.
  expect(command.logged.filter(({ level }) => level !== "info")).toEqual([]);
});

test("no worker outlives a primary process that is killed", { timeout: 60_000 }, async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const command = start({ DATABASE_URL: database.url, JWT_SECRET: "a secret of thirty-two bytes or more" });
  await command.ready();
  const workers = workersOf(command);
  expect(workers).toHaveLength(2);
  process.kill(command.pid, "SIGKILL");
  await expect.poll(() => workers.filter(isRunning), POLL).toEqual([]);
});

test("a port that is taken is one clear line and exit code 1, and nothing is left", { timeout: 60_000 }, async () => {
  const port = await findFreePort();
  const other = createServer().listen(port, "127.0.0.1");
  onTestFinished(() => void other.close());
  const command = start({ PORT: String(port) });
  expect(await command.exited()).toBe(1);
  expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual([
    ["fatal", `the service can not start: listen EADDRINUSE: address already in use 127.0.0.1:${port}`],
  ]);
  expect(workersOf(command)).toEqual([]);
  expect(processesNamed(dataDir)).toEqual([]);
});

test("a database that is down is one clear line and exit code 1", { timeout: 60_000 }, async () => {
  const port = await findFreePort();
  const settings = { DATABASE_URL: `postgres://owner@127.0.0.1:${port}/shop`, JWT_SECRET: "x".repeat(32) };
  const command = start(settings);
  expect(await command.exited()).toBe(1);
  expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual([
    ["fatal", `the service can not start: the database does not let us in: connect ECONNREFUSED 127.0.0.1:${port}`],
  ]);
  expect(workersOf(command)).toEqual([]);
});
