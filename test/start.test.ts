import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { chmod, chown, mkdtemp, rm, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { describeSettings } from "../config.ts";
import { findFreePort } from "../db/cluster/embedded.ts";
import {
  argumentsOf,
  type Command,
  npmStart,
  POLL,
  PROJECT,
  processesNamed,
  type Settings,
  type StartOptions,
} from "./support/command.ts";

const SECRET = "a secret of thirty-two bytes or more";
const isRoot = process.getuid?.() === 0;

let folder: string;
/** Kept from test to test, as an operator's data are. */
let dataDir: string;
beforeAll(async () => {
  folder = await makeFolder();
  dataDir = join(folder, "data");
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

/** The system user of PostgreSQL must get through. */
async function makeFolder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "content-service-start-"));
  await chmod(path, 0o711);
  return path;
}

/** `npm start` on the data of this file. */
const start = (options: Partial<StartOptions> = {}) => npmStart({ dataDir, ...options });

/** Started and ready to be asked. */
async function started(options: Partial<StartOptions> = {}): Promise<Command> {
  const command = start(options);
  await command.ready();
  return command;
}

/** Everything has gone: the service, npm, the server and its children, the lock. */
function expectNothingLeft(command: Command): void {
  expect(processesNamed(dataDir)).toEqual([]);
  expect(processesNamed("server.ts", command.child.pid!)).toEqual([]);
}

describe("npm start", () => {
  test("the first one is ready within 10 s, prints where everything is, and ends with 0 on SIGTERM to npm", {
    timeout: 60_000,
  }, async () => {
    const command = start();
    const milliseconds = await command.ready();
    console.log(`the first start took ${milliseconds} ms`);
    // Twice what is promised, since the machine of the tests is busy.
    expect(milliseconds).toBeLessThan(20_000);

    const { url } = command;
    expect(Object.fromEntries(command.banner)).toEqual({
      Tables: `${url}/rest/v1/`,
      Reference: `${url}/docs`,
      GraphQL: `${url}/graphql`,
      Subscriptions: `${url.replace("http", "ws")}/graphql`,
      Explorer: `${url}/graphiql`,
      "Sign in": `POST ${url}/auth/login`,
      Users: "PUT, PATCH and DELETE open to everyone (USERS_WRITE=open)",
      Health: `${url}/health`,
      Database: 'psql "$(npm run -s db:url)"',
      "anon key": expect.stringMatching(/^eyJ[\w-]+\.[\w-]+\.[\w-]+$/),
      "service key": expect.stringMatching(/^eyJ[\w-]+\.[\w-]+\.[\w-]+$/),
      "Demo accounts": "ada, bob, admin (carol is disabled), password Correct-Horse-7!",
    });
    for (const path of ["/health", "/live", "/graphiql", "/docs"]) expect((await fetch(url + path)).status).toBe(200);
    const create =
      'mutation { createArticle(input: { title: "Kept over a restart", content: "Some text." }) { success } }';
    expect((await command.gql(create, { token: await command.login() })).data).toEqual({
      createArticle: { success: true },
    });
    for (const file of ["secret", "postgres-password"])
      expect((await stat(join(dataDir, file))).mode & 0o777).toBe(0o600);

    command.child.kill("SIGTERM");
    expect(await command.exited()).toBe(0);
    expectNothingLeft(command);
  });

  test("a later one is ready within 3 s, keeps what was written, keeps tokens good, and ends with 0 on Ctrl-C twice in a row", {
    timeout: 60_000,
  }, async () => {
    const command = start();
    const milliseconds = await command.ready();
    console.log(`a later start took ${milliseconds} ms`);
    expect(milliseconds).toBeLessThan(6000);
    const { data } = await command.gql('{ search(keyword: "over a restart") { title author { name } } users { id } }');
    expect(data.search).toEqual([{ title: "Kept over a restart", author: { name: "Ada Lovelace" } }]);
    expect(data.users).toHaveLength(4);
    command.interrupt();
    await new Promise((resolve) => setTimeout(resolve, 5));
    command.interrupt();
    expect(await command.exited()).toBe(0);
    expectNothingLeft(command);
    // Nothing that should worry an operator.
    expect(command.logged.filter(({ level }) => !["info", "debug"].includes(level))).toEqual([]);
  });

  test("SIGTERM lets a running request end with its answer, refuses new ones, and closes sockets with 1001", {
    timeout: 60_000,
  }, async () => {
    const command = await started();
    await command.dba(
      "create or replace function slow() returns text language sql stable as $$ select 'done' || pg_sleep(1.5)::text $$; grant execute on function slow() to anon",
    );
    await expect
      .poll(
        async () =>
          (await command.gql('{ __type(name: "Query") { fields { name } } }')).data.__type.fields.some(
            ({ name }: any) => name === "slow",
          ),
        POLL,
      )
      .toBe(true);
    const socket = new WebSocket(`${command.url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    const closed = new Promise<number>((resolve) => socket.once("close", resolve));
    await new Promise((resolve) => socket.once("open", resolve));
    const answer = command.gql("{ slow }");
    await expect
      .poll(
        async () =>
          (
            await command.dba(
              "select from pg_stat_activity where state = 'active' and query like '%slow%' and pid <> pg_backend_pid()",
            )
          ).length,
        POLL,
      )
      .toBe(1);

    const since = performance.now();
    process.kill(command.pid, "SIGTERM");
    expect(await closed).toBe(1001);
    await expect
      .poll(
        () =>
          fetch(`${command.url}/health`).then(
            ({ status }) => status,
            () => "refused",
          ),
        POLL,
      )
      .toBeOneOf(["refused", 503]);
    await expect(command.gql("{ __typename }").then(({ data }) => data)).rejects.toThrow();
    expect(await answer).toEqual({ data: { slow: "done" } });
    expect(await command.exited()).toBe(0);
    expect(performance.now() - since).toBeLessThan(8000);
    expectNothingLeft(command);
  });

  test("a request that runs longer than DRAIN_TIMEOUT, and a client that says nothing, don't hold the end up", {
    timeout: 60_000,
  }, async () => {
    const command = await started({ settings: { DRAIN_TIMEOUT: "500" } });
    await command.dba(
      "create or replace function slow() returns text language sql stable as $$ select 'done' || pg_sleep(60)::text $$; grant execute on function slow() to anon",
    );
    await expect
      .poll(
        async () =>
          (await command.gql('{ __type(name: "Query") { fields { name } } }')).data.__type.fields.some(
            ({ name }: any) => name === "slow",
          ),
        POLL,
      )
      .toBe(true);
    const answer = command.gql("{ slow }").catch(() => "cut off");
    const silent = new WebSocket(`${command.url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    silent.on("error", () => {});
    await new Promise((resolve) => silent.once("open", resolve));
    // It does not read, and so does not answer the close frame.
    silent.pause();
    await expect
      .poll(
        async () =>
          (
            await command.dba(
              "select from pg_stat_activity where state = 'active' and query like '%slow%' and pid <> pg_backend_pid()",
            )
          ).length,
        POLL,
      )
      .toBe(1);
    const since = performance.now();
    process.kill(command.pid, "SIGTERM");
    expect(await command.exited()).toBe(0);
    expect(performance.now() - since).toBeLessThan(6000);
    expect(await answer).toBe("cut off");
    silent.terminate();
    expectNothingLeft(command);
  });

  test("SIGTERM while it starts ends it as soon as it can, with 0", { timeout: 60_000 }, async () => {
    const command = start();
    await expect.poll(() => processesNamed(join(dataDir, "postgres")).length, POLL).toBeGreaterThan(0);
    process.kill(command.pid, "SIGTERM");
    expect(await command.exited()).toBe(0);
    expectNothingLeft(command);
  });

  test("a second one on the same DATA_DIR is refused in one clear line, and the first goes on; killed with SIGKILL it is recovered by the next, though the old server still runs", {
    timeout: 60_000,
  }, async () => {
    const first = await started();
    const second = start();
    expect(await second.exited()).toBe(1);
    expect(second.logged.map(({ level, msg }) => [level, msg])).toEqual([
      [
        "fatal",
        `the service can not start: data directory ${join(dataDir, "postgres")} is in use by process ${first.pid}; stop it or choose another DATA_DIR`,
      ],
    ]);
    expect((await first.gql("{ __typename }")).data).toEqual({ __typename: "Query" });

    const create =
      'mutation { createArticle(input: { title: "Before the crash", content: "Some text." }) { success } }';
    await first.gql(create, { token: await first.login() });
    const [postmaster] = processesNamed(`-D ${join(dataDir, "postgres")}`);
    process.kill(first.pid, "SIGKILL");
    await first.exited();
    expect(argumentsOf(postmaster!)).toContain(dataDir);
    const next = await started();
    expect(argumentsOf(postmaster!)).toBe("");
    expect((await next.gql('{ search(keyword: "before the crash") { title } }')).data.search).toEqual([
      { title: "Before the crash" },
    ]);

    // The server ends although nobody stopped it: the service says so and does not pretend.
    process.kill(processesNamed(`-D ${join(dataDir, "postgres")}`)[0]!, "SIGINT");
    expect(await next.exited()).toBe(1);
    expect(next.logged).toContainEqual(
      expect.objectContaining({ level: "fatal", msg: "the embedded database has ended" }),
    );
    expectNothingLeft(next);
  });

  test("a port that is taken is one clear line and exit code 1, and no PostgreSQL is left", {
    timeout: 60_000,
  }, async () => {
    const port = await findFreePort();
    const other = createServer().listen(port, "127.0.0.1");
    onTestFinished(() => void other.close());
    const command = start({ settings: { PORT: String(port) } });
    expect(await command.exited()).toBe(1);
    expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual([
      ["fatal", `the service can not start: listen EADDRINUSE: address already in use 127.0.0.1:${port}`],
    ]);
    expectNothingLeft(command);
  });
});

describe("an own database", () => {
  test("that is down is one clear line and exit code 1", { timeout: 60_000 }, async () => {
    const port = await findFreePort();
    const settings = { DATABASE_URL: `postgres://owner:canary-password@127.0.0.1:${port}/content`, JWT_SECRET: SECRET };
    const command = start({ settings });
    expect(await command.exited()).toBe(1);
    expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual([
      ["fatal", `the service can not start: the database does not let us in: connect ECONNREFUSED 127.0.0.1:${port}`],
    ]);
    expect(command.stdout + command.stderr).not.toContain("canary-password");
  });

  test("whose name has several addresses, all down, is told by each", { timeout: 60_000 }, async () => {
    const port = await findFreePort();
    const command = start({
      settings: { DATABASE_URL: `postgres://owner@localhost:${port}/content`, JWT_SECRET: SECRET },
    });
    expect(await command.exited()).toBe(1);
    expect(command.logged).toHaveLength(1);
    expect(command.logged[0]!.msg).toMatch(
      /^the service can not start: the database does not let us in: connect ECONNREFUSED \S+:\d+/,
    );
  });

  test("that refuses the password is one clear line without it, and exit code 1", { timeout: 60_000 }, async () => {
    const url = new URL(inject("clusterUrl"));
    url.password = "canary-password";
    const command = start({ settings: { DATABASE_URL: url.href, JWT_SECRET: SECRET } });
    expect(await command.exited()).toBe(1);
    expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual([
      [
        "fatal",
        'the service can not start: the database does not let us in: password authentication failed for user "postgres"',
      ],
    ]);
    expect(command.stdout + command.stderr).not.toContain("canary-password");
  });
});

describe("the command line", () => {
  test("--help lists all settings and ends with 0", async () => {
    const command = start({ args: ["--help"] });
    expect(await command.exited()).toBe(0);
    for (const { name } of describeSettings()) expect(command.stdout).toMatch(new RegExp(`^ {2}${name} `, "m"));
    expect(command.stderr).toBe("");
  });

  test("an unknown option is one line on stderr and exit code 2", async () => {
    const command = start({ args: ["--port=80"] });
    expect(await command.exited()).toBe(2);
    expect(command.stderr).toBe("--port=80 is no option of this service; npm start -- --help lists the settings\n");
    expect(command.stdout).toBe("");
  });

  test.each([
    ["a malformed setting", { PORT: "http" }, 'PORT must be a whole number (is "http")'],
    ["an unknown setting", { WS_MAX: "1" }, "WS_MAX is no setting of this service; npm start -- --help lists them"],
    [
      "a missing secret",
      { DATABASE_URL: "postgres://owner:canary@127.0.0.1/content" },
      "JWT_SECRET (or JWT_PRIVATE_KEY) is required with DATABASE_URL",
    ],
  ])("%s is one line on stderr and exit code 2", async (_what, settings, line) => {
    const command = start({ settings: settings as Settings });
    expect(await command.exited()).toBe(2);
    // npm itself may add warnings of its own.
    expect(command.stderr.split("\n").filter((text) => text !== "" && !text.startsWith("npm "))).toEqual([line]);
    expect(command.stdout.split("\n").filter((text) => text !== "" && !text.startsWith("> "))).toEqual([]);
  });
});

test("logs are lines of JSON with the request's id, and hold no password, token or key", {
  timeout: 60_000,
}, async () => {
  const command = await started({ settings: { LOG_LEVEL: "trace" } });
  const token = await command.login();
  const serviceKey = command.banner.get("service key")!;
  const canaries = [
    "canary-password-1",
    "canary-header-2",
    "canary-cookie-3",
    "canary-query-4",
    "canary-variable-5",
    "canary-init-6",
    "canary-apikey-7",
  ];
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(command.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });

  await post("/auth/login", { username: "ada", password: canaries[0] }, { "x-request-id": "login-1" });
  await post("/auth/login", `{"username":"ada","password":"${canaries[0]}"`, { "x-request-id": "login-2" });
  await post(
    "/graphql",
    { query: "{ me { id } }" },
    { authorization: `Bearer ${canaries[1]}`, "x-request-id": "graphql-1" },
  );
  await post(
    "/graphql",
    { query: "{ me { id } }" },
    {
      authorization: `Bearer ${token}`,
      cookie: `SESSION=${canaries[2]}`,
      apikey: canaries[6]!,
      "x-api-key": canaries[6]!,
    },
  );
  await post("/graphql", { query: "{ me { id } }" }, { authorization: `Bearer ${serviceKey}` });
  await fetch(`${command.url}/graphql?query=${encodeURIComponent("{ users { id } }")}&token=${canaries[3]}`, {
    headers: { "x-request-id": "bad id, replaced" },
  });
  await fetch(`${command.url}/nothing?api_key=${canaries[3]}`, { headers: { "x-request-id": "nothing-1" } });
  const sign = "mutation ($input: CreateUserInput!) { createUser(input: $input) { id } }";
  await post("/graphql", { query: sign, variables: { input: { name: canaries[4], email: "ada@example.com" } } });
  // An internal error, logged whole, of a statement that had a secret among its values.
  await command.dba(
    "create or replace function broken(secret text) returns text language plpgsql stable as $$ begin return 1 / 0 || secret; exception when others then raise exception using errcode = 'XX000', message = 'broken', detail = secret; end $$; grant execute on function broken(text) to anon",
  );
  await expect
    .poll(async () => (await command.gql(`{ broken(secret: "${canaries[4]}") }`)).errors?.[0]?.message, POLL)
    .toBe("internal error");
  const socket = new WebSocket(`${command.url.replace("http", "ws")}/graphql`, "graphql-transport-ws", {
    headers: { authorization: `Bearer ${canaries[1]}` },
  });
  let messages = 0;
  socket.on("message", () => messages++);
  await new Promise((resolve) => socket.once("open", resolve));
  socket.send(JSON.stringify({ type: "connection_init", payload: { Authorization: `Bearer ${canaries[5]}` } }));
  await expect.poll(() => messages, POLL).toBe(1);
  socket.send(
    JSON.stringify({ id: "1", type: "subscribe", payload: { query: `{ broken(secret: "${canaries[4]}") }` } }),
  );
  // After the acknowledgement the error and the completion.
  await expect.poll(() => messages, POLL).toBe(3);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.send(JSON.stringify({ type: canaries[5] }));
  await closed;
  process.kill(command.pid, "SIGTERM");
  expect(await command.exited()).toBe(0);

  // Parsing them proves that each line is JSON.
  const requests = command.logged.filter(({ msg }) => msg === "request");
  expect(requests.map(({ requestId }) => requestId)).toEqual(
    expect.arrayContaining(["login-1", "login-2", "graphql-1", "nothing-1"]),
  );
  expect(
    requests.filter(
      ({ requestId, method, path, status, milliseconds }) =>
        !(requestId && method && path && status && milliseconds >= 0),
    ),
  ).toEqual([]);
  expect(requests.find(({ requestId }) => requestId === "login-1")).toMatchObject({
    level: "info",
    method: "POST",
    path: "/auth/login",
    status: 401,
  });
  const internal = command.logged.filter(({ msg }) => msg === "unhandled error");
  expect(internal).toHaveLength(2);
  expect(internal[0]).toMatchObject({
    level: "error",
    requestId: expect.any(String),
    err: { code: "XX000", message: "broken", stack: expect.stringContaining("broken") },
  });

  const logs = command.logged.map((line) => JSON.stringify(line)).join("\n") + command.stderr;
  const files = [
    readFileSync(join(dataDir, "secret"), "utf8").trim(),
    readFileSync(join(dataDir, "postgres-password"), "utf8").trim(),
  ];
  expect([...canaries, token, serviceKey, ...files].filter((secret) => logs.includes(secret))).toEqual([]);
});

test("an ordinary user starts it as himself", { timeout: 60_000 }, async (context) => {
  const as = isRoot ? nobody() : { uid: process.getuid!(), gid: process.getgid!() };
  context.skip(as === undefined, "root, and there is no user nobody who can read this project");
  const home = await makeFolder();
  onTestFinished(() => rm(home, { recursive: true, force: true, maxRetries: 5 }));
  await chown(home, as!.uid, as!.gid);
  const command = await started({ as: as!, dataDir: join(home, "data") });
  expect((await command.gql("{ articles { totalCount } }")).data).toEqual({ articles: { totalCount: 4 } });
  const [postmaster] = processesNamed(`-D ${join(home, "data", "postgres")}`);
  expect(execFileSync("ps", ["-o", "uid=", "-p", String(postmaster)], { encoding: "utf8" }).trim()).toBe(
    String(as!.uid),
  );
  process.kill(command.pid, "SIGTERM");
  expect(await command.exited()).toBe(0);
  expect(processesNamed(home)).toEqual([]);
});

/** undefined when that user can't run our node on our sources. */
function nobody(): { uid: number; gid: number } | undefined {
  const idOf = (flag: string) => Number(spawnSync("id", [flag, "nobody"], { encoding: "utf8" }).stdout || Number.NaN);
  const as = { uid: idOf("-u"), gid: idOf("-g") };
  if (Number.isNaN(as.uid)) return undefined;
  const attempt = spawnSync(process.execPath, [join(PROJECT, "server.ts"), "--help"], { ...as, cwd: "/" });
  const unreadable = spawnSync("find", [join(PROJECT, "db"), "-type", "f", "!", "-readable"], { ...as, cwd: "/" });
  return attempt.status === 0 && unreadable.stdout.length === 0 ? as : undefined;
}
