import { execFile } from "node:child_process";
import { appendFile, chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, beforeEach, expect, onTestFinished, test } from "vitest";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import { DEBIAN_15, hasServer } from "../modules/foreign-server.ts";
import { ADA, BOB, SUPABASE } from "../modules/supabase.ts";
import { PROJECT } from "../support/command.ts";
import { linkPackages, PACKAGE_LIMIT, PROGRAM } from "../support/package.ts";

const TESTED = join(PROJECT, "test/applications/tested");

let home: string;
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "tested-"));
  await chmod(home, 0o755);
  // Keeps what vitest has compiled for the next test.
  await linkPackages(home);
  return () => rm(home, { recursive: true });
}, PACKAGE_LIMIT);
beforeEach(async () => {
  const left = (await readdir(home)).filter((name) => name !== "node_modules");
  for (const name of left) await rm(join(home, name), { recursive: true });
  const filter = (file: string) => !file.includes("node_modules");
  await cp(TESTED, home, { recursive: true, verbatimSymlinks: true, filter });
  await writeFile(join(home, "package.json"), '{ "type": "module" }');
});

type Outcome = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** `content-service test`, as a developer runs it. */
const run = (...args: string[]): Promise<Outcome> => runWith({ CI: "true" }, ...args);

const runWith = (settings: Readonly<Record<string, string>>, ...args: string[]): Promise<Outcome> =>
  promisify(execFile)(process.execPath, [join("node_modules/content-service", PROGRAM), "test", ...args], {
    cwd: home,
    // With the cache of the project for what Node has compiled.
    env: {
      NODE_COMPILE_CACHE: join(PROJECT, "node_modules/.cache/compiled"),
      PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
      NO_COLOR: "1",
      ...settings,
    },
  }).then(
    (output) => ({ code: 0, ...output }),
    (error) => error,
  );

test("types, migrations and tests of an application are checked", async () => {
  expect(await run()).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      /create the same database \(\d+ objects\)[\s\S]*Test Files +2 passed[\s\S]*Tests +6 passed/,
    ),
  });
});

test("a policy of current.sql that lets others read fails the tests, with exit code 1", async () => {
  const change = 'alter policy "authors read their notes" on notes using (true);\n';
  await writeFile(join(home, "db/migrations/current.sql"), change);
  // Only an application with this file has its types checked.
  await rm(join(home, "tsconfig.json"));
  const { code, stdout, stderr } = await run("access");
  expect(code).toBe(1);
  expect(stdout).toMatch(/current\.sql is not committed[\s\S]*Tests +2 failed \| 1 passed/);
  expect(stderr).toContain("- | bob | 2-5 |");
  expect(stderr).toContain("+ | bob | all |");
  expect(stderr).toMatch(/lines with - are what it was.* run npx content-service test -u\n$/);
});

test("a migration that is not committed counts, and fails in continuous integration", async () => {
  await writeFile(join(home, "db/schema/added.sql"), "comment on table public.notes is 'Texts.';\n");
  await appendFile(join(home, "db/schema/schema.sql"), "--!include added.sql\n");
  await writeFile(join(home, "db/migrations/current.sql"), "--!include added.sql\n");
  await rm(join(home, "tsconfig.json"));
  expect(await runWith({}, "access")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/current\.sql is not committed[\s\S]*create the same database[\s\S]*Tests +3 passed/),
  });
  expect(await run("access")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/create different databases[\s\S]*current\.sql is not committed/),
  });
});

test("db/base has what the database had before the application: tests, migrate check and commit begin with it", async () => {
  await mkdir(join(home, "db/base"));
  await writeFile(join(home, "db/base/roles.sql"), "create role clerk;\n");
  const dump =
    "\\restrict k\nselect set_config('search_path', '', false);\ncreate table public.stores (id integer primary key);" +
    " comment on table public.stores is '@accept table-without-row-security All users see them.';\n";
  await writeFile(join(home, "db/base/schema.sql"), `${dump}grant select on public.stores to clerk;\n\\unrestrict k\n`);
  const grant = "grant clerk to authenticated;\n";
  await writeFile(join(home, "db/schema/stores.sql"), grant);
  await appendFile(join(home, "db/schema/schema.sql"), "--!include stores.sql\n");
  await writeFile(join(home, "db/migrations/current.sql"), "--!include stores.sql\n");
  const committed = await migrationCommand(["commit", "clerks"], { environment: { APPLICATION: home } });
  expect(committed).toContain("db/migrations/committed/000002-clerks.sql has been written.\n");
  const reads = `import { testDatabase } from "content-service/test";
import { expect, test } from "vitest";

const db = await testDatabase();
test("users read stores", async () => {
  expect(await db.as(await db.account("ada")).query("select id from stores")).toEqual([]);
});
`;
  await writeFile(join(home, "test/stores.test.ts"), reads);
  await rm(join(home, "tsconfig.json"));
  const { code, stdout } = await run("stores");
  expect([code, stdout]).toEqual([0, expect.stringMatching(/same database[\s\S]*Tests +1 passed/)]);
  await writeFile(join(home, "db/base/schema.sql"), `${dump}\ncreate table public.stores ();\n`);
  expect(await run()).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('db/base/schema.sql, line 5: relation "stores" already exists (42P07)'),
  });
});

test.skipIf(!hasServer)(
  "an extension that the embedded PostgreSQL lacks is one of the server of TEST_POSTGRES",
  async () => {
    await mkdir(join(home, "db/base"));
    await writeFile(join(home, "db/base/schema.sql"), "create extension old_snapshot;\n");
    await rm(join(home, "tsconfig.json"));
    const missing = await run("access");
    expect(missing).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /db\/base\/schema\.sql, line 1: extension "old_snapshot" is not available[\s\S]*The server lacks it[\s\S]*TEST_POSTGRES=/,
      ),
    });
    expect(await runWith({ CI: "true", TEST_POSTGRES: DEBIAN_15 }, "access")).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/create the same database[\s\S]*Tests +3 passed/),
    });
    expect(await runWith({ CI: "true", TEST_POSTGRES: "/none" }, "access")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        "TEST_POSTGRES: PostgreSQL was not found in /none: /none/postgres does not exist",
      ),
    });
  },
);

test("beside the schema auth of Supabase in db/base, migrations are committed, and policies ask its auth.uid()", async () => {
  await rm(join(home, "test"), { recursive: true });
  await rm(join(home, "db"), { recursive: true });
  await rm(join(home, "tsconfig.json"));
  for (const folder of ["db/base", "db/schema", "db/migrations/committed", "test"])
    await mkdir(join(home, folder), { recursive: true });
  await symlink("../schema", join(home, "db/migrations/fixtures"));
  await writeFile(
    join(home, "content-service.config.ts"),
    'import { defineConfig } from "content-service";\nexport default defineConfig({ settings: { MODULES: "tasks" } });\n',
  );
  await writeFile(join(home, "db/base/schema.sql"), SUPABASE);
  await writeFile(join(home, "db/schema/schema.sql"), "--!include lists.sql\n");
  await writeFile(
    join(home, "db/schema/lists.sql"),
    `create table if not exists public.lists (id integer primary key, user_id uuid not null default auth.uid());
alter table public.lists enable row level security;
drop policy if exists "own lists" on public.lists;
create policy "own lists" on public.lists to authenticated using (user_id = (select auth.uid()));
grant select, insert (id) on public.lists to authenticated;
`,
  );
  await writeFile(join(home, "db/migrations/current.sql"), "--!include lists.sql\n");
  await writeFile(
    join(home, "test/lists.test.ts"),
    `import { testDatabase } from "content-service/test";
import { expect, test } from "vitest";

const db = await testDatabase();
const as = (sub: string) => db.as({ role: "authenticated", claims: { sub } });
test("users have their own lists and todos", async () => {
  await as("${ADA}").query("insert into lists (id) values (1)");
  expect(await as("${ADA}").query("select l.id, t.text from lists as l, todos as t")).toEqual([{ id: 1, text: "of Ada" }]);
  expect(await as("${BOB}").query("select id from lists")).toEqual([]);
});
`,
  );
  // This process may have imported the configuration of another test at the same path.
  const environment = { APPLICATION: home, MODULES: "tasks" };
  const committed = await migrationCommand(["commit", "lists"], { environment });
  expect(committed).toContain("db/migrations/committed/000001-lists.sql has been written.\n");
  const { code, stdout } = await run("lists");
  expect([code, stdout]).toEqual([0, expect.stringMatching(/same database[\s\S]*Tests +1 passed/)]);
});

test("nothing runs after an error in the types", async () => {
  await writeFile(join(home, "wrong.ts"), 'export const wrong: number = "1";\n');
  const { code, stdout, stderr } = await run();
  expect([code, stderr]).toEqual([1, "npx content-service test: failed\n"]);
  expect(stdout).toContain("wrong.ts(1,14): error TS2322");
  expect(stdout).not.toContain("same database");
});

test("without vitest or an application the command says what is missing", async () => {
  const link = join(home, "node_modules/vitest");
  await rm(link);
  onTestFinished(() => symlink(join(PROJECT, "node_modules/vitest"), link));
  expect(await run()).toMatchObject({
    code: 2,
    stderr: `vitest is not installed in ${home}: npm install --save-dev vitest\n`,
  });
  await rm(join(home, "content-service.config.ts"));
  expect(await run()).toMatchObject({
    code: 2,
    stderr: "there is no content-service.config.ts here: run the command in the folder of the application\n",
  });
});

test("docs/applications.md has the matrix of the example", async () => {
  const docs = await readFile(join(PROJECT, "docs/applications.md"), "utf8");
  const matrix = await readFile(join(TESTED, "test/access.md"), "utf8");
  expect(docs).toContain(`\`\`\`md\n${matrix.split("\n## ")[0]}\`\`\``);
});
