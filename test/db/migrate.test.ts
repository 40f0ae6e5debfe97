import { copyFile, cp, mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { migrate } from "../../db/cluster/migrate.ts";
import { MIGRATIONS_FOLDER } from "../../db/cluster/migrations-folder.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

/** The warnings so far, and the end of the migrations. */
function start() {
  const warnings: string[] = [];
  const ended = migrate(database.url, (level, line) => level === "warning" && warnings.push(line));
  return { warnings, ended };
}

test("services that start at the same time migrate one after the other", async () => {
  await database.owner.query("select pg_advisory_lock(hashtext('content-service:migrate'))");
  const services = [start(), start(), start()];
  for (const { warnings } of services)
    await expect.poll(() => warnings).toEqual(["another service is migrating the database: waiting"]);
  await database.owner.query("select pg_advisory_unlock(hashtext('content-service:migrate'))");
  await Promise.all(services.map(({ ended }) => ended));
});

test("a database that has all migrations is left as it is", async () => {
  const lines: string[] = [];
  await migrate(database.url, (_, line) => void lines.push(line));
  expect(lines).toEqual([]);
});

test("two migrations with the same number stop the start", async () => {
  const folder = await mkdtemp(join(tmpdir(), "migrations-"));
  await cp(MIGRATIONS_FOLDER, folder, { recursive: true });
  const committed = join(folder, "committed");
  const last = (await readdir(committed)).sort().at(-1)!;
  await copyFile(join(committed, last), join(committed, last.replace(".sql", "-of-another-branch.sql")));
  await expect(migrate(database.url, () => {}, folder)).rejects.toThrow(/^Previous migration with hash/);
});

test("an older version on a newer database names the migrations that it lacks, and serves it", async () => {
  const later = "insert into graphile_migrate.migrations (hash, filename, date) values ($1, $2, now())";
  await database.owner.query(later, ["sha1:1", "999998.sql"]);
  await database.owner.query(later, ["sha1:2", "999999.sql"]);
  const { warnings, ended } = start();
  await ended;
  expect(warnings).toEqual([
    "a newer version of the service has migrated this database. This version serves it without the features of these migrations: " +
      "999998.sql, 999999.sql",
  ]);
});
