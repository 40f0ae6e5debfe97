import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { loadApplication } from "../../app/load.ts";
import { createLog } from "../../gate/pipeline/log.ts";
import { accessMatrix, type NamedCaller } from "../../kit/access-matrix.ts";
import { onTestDatabase } from "../../kit/application.ts";
import { copyDatabase, type DatabaseCopy } from "../../kit/cluster.ts";
import { openConfigured } from "../../service/open.ts";

/** The matrix of an application, on a database of its own. */
class Matrix {
  readonly original: string;
  readonly #database: DatabaseCopy;
  readonly #callers: readonly NamedCaller[];

  private constructor(database: DatabaseCopy, callers: readonly NamedCaller[], original: string) {
    this.#database = database;
    this.#callers = callers;
    this.original = original;
  }

  static async of(folder: string): Promise<Matrix> {
    const database = await copyDatabase(inject("clusterUrl"), "template1");
    const definition = await loadApplication(folder);
    await openConfigured(await onTestDatabase(definition, database.url, { SEED: "demo" }), createLog("error"));
    const { rows } = await database.owner.query(
      "select username as name, role, json_build_object('sub', user_id) as claims from auth_private.accounts order by username",
    );
    const [anon, service] = ["anon", "service_role"].map((role) => ({ name: role, role, claims: {} }));
    const callers = [anon!, ...rows, service!];
    return new Matrix(database, callers, await matrixOf(database, callers));
  }

  /** The matrix with a change of the database, which is rolled back. */
  after = (change: string): Promise<string> => matrixOf(this.#database, this.#callers, change);
  drop = (): Promise<void> => this.#database.drop();
}

async function matrixOf({ owner }: DatabaseCopy, callers: readonly NamedCaller[], change = "select"): Promise<string> {
  // In the transaction of the matrix.
  await owner.query(`begin; ${change}`);
  return accessMatrix(owner, { schemas: ["public"], callers });
}

let tested: Matrix;
let template: Matrix;
beforeAll(async () => {
  tested = await Matrix.of("test/applications/tested");
  template = await Matrix.of("template");
});
afterAll(() => Promise.all([tested?.drop(), template?.drop()]));

test("the matrix is that of the tests of the application", async () => {
  expect(tested.original).toBe(await readFile("test/applications/tested/test/access.md", "utf8"));
});

test("a table without rows shows the grants, and says how to try the policies", async () => {
  const matrix = await tested.after(`create table ideas (id integer primary key default 1, text text);
    alter table ideas enable row level security;
    grant select, insert (text) on ideas to authenticated;
    grant all on ideas to service_role`);
  const [section] = matrix.split(/^## /m).filter((each) => each.startsWith("public.ideas"));
  expect(section!.trim().split("\n")).toEqual([
    "public.ideas: no rows",
    "",
    "Without rows little more than the grants is known. Add rows to db/seed.sql, and the policies are tried on them. Until then, they are listed.",
    "",
    "| Caller | select | insert | update | delete |",
    "|---|---|---|---|---|",
    "| anon | denied | denied | denied | denied |",
    expect.stringMatching(/^\| ada, .*bob.* \| granted \| granted \(text\) \| denied \| denied \|$/),
    "| service_role | granted | a row of defaults | granted | granted |",
    "",
    "- `no policies`",
  ]);
});

// What an application with other tables does not show: see test/existing/access-matrix.all.test.ts.
describe("every change of rights changes the matrix of an application", () => {
  const own = "author_id = (select auth.uid())";
  test.each([
    'alter policy "everyone reads published notes" on notes to authenticated',
    `alter policy "users read notes that are shared with them" on notes
       using (id in (select s.note_id from shares as s where s.owner_id = (select auth.uid())))`,
    'alter policy "admins read all notes" on notes to authenticated',
    `drop policy "authors change their notes" on notes;
     create policy "authors change their notes" on notes for delete to authenticated using (${own})`,
    `alter policy "authors delete their drafts" on notes using (${own})`,
    `drop policy "authors read their notes" on notes;
     create policy "authors read their notes" on notes as restrictive for select to authenticated using (${own})`,
    "alter table notes disable row level security",
    "grant update on shares to authenticated",
    "grant insert (id) on notes to authenticated",
    "grant delete on notes to anon",
    "revoke select on notes from anon",
    "grant service_role to authenticated",
    "create view all_notes as table notes; grant select on all_notes to anon",
  ])("%s", async (change) => expect(await tested.after(change)).not.toBe(tested.original));

  test("a change of a comment does not", async () =>
    expect(await tested.after("comment on table notes is 'Texts.'")).toBe(tested.original));
});

describe("every change of a policy of the template changes its matrix", () => {
  const NOTES = '"authors have their own notes" on public.notes';
  const USERS = '"users have their own row" on public.users';
  const own = "(select auth.uid())";
  /** The policy with another kind or command. */
  const instead = (policy: string, rest: string) => `drop policy ${policy}; create policy ${policy} ${rest}`;
  test.each([
    `drop policy ${NOTES}`,
    `alter policy ${NOTES} to anon`,
    `alter policy ${NOTES} using (true)`,
    `alter policy ${NOTES} using (false)`,
    `alter policy ${NOTES} using (author_id is not null)`,
    `alter policy ${NOTES} using (author_id <> ${own})`,
    `alter policy ${NOTES} using (author_id = ${own} and text like 'Buy%')`,
    `alter policy ${NOTES} using (author_id = ${own} or text like 'Call%')`,
    // Not "with check (true)": without a grant on author_id, no caller can write a note of another user.
    `alter policy ${NOTES} with check (false)`,
    `alter policy ${NOTES} with check (author_id <> ${own})`,
    instead(NOTES, `for select to authenticated using (author_id = ${own})`),
    instead(NOTES, `for insert to authenticated with check (author_id = ${own})`),
    instead(NOTES, `for update to authenticated using (author_id = ${own})`),
    instead(NOTES, `for delete to authenticated using (author_id = ${own})`),
    instead(NOTES, `as restrictive to authenticated using (author_id = ${own})`),
    "create policy p on public.notes for select to authenticated using (true)",
    "create policy p on public.notes for delete to authenticated using (true)",
    "create policy p on public.notes as restrictive for update to authenticated using (false)",
    "alter table public.notes disable row level security",
    `drop policy ${USERS}`,
    `alter policy ${USERS} to anon`,
    `alter policy ${USERS} using (true)`,
    `alter policy ${USERS} using (name is not null)`,
    `alter policy ${USERS} with check (false)`,
    instead(USERS, `for select to authenticated using (id = ${own})`),
    instead(USERS, `as restrictive to authenticated using (id = ${own})`),
    "create policy p on public.users for select to authenticated using (true)",
    "alter table public.users disable row level security",
  ])("%s", async (change) => expect(await template.after(change)).not.toBe(template.original));
});
