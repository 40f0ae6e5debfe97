import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasServer } from "../modules/foreign-server.ts";
import { PROJECT } from "../support/command.ts";
import { InstalledApplication } from "../support/installed-application.ts";
import { TAKES_ALL } from "../support/samples.ts";
import { notesIn, trackitIn } from "./applications.ts";
import { followDeveloper } from "./scenario.ts";

const run = promisify(execFile);
const MANIFEST = JSON.parse(await readFile(join(PROJECT, "package.json"), "utf8"));

/** Milliseconds, also on a machine that is busy: it compiles the package, and installs 360 others. */
const INSTALLATION_LIMIT = 600_000;

/** Megabytes of packages, without Node and the embedded server. The application has 70 of TypeScript and Vitest. */
const MAX_SIZE = { application: 280, package: 190 };

let app: InstalledApplication;
let bare: InstalledApplication | undefined;
beforeAll(async () => {
  app = await InstalledApplication.fromClone();
  // Without its install script it has no program.
  await rm(app.path("node_modules/node"), { recursive: true });
}, INSTALLATION_LIMIT);
afterAll(() => app?.remove());

test("the package has no sources but those to read, and no development dependencies", async () => {
  const installed = app.path("node_modules/content-service");
  const files = (await readdir(installed, { recursive: true })).filter(
    // Applications to read, and the example pages that `content-service example` copies.
    (file) => !/^(node_modules\/|demo(\/|$)|test$|test\/applications(\/(notes|tested)|$))/.test(file),
  );
  expect(files).toEqual(expect.arrayContaining(["server.js", "app/index.d.ts", "docs/tables.md", "CHANGELOG.md"]));
  expect(files.filter((file) => /^(?!template\/).*(?<!\.d)\.ts$|^(demo|test)/.test(file))).toEqual([]);
  const manifest = JSON.parse(await readFile(join(installed, "package.json"), "utf8"));
  expect(manifest).toMatchObject({ version: MANIFEST.version });
  // Of an optional peer, npm ci --omit=dev would install everything.
  for (const name of ["private", "scripts", "devDependencies", "overrides", "peerDependencies"])
    expect(manifest).not.toHaveProperty(name);
  expect(existsSync(app.path("node_modules/monaco-editor"))).toBe(false);
});

test("an application installs at most 280 MB besides Node and the embedded server", async () => {
  expect(await app.size()).toBeLessThanOrEqual(MAX_SIZE.application);
});

test.skipIf(!TAKES_ALL)(
  "the package alone installs at most 190 MB",
  async () => {
    bare = await app.installBeside("for a database");
    expect(await bare.size()).toBeLessThanOrEqual(MAX_SIZE.package);
  },
  INSTALLATION_LIMIT,
);

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

test("an older Node runs the command with the Node of the package node, or says what is missing", async (context) => {
  const old = "/usr/bin/node";
  const version = existsSync(old) ? (await run(old, ["--version"])).stdout : "v99";
  context.skip(Number.parseInt(version.slice(1), 10) >= 24, `${old} is missing or not old`);
  expect(await app.command(["ready"], {}, { node: old })).toMatchObject({
    code: 2,
    stdout: "",
    stderr: expect.stringMatching(/^this command needs Node 24\.2 or later, and this is Node [\d.]+: /),
  });
  await symlink(join(PROJECT, "node_modules/node"), app.path("node_modules/node"));
  expect(await app.command(["ready"], {}, { node: old })).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("not ready"),
  });
});

describe("the application of init", () => followDeveloper(() => notesIn(app), INSTALLATION_LIMIT));

// Its tests take minutes, and most of what they need of the package was tested above.
describe.skipIf(!hasServer || !TAKES_ALL)("the application of init --database, installed with pnpm", () =>
  followDeveloper(() => trackitIn(bare!), INSTALLATION_LIMIT),
);
