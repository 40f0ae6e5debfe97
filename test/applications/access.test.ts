import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { loadApplication } from "../../app/load.ts";
import { onTestDatabase } from "../../app/test-application.ts";
import { accessMatrix, type NamedCaller } from "../../db/access/matrix.ts";
import { copyDatabase, type DatabaseCopy } from "../../db/cluster/test-cluster.ts";
import { createLog } from "../../http/pipeline/log.ts";
import { openConfigured } from "../../service/app.ts";

let database: DatabaseCopy;
let callers: readonly NamedCaller[];
let original: string;
beforeAll(async () => {
  database = await copyDatabase(inject("clusterUrl"), "template1");
  const definition = await loadApplication("test/applications/tested");
  await openConfigured(onTestDatabase(definition, database.url, { SEED: "demo" }), createLog("error"));
  const { rows } = await database.owner.query(
    "select username as name, role, json_build_object('sub', user_id) as claims from auth_private.accounts order by username",
  );
  const service = { name: "service_role", role: "service_role", claims: {} };
  callers = [{ name: "anon", role: "anon", claims: {} }, ...rows, service];
  original = await matrixAfter("select");
});
afterAll(() => database.drop());

/** The matrix with a change of the database, which is rolled back. */
async function matrixAfter(change: string): Promise<string> {
  // In the transaction of the matrix.
  await database.owner.query(`begin; ${change}`);
  return accessMatrix(database.owner, { schemas: ["public"], callers });
}

test("the matrix is that of the tests of the application", async () => {
  expect(original).toBe(await readFile("test/applications/tested/test/access.md", "utf8"));
});

test("a table without rows shows the grants, and says how to try the policies", async () => {
  const matrix = await matrixAfter(`create table ideas (id integer primary key default 1, text text);
    alter table ideas enable row level security;
    grant select, insert (text) on ideas to authenticated;
    grant all on ideas to service_role`);
  const [section] = matrix.split(/^## /m).filter((each) => each.startsWith("public.ideas"));
  expect(section!.trim().split("\n")).toEqual([
    "public.ideas: no rows",
    "",
    "Without rows little more than the grants is known. Add rows to db/seed.sql, and the policies are tried on them.",
    "",
    "| Caller | select | insert | update | delete |",
    "|---|---|---|---|---|",
    "| anon | denied | denied | denied | denied |",
    expect.stringMatching(/^\| ada, .*bob.* \| granted \| granted \(text\) \| denied \| denied \|$/),
    "| service_role | granted | a row of defaults | granted | granted |",
  ]);
});

describe("every change of rights changes the matrix", () => {
  const own = "author_id = (select auth.uid())";
  test.each([
    'drop policy "everyone reads published notes" on notes',
    'alter policy "everyone reads published notes" on notes using (true)',
    'alter policy "everyone reads published notes" on notes to authenticated',
    'drop policy "authors read their notes" on notes',
    'alter policy "authors read their notes" on notes using (author_id is not null)',
    'drop policy "users read notes that are shared with them" on notes',
    `alter policy "users read notes that are shared with them" on notes
       using (id in (select s.note_id from shares as s where s.owner_id = (select auth.uid())))`,
    'drop policy "admins read all notes" on notes',
    'alter policy "admins read all notes" on notes to authenticated',
    'drop policy "authors add their notes" on notes',
    'alter policy "authors add their notes" on notes with check (true)',
    'drop policy "authors change their notes" on notes',
    'alter policy "authors change their notes" on notes using (true)',
    'alter policy "authors change their notes" on notes with check (true)',
    `drop policy "authors change their notes" on notes;
     create policy "authors change their notes" on notes for delete to authenticated using (${own})`,
    `alter policy "authors delete their drafts" on notes using (${own})`,
    'alter policy "authors delete their drafts" on notes using (not is_published)',
    `drop policy "authors read their notes" on notes;
     create policy "authors read their notes" on notes as restrictive for select to authenticated using (${own})`,
    "alter table notes disable row level security",
    "alter table shares disable row level security",
    "grant update on shares to authenticated",
    "grant insert (id) on notes to authenticated",
    "grant delete on notes to anon",
    "revoke select on notes from anon",
    'alter policy "owners share their notes" on shares with check (true)',
    'alter policy "owners share their notes" on shares using (true)',
    'alter policy "users see what is shared with them" on shares using (true)',
    "grant service_role to authenticated",
    "create view all_notes as table notes; grant select on all_notes to anon",
  ])("%s", async (change) => expect(await matrixAfter(change)).not.toBe(original));

  test("a change of a comment does not", async () =>
    expect(await matrixAfter("comment on table notes is 'Texts.'")).toBe(original));
});
