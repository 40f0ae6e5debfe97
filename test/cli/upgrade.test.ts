import pg from "pg";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { notableChanges, upgrade } from "../../cli/upgrade.ts";
import { VERSION } from "../../db/cluster/modules.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { JWT_SECRET } from "../support/service.ts";

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

const run = (args: string[] = [], settings = {}) => {
  const environment = { DATABASE_URL: database.url, JWT_SECRET, APPLICATION: "demo", ...settings };
  return outcomeOf(upgrade(args, environment));
};
const LEDGER = "select module, code_hash, product_version, updated_at from content_service.modules order by module";
const ledger = async () => (await database.owner.query(LEDGER)).rows;
const CURRENT = `The modules in the database are those of ${VERSION}, and this is version ${VERSION}.
The database is up to date: there is nothing to do.
`;

/** As if an older version had migrated it, which had other code in a module. */
const makeOlder = () =>
  database.owner.query(
    "update content_service.modules set product_version = '0.0.1', code_hash = case module when 'auth' then 'stale' else code_hash end",
  );

test("a database of this version needs nothing", async () => {
  expect(await run()).toEqual({ exitCode: 0, stdout: CURRENT, stderr: "" });
});

test("an older database stays as it is without --yes, and is upgraded with it, which running instances notice", async () => {
  await makeOlder();
  const before = await ledger();
  const { exitCode, stdout } = await run();
  expect(exitCode).toBe(0);
  expect(stdout).toMatch(`The modules in the database are those of 0.0.1, and this is version ${VERSION}.`);
  const steps = `An upgrade of the database:
  the module auth: a start runs its code again

`;
  const unchanged = `${steps}Nothing has been changed. npx content-service upgrade --yes does it, and`;
  expect(stdout).toContain(`${unchanged} so does a start of this version.`);
  expect((await run([], { MIGRATE: "check" })).stdout).toContain(`${unchanged} with MIGRATE=check no start does.`);
  expect(await ledger()).toEqual(before);

  await database.owner.query(
    "drop event trigger announce_schema_change; drop event trigger announce_schema_drop; listen pgrst",
  );
  const announced = new Promise((resolve) => database.owner.once("notification", resolve));
  const done = await run(["--yes"]);
  expect(await announced).toMatchObject({ channel: "pgrst", payload: "reload schema" });
  expect([done.exitCode, done.stderr, done.stdout]).toEqual([0, "", expect.stringContaining(`${steps}Done.`)]);
  expect((await run()).stdout).toBe(CURRENT);
});

test("migrations of the application that the database does not have are steps", async () => {
  await database.owner.query("delete from graphile_migrate.migrations");
  const { stdout } = await run();
  expect(stdout).toContain("An upgrade of the database:\n  the migration 000001-the-demo.sql of the application\n\n");
  expect((await run([], { MIGRATE: "modules" })).stdout).toBe(CURRENT);
});

test("a migration that was changed after the database had run it is named by upgrade", async () => {
  await database.owner.query(
    "update graphile_migrate.migrations set hash = 'sha1:of another text' where filename = '000001.sql'",
  );
  const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  onTestFinished(() => stderr.mockRestore());
  expect(await run()).toMatchObject({ exitCode: 0, stdout: CURRENT });
  expect(stderr).toHaveBeenCalledExactlyOnceWith(
    expect.stringMatching(
      /^migrations that this database has run were changed afterwards.*: 000001-the-demo\.sql\. Undo/,
    ),
  );
});

test("an upgrade that fails says why, and has changed nothing", async () => {
  await makeOlder();
  const before = await ledger();
  const other = new pg.Client({ connectionString: database.url });
  await other.connect();
  await other.query("begin; lock table auth_private.accounts in row exclusive mode");
  const { exitCode, stderr } = await run(["--yes"]);
  await other.query("rollback");
  await other.end();
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("canceling statement due to lock timeout (55P03)")]);
  expect(await ledger()).toEqual(before);
});

test("a database that cannot be upgraded, or is newer, is named", async () => {
  await database.owner.query("update content_service.modules set product_version = '99.0.0' where module = 'auth'");
  expect((await run(["--yes"])).stdout).toContain(
    `Version 99.0.0 has migrated the database, and this is ${VERSION}: it serves the newer modules as they are.`,
  );
  await database.owner.query("drop schema content_service cascade");
  expect(await run()).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("made before 1.0") });
});

test("with MIGRATE=off there is nothing to upgrade", async () => {
  expect(await run([], { MIGRATE: "off" })).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining("nothing in the database"),
  });
});

test("what the changelog calls breaking or deprecated is shown for the versions in between", () => {
  const changelog = `# Changelog

## 1.10.0 (2027-03-01)

### Breaking changes

- \`x\` is refused.

### Tables

- More.

## 1.9.0 (2027-02-01)

### Deprecated

- \`y\`: use \`z\`.

## 1.2.0 (2027-01-01)

### Deprecated

- Earlier.
`;
  expect(notableChanges(changelog, "1.2.0")).toBe(
    "1.10.0: Breaking changes\n\n- `x` is refused.\n\n1.9.0: Deprecated\n\n- `y`: use `z`.\n",
  );
  expect(notableChanges(changelog, "1.10.0")).toBe("");
});
