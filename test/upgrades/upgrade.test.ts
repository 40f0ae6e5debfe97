import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { withoutMetaCommands } from "../../cli/base.ts";
import { describeDatabase, differences } from "../../parts/development/migrations/describe.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { startTestService } from "../support/service.ts";

/** The databases of the released versions, as dump.ts has written them. */
const RELEASED = globSync("*.sql.gz", { cwd: import.meta.dirname }).sort();

const nameIn = ({ url }: TestDatabase) => new URL(url).pathname.slice(1);

/** Restores the database of a released version. Its login role of `auth`, to which it has granted rights, gets another name. */
async function restore(file: string, database: TestDatabase): Promise<void> {
  const login = `${nameIn(database)}_auth`;
  const text = gunzipSync(readFileSync(join(import.meta.dirname, file))).toString();
  // Its own connection: pg_dump empties the search_path.
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  try {
    await client.query(`create role ${login}`);
    await client.query(withoutMetaCommands(text).replaceAll("content_auth", login));
  } finally {
    await client.end();
  }
}

/** A role that another test has created meanwhile: roles belong to the server. */
const OF_OTHERS = /^(?:role|membership) .*\btest_[0-9a-f]{10}/;

/** The objects of a database, whatever its name. */
const objectsOf = async (database: TestDatabase) =>
  (await describeDatabase(database.owner))
    .map((line) => line.replaceAll(nameIn(database), "content"))
    .filter((line) => !OF_OTHERS.test(line));

test("each released version has a database here", () => {
  expect(RELEASED).not.toEqual([]);
});

test.each(RELEASED)("%s becomes a database as a new one, and its accounts, keys and rows are there", async (file) => {
  const released = await createTestDatabase(undefined, "template1");
  await restore(file, released);
  const upgraded = await startTestService({ API_KEY_REQUIRED: "off" }, released);
  onTestFinished(upgraded.stop);
  const current = await startTestService();
  onTestFinished(current.stop);
  // If 1.0.0 is not released yet, make its database again: node test/upgrades/dump.ts. Otherwise a migration of a module is missing.
  expect(differences(await objectsOf(released), await objectsOf(current.database))).toEqual([]);

  const login = await fetch(`${upgraded.url}/auth/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ username: "ada", password: "Correct-Horse-7!" }),
  });
  expect(login.status).toBe(200);
  const { accessToken } = (await login.json()) as { readonly accessToken: string };
  const headers = { authorization: `Bearer ${accessToken}` };
  const keys = await fetch(`${upgraded.url}/auth/keys`, { headers });
  expect(await keys.json()).toMatchObject({ data: [{ name: "a key" }] });
  expect(await (await fetch(`${upgraded.url}/users/1`)).json()).toMatchObject({ name: "Ada Lovelace" });
  const { rows } = await released.owner.query("select count(*)::int as tasks from graphile_worker.jobs");
  expect(rows).toEqual([{ tasks: 1 }]);
});
