import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type RealtimeChannel, type SupabaseClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { type Command, nodeRun, nodeStart, type StartOptions } from "../support/command.ts";
import { createTestDatabase } from "../support/database.ts";
import { kill, processesNamed } from "../support/processes.ts";
import { JWT_SECRET } from "../support/service.ts";
import { POLL } from "../support/until.ts";

let folder: string;
let dataDir: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "content-service-workers-"));
  // The system user of PostgreSQL must be able to enter the directory.
  await chmod(folder, 0o711);
  dataDir = join(folder, "data");
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

const start = ({ settings, ...options }: Partial<StartOptions>) =>
  nodeStart({ dataDir, settings: { WORKERS: "2", ...settings }, ...options });

/** The first process has the same arguments. */
const workersOf = ({ child }: Command) =>
  processesNamed("/server.ts", child.pid!)
    .filter((pid) => pid !== child.pid)
    .sort((a, b) => a - b);

/** A request on a new connection, because connections are distributed over the processes. */
async function ask(command: Command, query: string, token = ""): Promise<any> {
  const headers = { connection: "close", "x-request-id": crypto.randomUUID() };
  const { data } = await command.gql(query, { token, headers });
  return data;
}

/** The processes that have responded to requests so far, according to the log. */
const answerers = (command: Command) =>
  new Set(command.logged.filter(({ msg }) => msg === "request").map(({ pid }) => pid as number));

describe("WORKERS=2", () => {
  let command: Command;
  let providers: string;
  let first: number[];
  let token: string;
  beforeAll(async () => {
    providers = join(folder, "providers.json");
    await writeFile(providers, "[]");
    command = start({ settings: { LOG_LEVEL: "debug", AUTH_PROVIDERS: providers }, shared: true });
    await command.ready();
    first = workersOf(command);
    token = await command.login();
  });
  afterAll(() => command?.end());

  const askAsAda = async () => {
    expect(await ask(command, "{ me { id } }", token)).toEqual({ me: { id: "1" } });
    return answerers(command);
  };

  test("serves one URL with two processes that share the secret", async () => {
    expect(first).toHaveLength(2);
    expect(command.stdout.match(/^ {2}Health /gm)).toHaveLength(1);
    await expect.poll(askAsAda, POLL).toEqual(new Set(first));
    expect(command.logged.find(({ pid }) => pid === first[0])).toMatchObject({ worker: expect.any(Number) });
  });

  test("adds the metrics of its processes up, whichever of them is asked", async () => {
    const metric = async (pattern: RegExp) => {
      const response = await fetch(`${command.url}/metrics`, { headers: { connection: "close" } });
      return Number(pattern.exec(await response.text())?.[1]);
    };
    // DB_POOL and the connections of tasks, of two processes.
    expect(await metric(/^content_service_db_pool_max{pool="data"} (\d+)/m)).toBe(2 * (10 + 2));
    const requests = /^content_service_http_requests_total{method="POST",route="\/graphql",status="200"} (\d+)/m;
    const before = (await metric(requests)) || 0;
    for (let i = 0; i < 10; i++) await ask(command, "{ __typename }");
    expect(await metric(requests)).toBe(before + 10);
  });

  test("tells npx content-service ready that it is ready", async () => {
    const { port } = new URL(command.url);
    const ready = (PORT: string) => nodeRun("ready", { dataDir, settings: { PORT } });
    const [running, none] = [ready(port), ready(String(await findFreePort()))];
    expect([await running.exited(), running.stdout]).toEqual([0, "ready\n"]);
    expect([await none.exited(), none.stderr]).toEqual([1, expect.stringMatching(/^not ready: connect ECONNREFUSED/)]);
  });

  test("replaces a process that is killed", async () => {
    kill(first[0]!, "SIGKILL");
    await expect.poll(() => workersOf(command).filter((pid) => !first.includes(pid)), POLL).toHaveLength(1);
    const [replacement] = workersOf(command).filter((pid) => !first.includes(pid));
    await expect.poll(askAsAda, POLL).toContain(replacement);
    expect(command.logged).toContainEqual(
      expect.objectContaining({
        level: "error",
        signal: "SIGKILL",
        msg: "a worker has ended and is replaced",
      }),
    );
  });

  test("passes broadcasts and presences on to the channels of all processes, and forgets those of a process that ends", async () => {
    const created = nodeRun("key", { dataDir, args: ["create", "anon", "channels"] });
    expect(await created.exited()).toBe(0);
    const [key] = /\S+$/.exec(created.stdout.trim())!;
    const clients: SupabaseClient[] = [];
    const channels: RealtimeChannel[] = [];
    const received: unknown[][] = [];
    const join = async () => {
      const name = `member ${channels.length}`;
      const client = createClient(command.url, key, { auth: { persistSession: false } });
      onTestFinished(() => void client.realtime.disconnect());
      const channel = client.channel("room", { config: { presence: { key: name } } });
      const messages: unknown[] = [];
      channel.on("presence", { event: "sync" }, () => {});
      channel.on("broadcast", { event: "hello" }, ({ payload }) => messages.push(payload.from));
      clients.push(client);
      channels.push(channel);
      received.push(messages);
      channel.subscribe((status) => void (status === "SUBSCRIBED" && channel.track({})));
      // Everyone sees everyone.
      const seen = () => channels.map((each) => Object.keys(each.presenceState()).length);
      await expect.poll(seen, POLL).toEqual(channels.map(() => channels.length));
    };
    /** The number of the process of each member, with which its references begin. */
    const processes = () =>
      channels.map((_, i) =>
        Number((channels[0]!.presenceState()[`member ${i}`] as any)[0].presence_ref.split(".")[0]),
      );
    // Connections are distributed over the processes.
    while (new Set(processes()).size < 2) await join();
    await channels[0]!.send({ type: "broadcast", event: "hello", payload: { from: 0 } });
    for (const messages of received.slice(1)) await expect.poll(() => messages, POLL).toEqual([0]);

    const [worker] = processes();
    const survivors = processes().flatMap((number, i) => (number === worker ? [] : [i]));
    const { pid } = command.logged.findLast((line) => line.worker === worker)!;
    const before = workersOf(command);
    kill(pid, "SIGKILL");
    for (const [i, { realtime }] of clients.entries()) if (!survivors.includes(i)) void realtime.disconnect();
    for (const i of survivors)
      await expect
        .poll(() => Object.keys(channels[i]!.presenceState()), POLL)
        .toEqual(survivors.map((each) => `member ${each}`));
    const replacements = () => workersOf(command).filter((each) => !before.includes(each));
    await expect.poll(replacements, POLL).toHaveLength(1);
    await expect.poll(askAsAda, POLL).toContain(replacements()[0]);
  });

  test("reads the identity providers again in each process on SIGUSR2, and keeps them if the file has a fault", async () => {
    const name = async () => {
      const response = await fetch(`${command.url}/auth/providers`, { headers: { connection: "close" } });
      return ((await response.json()) as any).data.map((provider: { readonly name: string }) => provider.name).join();
    };
    const names = async () => new Set(await Promise.all(Array.from({ length: 10 }, name)));
    const acme = { name: "acme", kind: "oidc", issuer: "https://id.acme.example", clientId: "content" };
    await writeFile(providers, JSON.stringify([acme]));
    kill(command.pid, "SIGUSR2");
    await expect.poll(names, POLL).toEqual(new Set(["acme"]));

    await writeFile(providers, JSON.stringify([{ ...acme, kind: "ldap" }]));
    kill(command.pid, "SIGUSR2");
    const faults = () => command.logged.filter(({ msg }) => /AUTH_PROVIDERS names a file in which/.test(msg)).length;
    await expect.poll(faults, POLL).toBe(2);
    expect(await names()).toEqual(new Set(["acme"]));
  });

  test("waits for requests on Ctrl-C, which a terminal sends to all processes, and on SIGTERM, and then exits with 0 and leaves no process", async () => {
    const free = await command.block("articles");
    const answers = [1, 2, 3, 4].map(() => ask(command, "{ articles { totalCount } }").catch(() => "cut off"));
    await expect.poll(() => command.blocked(), POLL).toBe(4);
    const before = command.logged.length;
    command.interrupt();
    process.kill(command.child.pid!, "SIGTERM");
    const seen = () => command.logged.filter(({ msg }) => msg === "stopping").map(({ signal }) => signal);
    await expect.poll(seen, POLL).toHaveLength(2);
    expect(seen()).toEqual(expect.arrayContaining(["SIGINT", "SIGTERM"]));
    await free();
    expect(await Promise.all(answers)).toEqual(answers.map(() => ({ articles: { totalCount: 4 } })));
    expect(await command.exited()).toBe(0);
    expect(workersOf(command)).toEqual([]);
    expect(processesNamed(dataDir)).toEqual([]);
    // No warning or error, such as a worker that was replaced.
    expect(command.logged.slice(before).filter(({ level }) => !["info", "debug"].includes(level))).toEqual([]);
  });
});

test("no worker outlives a primary process that is killed", async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const command = start({ settings: { DATABASE_URL: database.url, JWT_SECRET, GRAPHQL_DOCUMENTS: "none" } });
  await command.ready();
  expect(workersOf(command)).toHaveLength(2);
  command.child.kill("SIGKILL");
  await expect.poll(() => workersOf(command), POLL).toEqual([]);
});

test("a port in use is one clear line and exit code 1, and no process is left", async () => {
  const port = await findFreePort();
  const other = createServer().listen(port, "127.0.0.1");
  onTestFinished(() => void other.close());
  const command = start({ settings: { PORT: String(port) } });
  expect(await command.exited()).toBe(1);
  expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual([
    [
      "fatal",
      `the service cannot start: another program listens on port ${port} of 127.0.0.1: set PORT to another port, or stop that program, ` +
        `which ss -ltnp 'sport = :${port}' names`,
    ],
  ]);
  expect(workersOf(command)).toEqual([]);
  expect(processesNamed(dataDir)).toEqual([]);
});

test("a database that does not accept connections is one clear line and exit code 1", async () => {
  const port = await findFreePort();
  const command = start({ settings: { DATABASE_URL: `postgres://owner@127.0.0.1:${port}/shop`, JWT_SECRET } });
  expect(await command.exited()).toBe(1);
  expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual([
    ["fatal", `the service cannot start: cannot connect to the database: connect ECONNREFUSED 127.0.0.1:${port}`],
  ]);
  expect(workersOf(command)).toEqual([]);
});
