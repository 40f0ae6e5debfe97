import { chmod, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { init } from "../../parts/development/init/init.ts";
import { type Command, devStart, nodeRun, PROJECT } from "../support/command.ts";
import { readConfig } from "../support/config.ts";
import { POLL } from "../support/until.ts";

let home: string;
let app: string;
let service: Command;
let authorization: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "template-"));
  await chmod(home, 0o755);
  app = join(home, "app");
  await init([app]);
  await mkdir(join(app, "node_modules"));
  await symlink(PROJECT, join(app, "node_modules/content-service"));
  service = devStart({ folder: app, dataDir: join(home, "data"), shared: true });
  await service.ready();
  const [, username, password] = /^(\w+) .*\((.*)\)$/.exec(service.banner.get("Demo accounts")!)!;
  authorization = `Bearer ${await service.login(username, password)}`;
});
afterAll(async () => {
  await service.end();
  await rm(home, { recursive: true, force: true, maxRetries: 5 });
});

const read = (file: string) => readFile(join(app, file), "utf8");
const send = async (path: string, init: RequestInit = {}, headers = { authorization }) => {
  const response = await fetch(service.url + path, {
    ...init,
    headers: { "content-type": "application/json", ...headers },
  });
  return { status: response.status, json: (await response.json()) as any };
};

test("the resource has the notes of the account of db/seed.sql, and of no other user", async () => {
  const own = "Buy punched cards";
  expect((await send("/notes")).json.data).toMatchObject([{ text: own }, { text: expect.any(String) }]);
  const added = await send("/notes", { method: "POST", body: JSON.stringify({ text: "Call Bob" }) });
  expect([added.status, added.json]).toMatchObject([201, { text: "Call Bob" }]);
  expect((await send("/notes", {}, {} as never)).status).toBe(401);
  expect((await service.dba("select count(*)::int from notes")).at(0)).toEqual({ count: 4 });
});

test("the route, the plugin and the task do what they say", async () => {
  expect((await send("/hello")).json).toEqual({ role: "authenticated" });
  const query = JSON.stringify({ query: "{ notes { edges { node { text wordCount } } } }" });
  const { edges } = (await send("/graphql", { method: "POST", body: query })).json.data.notes;
  expect(edges).toContainEqual({ node: { text: "Buy punched cards", wordCount: 3 } });
  await service.dba("select tasks.run('digest', '{}')");
  await expect.poll(() => service.stdout, POLL).toMatch(/"notes":\d,"msg":"notes of the last day"/);
});

test("the advisor finds nothing in its tables, and the workflow runs its scripts", async () => {
  expect(service.stdout).not.toMatch(/"level":"(warn|error)"/);
  const { scripts } = JSON.parse(await read("package.json"));
  // npm passes a signal on to its shell, which would leave the service running.
  for (const name of ["dev", "start"]) expect(scripts[name]).toBe(`exec content-service ${name}`);
  const runs: string[] = parse(await read(".github/workflows/test.yml")).jobs.test.steps.flatMap(
    (step: any) => step.run ?? [],
  );
  expect(runs.shift()).toBe("npm ci");
  expect(Object.keys(scripts)).toEqual(expect.arrayContaining(runs.map((run) => run.replace(/^npm (run )?/, ""))));
});

test("the variables of .env.example are settings, and it starts nothing without values", async () => {
  const variables = parseEnv(await read(".env.example"));
  expect(Object.keys(variables)).toEqual(["BASE_URL", "DATABASE_URL", "JWT_SECRET", "MAIL_FROM", "MAIL_URL", "PARTS"]);
  expect(readConfig(variables).embedded).toBe(true);
  const given = {
    DATABASE_URL: "postgres://db/notes",
    JWT_SECRET: "x".repeat(64),
    BASE_URL: "https://notes.example.com",
  };
  expect(readConfig({ ...variables, ...given }).embedded).toBe(false);
});

test("its part is in the list, is left out by PARTS, and is deleted with its folder and its line", async () => {
  const listed = async (PARTS = "") => {
    const command = nodeRun("parts", { dataDir: join(home, "data"), settings: { APPLICATION: app, PARTS } });
    await command.exited();
    return command.stdout + command.stderr;
  };
  expect(await listed()).toMatch(/^digest +open +everywhere +counts the notes of the last day$/m);
  expect(await listed("-digest")).toMatch(/^digest +not open /m);

  await rm(join(app, "parts"), { recursive: true });
  const lines = (await read("content-service.config.ts")).split("\n").filter((line) => !line.includes("digest"));
  await writeFile(join(app, "content-service.config.ts"), lines.join("\n"));
  await expect.poll(() => service.stdout, POLL).toMatch(/content-service\.config\.ts.* changed: reloaded in/);
  // A connection of the previous process may end with the request.
  await expect.poll(async () => (await send("/hello")).json, POLL).toEqual({ role: "authenticated" });
  expect(await listed()).not.toContain("digest");
  expect(await listed("-digest")).toContain("PARTS names digest, which is not a part");
});
