import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { init } from "../../parts/development/init/init.ts";
import { EMBEDDED, type ForeignServer, startForeignServer } from "../modules/foreign-server.ts";

let server: ForeignServer;
let folder: string;
beforeAll(async () => {
  server = await startForeignServer(undefined, EMBEDDED);
  folder = await mkdtemp(join(tmpdir(), "unsafe names "));
});
afterAll(async () => {
  await server?.cluster.remove();
  await rm(folder, { recursive: true });
});

test.each([
  [
    "role",
    "x\ncreate role thief superuser; --",
    (name: string) => `create role ${name}; grant select on notes to ${name}`,
  ],
  [
    "role",
    "x$$; create role thief superuser; --",
    (name: string) => `create role ${name}; grant select on notes to ${name}`,
  ],
  ["column", "x\ncreate role thief superuser; --", (name: string) => `alter table users add ${name} date not null`],
  ["table", "x\ncreate role thief superuser; --", (name: string) => `create table ${name} ()`],
  [
    "schema",
    "x\ncreate role thief superuser; --",
    (name: string) => `create schema ${name}; create table ${name}.users ()`,
  ],
])("init writes no SQL with the name of a %s that would run as a statement: %j", async (kind, name, make) => {
  const database = await server.makeDatabase(
    `names_${Math.random().toString(36).slice(2)}`,
    "create table notes (id int); create table users (id uuid primary key, email text not null)",
  );
  try {
    await database.owner.query(make(`"${name}"`));
    const outcome = await outcomeOf(init(["--database", database.url, join(folder, database.name)]));
    expect(outcome).toMatchObject({ exitCode: 1 });
    expect(outcome.stderr).toContain(
      `the name of the ${kind} ${JSON.stringify(name)} has a line break, another control character, or $$: rename it first`,
    );
    expect(await readdir(folder)).toEqual([]);
  } finally {
    if (kind === "role") await database.owner.query(`revoke all on notes from "${name}"; drop role "${name}"`);
    await database.drop();
  }
});
