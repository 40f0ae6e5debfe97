import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { WebSocket } from "ws";
import { type Command, nodeRun, nodeStart, npmStart, PROJECT } from "./support/command.ts";
import { contentTypes } from "./support/content-types.ts";
import { argumentsOf, processesNamed } from "./support/processes.ts";
import { POLL } from "./support/until.ts";

const isRoot = process.getuid?.() === 0;

let folder: string;
/** Kept between starts, as the data of an operator. */
let dataDir: string;
/** The database cluster and its migrations after the first start. */
let creation: unknown;
/** The tokens of ada from the first start. */
let token: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "content-service-start-"));
  // The system user of PostgreSQL must be able to enter the directory.
  await chmod(folder, 0o711);
  dataDir = join(folder, "data");
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

/** The first process of PostgreSQL on this data directory. */
const postmasterOf = (data: string) => processesNamed(`-D ${join(data, "postgres")}`)[0];

/** Asserts that no process is left: the service, npm, and the database server with its children. */
function expectNothingLeft(command: Command): void {
  expect(processesNamed(dataDir)).toEqual([]);
  expect(processesNamed("server.ts", command.child.pid!)).toEqual([]);
}

const creationOf = (command: Command) =>
  command.dba(
    "select system_identifier, array(select date::text from graphile_migrate.migrations) from pg_control_system()",
  );

async function write(command: Command, title: string): Promise<void> {
  const create = `mutation { createArticle(input: { title: "${title}", content: "Some text." }) { success } }`;
  expect((await command.gql(create, { token })).data).toEqual({ createArticle: { success: true } });
}

async function openSocket({ url }: Command): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
  await new Promise((resolve) => socket.once("open", resolve));
  return socket;
}

describe("the first npm start", () => {
  let command: Command;
  let secrets: string[];
  beforeAll(async () => {
    command = npmStart({ dataDir, settings: { LOG_LEVEL: "trace", DRAIN_TIMEOUT: "4000" }, shared: true });
    await command.ready();
    token = await command.login();
    creation = await creationOf(command);
  });
  afterAll(() => command?.end());

  const loggedSecrets = () => {
    const logs = command.logged.map((line) => JSON.stringify(line)).join("\n") + command.stderr;
    return secrets.filter((secret) => logs.includes(secret));
  };

  test("prints the URLs of the service", async () => {
    const { url } = command;
    expect(Object.fromEntries(command.banner)).toEqual({
      "Start page": `${url}/`,
      Tables: `${url}/rest/v1/`,
      Reference: `${url}/docs`,
      Console: `${url}/console`,
      GraphQL: `${url}/graphql`,
      Subscriptions: `${url.replace("http", "ws")}/graphql`,
      Explorer: `${url}/graphiql`,
      "Sign in": `POST ${url}/auth/login`,
      Users: "PUT, PATCH and DELETE need no credentials: without them, the role is users_editor",
      Health: `${url}/health`,
      Database: `psql "$(DATA_DIR=${dataDir} npx content-service url)"`,
      "anon key": expect.stringMatching(/^eyJ[\w-]+\.[\w-]+\.[\w-]+$/),
      "service key": expect.stringMatching(/^eyJ[\w-]+\.[\w-]+\.[\w-]+$/),
      Keys: "valid for ten years; until the year ends, each start prints the same",
      "Demo accounts": "ada, bob, admin (carol is disabled), password Correct-Horse-7!",
    });
    for (const path of ["/health", "/live", "/graphiql", "/docs"]) expect((await fetch(url + path)).status).toBe(200);
  });

  test("logs which modules and migrations it has run", () => {
    expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual(
      expect.arrayContaining([
        ["info", "modules of the service installed or brought up to date: caller, auth, tasks, feed, channels"],
        ["info", "migrations of the application run: 000001-the-demo.sql"],
      ]),
    );
  });

  test("stores its secrets so that only their owner can read them", async () => {
    for (const file of ["secret", "postgres-password"])
      expect((await stat(join(dataDir, file))).mode & 0o777).toBe(0o600);
  });

  test("accepts writes", () => write(command, "Kept over a restart"));

  test("lets npx content-service types print the types of its database, and nothing else", async () => {
    const types = nodeRun("types", { dataDir });
    expect(await types.exited()).toBe(0);
    expect([types.stdout, types.stderr]).toEqual([await contentTypes(), ""]);
  });

  test("logs lines of JSON with the request id, and no password, token or key", async () => {
    const files = ["secret", "postgres-password"].map((file) => readFileSync(join(dataDir, file), "utf8").trim());
    secrets = [...(await sendSecrets(command)), token, command.banner.get("service key")!, ...files];
    // Parsing them proves that each line is JSON.
    const requests = () => command.logged.filter(({ msg }) => msg === "request");
    await expect.poll(() => requests().map(({ requestId }) => requestId), POLL).toContain("last-1");
    expect(requests().map(({ requestId }) => requestId)).toEqual(
      expect.arrayContaining(["login-1", "login-2", "graphql-1", "nothing-1"]),
    );
    expect(
      requests().filter(
        ({ requestId, method, path, status, milliseconds }) =>
          !(requestId && method && path && status && milliseconds >= 0),
      ),
    ).toEqual([]);
    expect(requests().find(({ requestId }) => requestId === "login-1")).toMatchObject({
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
    expect(loggedSecrets()).toEqual([]);
  });

  describe("on SIGTERM to npm", () => {
    let answer: unknown;
    let cutOff: unknown;
    let closeCode: number;
    let refusals: unknown[];
    let exitCode: number | string;
    const events: string[] = [];
    beforeAll(async () => {
      const free = await command.block("articles");
      await command.block("comments");
      const cut = () => "cut off";
      const note = (event: string) => () => void events.push(event);
      const running = command.gql("{ articles { totalCount } }").catch(cut);
      const endless = command.gql("{ article(id: 1) { comments { content } } }").catch(cut);
      running.then(note("the running request ends"));
      endless.then(note("the longer request ends"));
      await vi.waitUntil(async () => (await command.blocked()) === 2, POLL);
      const closed = once(await openSocket(command), "close");
      const silent = await openSocket(command);
      silent.on("error", () => {});
      // It does not read, so it does not respond to the close frame.
      silent.pause();

      command.child.kill("SIGTERM");
      [closeCode] = await closed;
      const refused = () => "refused";
      refusals = await Promise.all([
        fetch(`${command.url}/health`).catch(refused),
        command.gql("{ __typename }").catch(refused),
      ]);
      await free();
      answer = await running;
      cutOff = await endless;
      exitCode = await command.exited();
      note("the service exits")();
      silent.terminate();
    });

    test("waits for the response of a running request", () =>
      expect(answer).toEqual({ data: { articles: { totalCount: 5 } } }));

    test("refuses new requests", () => expect(refusals).toEqual(["refused", "refused"]));

    test("closes sockets with 1012", () => expect(closeCode).toBe(1012));

    test("waits DRAIN_TIMEOUT for a longer request and then closes it, and does not wait for a silent client", () => {
      expect(cutOff).toBe("cut off");
      expect(events).toEqual(["the running request ends", "the longer request ends", "the service exits"]);
    });

    test("exits with 0, leaves no process, and has logged no secret", () => {
      expect(exitCode).toBe(0);
      expectNothingLeft(command);
      expect(loggedSecrets()).toEqual([]);
    });
  });
});

test("SIGTERM during the start stops the service as soon as possible with exit code 0", async () => {
  const command = nodeStart({ dataDir, settings: { GRAPHQL_MAX_TABLES: "0" } });
  await expect.poll(() => postmasterOf(dataDir), POLL).toBeDefined();
  command.child.kill("SIGTERM");
  expect(await command.exited()).toBe(0);
  expectNothingLeft(command);
});

describe("a later npm start", () => {
  let command: Command;
  beforeAll(async () => {
    command = npmStart({ dataDir, shared: true });
    await command.ready();
  });
  afterAll(() => command?.end());

  test("neither creates nor migrates the database again", async () => {
    expect(await creationOf(command)).toEqual(creation);
  });

  test("keeps the data, and tokens stay valid", async () => {
    const query = '{ search(keyword: "over a restart") { title author { name } } users { id } me { id } }';
    const { data } = await command.gql(query, { token });
    expect(data.search).toEqual([{ title: "Kept over a restart", author: { name: "Ada Lovelace" } }]);
    expect(data.users).toHaveLength(4);
    expect(data.me).toEqual({ id: "1" });
  });

  test("continues when a second start on the same DATA_DIR fails with one clear line", async () => {
    const second = nodeRun("start", { dataDir });
    expect(await second.exited()).toBe(1);
    expect(second.logged.map(({ level, msg }) => [level, msg])).toEqual([
      [
        "fatal",
        `the service cannot start: data directory ${join(dataDir, "postgres")} is in use by process ${command.pid}; stop it or choose another DATA_DIR`,
      ],
    ]);
    expect((await command.gql("{ __typename }")).data).toEqual({ __typename: "Query" });
  });

  describe("that is killed with SIGKILL", () => {
    let postmaster: number;
    let next: Command;
    beforeAll(async () => {
      await write(command, "Before the crash");
      postmaster = postmasterOf(dataDir)!;
      process.kill(command.pid, "SIGKILL");
      await command.exited();
      next = npmStart({ dataDir, shared: true });
      await next.ready();
      return () => next.end();
    });

    test("leaves its data to the next start, and no database server", async () => {
      expect(argumentsOf(postmaster)).toBe("");
      expect((await next.gql('{ search(keyword: "before the crash") { title } }')).data.search).toEqual([
        { title: "Before the crash" },
      ]);
    });

    test("is followed by a start that exits with 0 on Ctrl-C twice in a row, and logs no warning or error", async () => {
      next.interrupt();
      await new Promise((resolve) => setTimeout(resolve, 5));
      next.interrupt();
      expect(await next.exited()).toBe(0);
      expectNothingLeft(next);
      expect(next.logged.filter(({ level }) => !["info", "debug"].includes(level))).toEqual([]);
    });
  });
});

describe("a start by an ordinary user", () => {
  const user = isRoot ? ordinaryUser() : { uid: process.getuid!(), gid: process.getgid!() };
  let data: string;
  let compiled: string;
  let command: Command;
  beforeAll(async () => {
    // Otherwise an ordinary user has already run the starts above.
    const home = isRoot ? join(folder, "home") : folder;
    await mkdir(home, { recursive: true });
    if (user) await chown(home, user.uid, user.gid);
    data = join(home, "data");
    compiled = join(home, "compiled");
    const settings = { GRAPHQL_MAX_TABLES: "0", NODE_COMPILE_CACHE: compiled };
    command = nodeStart({ dataDir: data, as: user, settings, shared: true });
    await command.ready();
  });
  afterAll(() => command?.end());

  test("runs PostgreSQL as that user", async (context) => {
    context.skip(user === undefined, "root, and the user nobody does not exist or cannot read this project");
    expect(await (await fetch(`${command.url}/users/1`)).json()).toMatchObject({ id: 1, name: "Ada Lovelace" });
    expect(statSync(`/proc/${postmasterOf(data)}`)).toMatchObject(user!);
  });

  test("keeps for the next start what Node has compiled, even if it is killed later", async () => {
    const files = async () => (await readdir(compiled, { recursive: true })).length;
    await expect.poll(files, POLL).toBeGreaterThan(100);
  });

  test("exits with 1 and a message when the database server ends by itself", async () => {
    process.kill(postmasterOf(data)!, "SIGINT");
    expect(await command.exited()).toBe(1);
    expect(command.logged).toContainEqual(
      expect.objectContaining({ level: "fatal", msg: "the embedded database has ended" }),
    );
    expect(processesNamed(data)).toEqual([]);
  });
});

/** The system user nobody; undefined if it does not exist or cannot run this Node on these sources. */
function ordinaryUser(): { uid: number; gid: number } | undefined {
  const idOf = (flag: string) => Number(spawnSync("id", [flag, "nobody"], { encoding: "utf8" }).stdout || Number.NaN);
  const as = { uid: idOf("-u"), gid: idOf("-g") };
  if (Number.isNaN(as.uid)) return undefined;
  const attempt = spawnSync(process.execPath, [join(PROJECT, "db/cluster/embedded.ts")], { ...as, cwd: "/" });
  const unreadable = spawnSync("find", [join(PROJECT, "db"), "-type", "f", "!", "-readable"], { ...as, cwd: "/" });
  return attempt.status === 0 && unreadable.stdout.length === 0 ? as : undefined;
}

/** Sends secrets in every place of a request; resolves to them. The last request is `last-1`. */
async function sendSecrets(command: Command): Promise<string[]> {
  const serviceKey = command.banner.get("service key")!;
  const secrets = [
    "secret-password-1",
    "secret-header-2",
    "secret-cookie-3",
    "secret-query-4",
    "secret-variable-5",
    "secret-init-6",
    "secret-apikey-7",
  ];
  const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(command.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });

  await post("/auth/login", { username: "ada", password: secrets[0] }, { "x-request-id": "login-1" });
  await post("/auth/login", `{"username":"ada","password":"${secrets[0]}"`, { "x-request-id": "login-2" });
  await post(
    "/graphql",
    { query: "{ me { id } }" },
    { authorization: `Bearer ${secrets[1]}`, "x-request-id": "graphql-1" },
  );
  await post(
    "/graphql",
    { query: "{ me { id } }" },
    {
      authorization: `Bearer ${token}`,
      cookie: `SESSION=${secrets[2]}`,
      apikey: secrets[6]!,
      "x-api-key": secrets[6]!,
    },
  );
  await post("/graphql", { query: "{ me { id } }" }, { authorization: `Bearer ${serviceKey}` });
  await fetch(`${command.url}/graphql?query=${encodeURIComponent("{ users { id } }")}&token=${secrets[3]}`, {
    headers: { "x-request-id": "bad id, replaced" },
  });
  await fetch(`${command.url}/nothing?api_key=${secrets[3]}`, { headers: { "x-request-id": "nothing-1" } });
  const sign = "mutation ($input: CreateUserInput!) { createUser(input: $input) { id } }";
  await post("/graphql", { query: sign, variables: { input: { name: secrets[4], email: "ada@example.com" } } });
  // An internal error, which is logged, of a statement with a secret among its values.
  await command.dba(
    "create or replace function broken(secret text) returns text language plpgsql stable as $$ begin return 1 / 0 || secret; exception when others then raise exception using errcode = 'XX000', message = 'broken', detail = secret; end $$; grant execute on function broken(text) to anon",
  );
  await expect
    .poll(async () => (await command.gql(`{ broken(secret: "${secrets[4]}") }`)).errors?.[0]?.message, POLL)
    .toBe("internal error");
  const openSocket = () =>
    new WebSocket(`${command.url.replace("http", "ws")}/graphql`, "graphql-transport-ws", {
      headers: { authorization: `Bearer ${secrets[1]}` },
    });
  const refused = openSocket();
  const refusal = new Promise((resolve) => refused.once("close", resolve));
  const payload = { Authorization: `Bearer ${secrets[5]}` };
  refused.once("open", () => refused.send(JSON.stringify({ type: "connection_init", payload })));
  await refusal;
  const socket = openSocket();
  let messages = 0;
  socket.on("message", () => messages++);
  await new Promise((resolve) => socket.once("open", resolve));
  socket.send(JSON.stringify({ type: "connection_init" }));
  await expect.poll(() => messages, POLL).toBe(1);
  socket.send(
    JSON.stringify({ id: "1", type: "subscribe", payload: { query: `{ broken(secret: "${secrets[4]}") }` } }),
  );
  // After the acknowledgement the error and the completion.
  await expect.poll(() => messages, POLL).toBe(3);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.send(JSON.stringify({ type: secrets[5] }));
  await closed;
  await fetch(`${command.url}/live`, { headers: { "x-request-id": "last-1" } });
  return secrets;
}
