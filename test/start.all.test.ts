import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { chmod, chown, mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { outcomeOf } from "../cli/command.ts";
import { upgrade } from "../cli/upgrade.ts";
import { findFreePort } from "../db/cluster/embedded.ts";
import { createLog } from "../gate/pipeline/log.ts";
import { doctor } from "../parts/advisor/doctor/doctor.ts";
import { migrationCommand } from "../parts/development/migrations/migrate.ts";
import { startService } from "../server.ts";
import {
  applicationStart,
  type Command,
  devStart,
  nodeRun,
  nodeStart,
  npmStart,
  PROJECT,
  type Settings,
} from "./support/command.ts";
import { describeSettings, readConfig } from "./support/config.ts";
import { contentTypes } from "./support/content-types.ts";
import { createTestDatabase } from "./support/database.ts";
import { argumentsOf, processesNamed } from "./support/processes.ts";
import { JWT_SECRET } from "./support/service.ts";
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

  test("prints the URLs of the service, and logs which modules and migrations it has run", async () => {
    const { url } = command;
    expect(Object.fromEntries(command.banner)).toEqual({
      "Start page": `${url}/`,
      Tables: `${url}/rest/v1/`,
      Reference: `${url}/docs`,
      Console: expect.stringMatching(/^http:\/\/[\w.:]+\/console\/sign-in#eyJ[\w-]+\.[\w-]+\.[\w-]+$/),
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
    expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual(
      expect.arrayContaining([
        ["info", "modules of the service installed or brought up to date: caller, auth, tasks, feed, channels"],
        ["info", "migrations of the application run: 000001-the-demo.sql"],
      ]),
    );
  });

  test("prints a link to the console whose key signs in there, and ends with the sign-in", async () => {
    const [address, key = ""] = command.banner.get("Console")!.split("#") as [string, string?];
    const form = { method: "POST", redirect: "manual" } as const;
    const signedIn = await fetch(address, { ...form, body: new URLSearchParams({ credential: key }) });
    expect([signedIn.status, signedIn.headers.get("location")]).toEqual([303, "/console/access"]);
    const { role, iat, exp } = JSON.parse(Buffer.from(key.split(".")[1]!, "base64url").toString());
    expect([role, exp - iat]).toEqual(["service_role", 8 * 3600]);
  });

  test("stores its secrets so that only their owner can read them, and accepts writes", async () => {
    for (const file of ["secret", "postgres-password"])
      expect((await stat(join(dataDir, file))).mode & 0o777).toBe(0o600);
    await write(command, "Kept over a restart");
  });

  test("lets npx content-service types print the types of its database, and nothing else", async () => {
    const types = nodeRun("types", { dataDir });
    expect(await types.exited()).toBe(0);
    expect([types.stdout, types.stderr]).toEqual([await contentTypes(), ""]);
  });

  test("logs lines of JSON with the request id, and no password, token or key", async () => {
    const files = ["secret", "postgres-password"].map((file) => readFileSync(join(dataDir, file), "utf8").trim());
    const shown = [command.banner.get("service key")!, command.banner.get("Console")!.split("#")[1]!];
    secrets = [...(await sendSecrets(command)), token, ...shown, ...files];
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

  test("on SIGTERM to npm waits for running requests up to DRAIN_TIMEOUT, refuses new ones, closes sockets, and leaves no process", async () => {
    const free = await command.block("articles");
    await command.block("comments");
    const events: string[] = [];
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
    const [closeCode] = await closed;
    const refused = [fetch(`${command.url}/health`), command.gql("{ __typename }")];
    expect((await Promise.allSettled(refused)).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    await free();
    expect([closeCode, await running, await endless]).toEqual([
      1012,
      { data: { articles: { totalCount: 5 } } },
      "cut off",
    ]);
    expect(await command.exited()).toBe(0);
    expect(events).toEqual(["the running request ends", "the longer request ends"]);
    silent.terminate();
    expectNothingLeft(command);
    expect(loggedSecrets()).toEqual([]);
  });
});

test("SIGTERM during the start stops the service as soon as possible with exit code 0", async () => {
  const command = nodeStart({ dataDir, settings: { GRAPHQL_DOCUMENTS: "none" } });
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

  test("neither creates nor migrates the database again, keeps the data, and tokens stay valid", async () => {
    expect(await creationOf(command)).toEqual(creation);
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

  test("that is killed leaves no database server, and its data to a start that exits with 0 on Ctrl-C twice in a row", async () => {
    const postmaster = postmasterOf(dataDir)!;
    await write(command, "Before the crash");
    process.kill(command.pid, "SIGKILL");
    await command.exited();
    const next = npmStart({ dataDir });
    await next.ready();
    expect(argumentsOf(postmaster)).toBe("");
    expect((await next.gql('{ search(keyword: "before the crash") { title } }')).data.search).toEqual([
      { title: "Before the crash" },
    ]);
    next.interrupt();
    await new Promise((resolve) => setTimeout(resolve, 5));
    next.interrupt();
    expect(await next.exited()).toBe(0);
    expectNothingLeft(next);
    expect(next.logged.filter(({ level }) => !["info", "debug"].includes(level))).toEqual([]);
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
    const settings = { GRAPHQL_DOCUMENTS: "none", NODE_COMPILE_CACHE: compiled };
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

describe("a start that is refused", () => {
  const unused = () => join(folder, "unused");
  const attempt = (settings: Settings) => startService(readConfig({ PORT: "0", ...settings }), createLog("silent"));

  test("reports that its port is in use, and leaves no PostgreSQL", async () => {
    const port = await findFreePort();
    const other = createServer().listen(port, "127.0.0.1");
    onTestFinished(() => void other.close());
    const message = `another program listens on port ${port} of 127.0.0.1: set PORT to another port, or stop that program, which ss -ltnp 'sport = :${port}' names`;
    await expect(attempt({ PORT: String(port), DATA_DIR: unused() })).rejects.toMatchObject({ message });
    expect(processesNamed(unused())).toEqual([]);
  });

  test("reports every IP address of a database that does not accept connections", async () => {
    const port = await findFreePort();
    const failed = (host: string) =>
      attempt({ DATABASE_URL: `postgres://owner:secret-password@${host}:${port}/content`, JWT_SECRET });
    const message = `cannot connect to the database: connect ECONNREFUSED 127.0.0.1:${port}`;
    await expect(failed("127.0.0.1")).rejects.toMatchObject({ message });
    await expect(failed("localhost")).rejects.toThrow(/^cannot connect to the database: connect ECONNREFUSED \S+:\d+/);
  });

  test("is one clear line and exit code 1, without the password that the database refuses", async () => {
    const url = Object.assign(new URL(inject("clusterUrl")), { password: "secret-password" });
    const command = nodeRun("start", { dataDir: unused(), settings: { DATABASE_URL: url.href, JWT_SECRET } });
    expect(await command.exited()).toBe(1);
    const reason = 'cannot connect to the database: password authentication failed for user "postgres"';
    expect(command.logged.map(({ level, msg }) => [level, msg])).toEqual([
      ["fatal", `the service cannot start: ${reason}`],
    ]);
    expect(command.stdout + command.stderr).not.toContain("secret-password");
  });

  test("npm start -- --help lists all settings and ends with 0", async () => {
    const command = npmStart({ dataDir: unused(), args: ["--help"] });
    expect(await command.exited()).toBe(0);
    for (const { name } of describeSettings()) expect(command.stdout).toMatch(new RegExp(`^ {2}${name} `, "m"));
    expect(command.stdout).toMatch(/^Settings of the application:\n {2}USERS_WRITE +Who may change/m);
    expect(command.stderr).toBe("");
  });

  test.each<[string, { args?: string[]; settings?: Settings }, string]>([
    [
      "an unknown option",
      { args: ["--port=80"] },
      "--port=80 is not an option of this service: npx content-service start --help lists the settings",
    ],
    ["an invalid setting", { settings: { PORT: "http" } }, 'PORT must be a whole number (is "http")'],
  ])("for %s is one line on stderr and exit code 2", async (_what, given, line) => {
    const command = nodeRun("start", { dataDir: unused(), ...given });
    expect([await command.exited(), command.stdout, command.stderr]).toEqual([2, "", `${line}\n`]);
  });

  test("settings that contradict each other end start, doctor, upgrade and migrate with exit code 2, and the database stays as it was", async () => {
    const database = await createTestDatabase(undefined, "template1");
    onTestFinished(() => database.drop());
    const settings = { DATABASE_URL: database.url, JWT_SECRET, SIGNUP: "invite", EMAIL_CONFIRM: "required" };
    const message = "EMAIL_CONFIRM=required requires MAIL_URL and the module tasks, which send the e-mails";
    const command = nodeRun("start", { dataDir: unused(), settings });
    expect([await command.exited(), command.stderr]).toEqual([2, `${message}\n`]);
    const environment = { ...settings, APPLICATION: "demo" };
    const status = migrationCommand(["status"], { environment });
    for (const work of [doctor([], environment), upgrade(["--yes"], environment), status])
      expect(await outcomeOf(work)).toEqual({ exitCode: 2, stdout: "", stderr: `${message}\n` });
    const { rows } = await database.owner.query("select nspname from pg_namespace where nspname !~ '^pg_' order by 1");
    expect(rows.map(({ nspname }) => nspname)).toEqual(["information_schema", "public"]);
  });

  const NO_FILE =
    "Set it in a file, and name the file in SETTINGS_FILE, or in the environment. npx content-service start does not read .env; npx content-service dev does";
  test.each([
    [devStart, "", "Set it in HOME/.env, or in the environment"],
    [applicationStart, "", NO_FILE],
    [applicationStart, "empty.env", "Set it in HOME/empty.env, or in the environment"],
  ])("for an application of an existing database without DATABASE_URL makes nothing", async (startIt, file, cure) => {
    const home = await mkdtemp(join(folder, "existing-"));
    await mkdir(join(home, "db/base"), { recursive: true });
    await writeFile(join(home, "content-service.config.ts"), "export default {};\n");
    await writeFile(join(home, "empty.env"), "");
    const settings: Settings = file === "" ? {} : { SETTINGS_FILE: join(home, file) };
    const command = startIt({ folder: home, dataDir: join(home, ".data"), settings });
    const missing = "DATABASE_URL is not set; this application was made for an existing database (it has db/base).";
    expect([await command.exited(), command.stderr]).toEqual([2, `${missing} ${cure.replace("HOME", home)}\n`]);
    expect((await readdir(home)).sort()).toEqual(["content-service.config.ts", "db", "empty.env"]);
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
