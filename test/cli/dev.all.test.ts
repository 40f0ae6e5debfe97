import { chmod, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { applicationOf } from "../../app/application.ts";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { createLog } from "../../gate/pipeline/log.ts";
import { init } from "../../parts/development/init/init.ts";
import { startService } from "../../server.ts";
import { type Command, devStart, PROJECT } from "../support/command.ts";
import { createTestDatabase } from "../support/database.ts";
import { DEMO } from "../support/demo.ts";
import { processesNamed } from "../support/processes.ts";
import { JWT_SECRET, readTestConfig } from "../support/service.ts";
import { POLL } from "../support/until.ts";

let home: string;
let app: string;
let dev: Command;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "dev-"));
  await chmod(home, 0o755);
  app = join(home, "app");
  await init([app]);
  await mkdir(join(app, "node_modules"));
  await symlink(PROJECT, join(app, "node_modules/content-service"));
  await write(".env", "APP_GREETING=from the file\nAPP_OUTER=from the file\nEMAIL_CONFRIM=off\n");
  await write("routes/hello.ts", route("process.env.APP_GREETING"));
  // Without GraphQL, which would be loaded at each change.
  const settings = { APP_OUTER: "from the shell", GRAPHQL_DOCUMENTS: "none" };
  dev = devStart({ folder: app, dataDir: join(home, "data"), settings, shared: true });
  await dev.ready();
  await vi.waitUntil(() => dev.stdout.includes("database.types.ts has the types of the database"), POLL);
});
afterAll(async () => {
  await dev.end();
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
});

/** As editors do: a new file takes the place of the old one. */
async function write(file: string, text: string): Promise<void> {
  await writeFile(join(home, "draft"), text);
  await rename(join(home, "draft"), join(app, file));
}

const route = (value: string) => `import { defineRoute } from "content-service";
export const hello = defineRoute({ path: "/hello", methods: { GET: () => ({ value: ${value} }) } });
`;

const served = async () => ((await (await fetch(`${dev.url}/hello`)).json()) as { value: unknown }).value;
const printed = (text: string | RegExp) => expect.poll(() => dev.stdout, POLL).toMatch(text);
const startOfDatabase = async () => (await dev.dba("select pg_postmaster_start_time()::text as at"))[0].at;

test("a changed file is served by a new worker, while the database keeps running", async () => {
  const since = await startOfDatabase();
  expect(await served()).toBe("from the file");
  for (const version of [1, 2]) {
    await write("routes/hello.ts", route(String(version)));
    await expect.poll(served, POLL).toBe(version);
  }
  await printed(/^routes\/hello\.ts changed: reloaded in \d+\.\d s$/m);
  expect(await startOfDatabase()).toBe(since);
  await expect.poll(() => processesNamed(`--dev ${app}`), POLL).toHaveLength(2);
});

test("a new worker does not wait for GraphQL before it serves everything else", async () => {
  const database = await createTestDatabase();
  const port = String(await findFreePort());
  const environment = { DATABASE_URL: database.url, JWT_SECRET, PORT: port, LOG_LEVEL: "silent", ADVISOR: "off" };
  const config = readTestConfig(environment, DEMO);
  let load = () => {};
  const loaded = new Promise<[]>((resolve) => {
    load = () => resolve([]);
  });
  const application = { ...applicationOf(DEMO, config), plugins: () => loaded };
  const service = await startService(config, createLog("silent"), { application, listensLast: true, isDev: true });
  expect((await fetch(`${service.url}/users/1`)).status).toBe(200);
  load();
  const answer = await fetch(`${service.url}/graphql?query={__typename}`);
  expect(await answer.json()).toEqual({ data: { __typename: "Query" } });
  await service.stop();
  await database.drop();
});

test("a new folder is followed, too", async () => {
  await mkdir(join(app, "texts/short"), { recursive: true });
  await write("texts/short/value.ts", 'export const value = "one";\n');
  await write("routes/hello.ts", `import { value } from "../texts/short/value.ts";\n${route("value")}`);
  await expect.poll(served, POLL).toBe("one");
  await write("texts/short/value.ts", 'export const value = "two";\n');
  await expect.poll(served, POLL).toBe("two");
});

test.each([
  ["syntax", "const a = 1;\nconst b: = 2;\n", "routes/hello.ts:2: Unexpected token `=`"],
  ["import", '\nimport "./absent.ts";\n', "routes/hello.ts:2: Cannot find module"],
  ["name", '\nimport { absent } from "content-service";\nabsent();\n', "routes/hello.ts:2: The requested module"],
  ["value", `null!.x;\n${route("1")}`, "routes/hello.ts:1: Cannot read properties of null"],
])("an error of the %s names file and line, and the previous version keeps serving", async (name, text, message) => {
  await write("routes/hello.ts", route(`"before ${name}"`));
  await expect.poll(served, POLL).toBe(`before ${name}`);
  await write("routes/hello.ts", text);
  await expect.poll(() => dev.stdout, POLL).toContain(join(app, message));
  await printed("routes/hello.ts changed, but cannot be loaded: the previous version keeps serving");
  expect(await served()).toBe(`before ${name}`);
  await write("routes/hello.ts", route(`"after ${name}"`));
  await expect.poll(served, POLL).toBe(`after ${name}`);
});

test("a file that never finishes loading is given up when it changes", async () => {
  await write(
    "routes/hello.ts",
    `console.log("endless");\nawait new Promise(() => setInterval(() => {}, 1000));\n${route("1")}`,
  );
  await printed("endless");
  await write("routes/hello.ts", route('"finite"'));
  await expect.poll(served, POLL).toBe("finite");
  await expect.poll(() => processesNamed(`--dev ${app}`), POLL).toHaveLength(2);
});

test(".env is read after the environment, and again when it changes", async () => {
  await write("routes/hello.ts", route("[process.env.APP_GREETING, process.env.APP_OUTER]"));
  await expect.poll(served, POLL).toEqual(["from the file", "from the shell"]);
  await write(".env", "APP_GREETING=changed\nAPP_OUTER=changed\n");
  await expect.poll(served, POLL).toEqual(["changed", "from the shell"]);
  expect(dev.stderr.match(/.*\.env: .*/g)).toEqual([
    ".env: EMAIL_CONFRIM is not a setting. Did you mean EMAIL_CONFIRM?",
  ]);
});

test("a change of the SQL runs current.sql, and writes the types", async () => {
  const types = () => readFile(join(app, "database.types.ts"), "utf8");
  expect(await types()).not.toContain("topic");
  await write("db/migrations/current.sql", "alter table public.notes add column if not exists topic text;\n");
  await expect.poll(types, POLL).toContain("topic: string | null");
  const key = dev.banner.get("service key")!;
  const statusOf = async () =>
    (await fetch(`${dev.url}/rest/v1/notes?select=topic`, { headers: { apikey: key } })).status;
  await expect.poll(statusOf, POLL).toBe(200);
  await write("db/migrations/current.sql", "--!include notes/access.sql\n");
  const access = await readFile(join(app, "db/schema/notes/access.sql"), "utf8");
  await write("db/schema/notes/access.sql", access.replace("grant select on", "grant select onn"));
  await printed(/^db\/schema\/notes\/access\.sql, line 3, included by current\.sql: syntax error at or near "onn"/m);
  expect(await statusOf()).toBe(200);
  await write("db/migrations/current.sql", "");
  await write("db/schema/notes/access.sql", access);
  await printed(
    /^db\/schema\/notes\/access\.sql changed, but was not run: .* Add --!include notes\/access\.sql to it$/m,
  );
  await rm(join(app, "db/schema/notes/access.sql"));
  await printed(
    /^db\/schema\/notes\/access\.sql was deleted, and the database stays as it is: add the statements that drop what it made to db\/migrations\/current\.sql$/m,
  );
  await write("db/schema/notes/access.sql", access);
});

test("an error that nothing handles ends the worker with a line of the log, and another worker serves", async () => {
  const error = 'Object.assign(new Error("late"), { detail: "a row" })';
  await write("routes/hello.ts", route(`(setTimeout(() => { throw ${error}; }), "late")`));
  await expect.poll(served, POLL).toBe("late");
  await printed(/^\{"level":"fatal".*"message":"late"/m);
  expect(dev.stdout + dev.stderr).not.toContain("a row");
  await write("routes/hello.ts", route('"calm"'));
  await expect.poll(served, POLL).toBe("calm");
});

test("stops with its worker and its database", async () => {
  dev.interrupt();
  expect(await dev.exited(), dev.stdout + dev.stderr).toBe(0);
  await expect.poll(() => processesNamed(home), POLL).toEqual([]);
});

test("an error at the start names file and line, with exit code 2", async () => {
  await write("routes/hello.ts", "const a = ;\n");
  const refused = devStart({ folder: app, dataDir: join(home, "data") });
  expect(await refused.exited()).toBe(2);
  expect(refused.stderr).toMatch(`${join(app, "routes/hello.ts:1")}: Expression expected`);
  const absent = devStart({ folder: home, dataDir: join(home, "data") });
  expect(await absent.exited()).toBe(2);
  expect(absent.stderr).toBe(`${home} is not an application: it has no content-service.config.ts\n`);
});
