import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accessMatrix, type NamedCaller } from "../../kit/access-matrix.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { claimsOf, TRACKIT } from "./trackit.ts";

let database: TestDatabase;
let original: string;
/** That of the tables without rows, as `init` makes it at first. */
let empty: string;
const WITHOUT_ROWS = "truncate organisations, users, audit_log, plans cascade";
const withRoles = (text: string) => text.replaceAll("trackit_", `${database.name}_`);
beforeAll(async () => {
  database = await createTestDatabase(undefined, "template1");
  for (const file of TRACKIT.files)
    await database.owner.query(withRoles(await readFile(new URL(file, import.meta.url), "utf8")));
  // The rows of few tasks are enough.
  await database.owner.query("delete from tasks where number > 3; truncate audit_log");
  original = await matrixAfter("select");
  empty = await matrixAfter(WITHOUT_ROWS);
});
afterAll(async () => {
  for (const role of ["anon", "user", "support", "api", "feed", "owner"])
    await database.owner.query(withRoles(`drop owned by trackit_${role} cascade; drop role trackit_${role}`));
  await database.drop();
});

const user = (name: string, n: number): NamedCaller => ({ name, role: claimsOf(n).role, claims: claimsOf(n) });
const CALLERS: readonly NamedCaller[] = [
  { name: "anon", role: "trackit_anon", claims: {} },
  user("owner of 2", 1),
  user("owner of 1", 5),
  user("admin of 1", 10),
  user("member of 2", 11),
  user("member of 1", 15),
  user("guest of 5", 19),
  { name: "support", role: "trackit_support", claims: {} },
];

/** The matrix with a change of the database, which is rolled back. */
async function matrixAfter(change: string, tables?: readonly string[]): Promise<string> {
  // In the transaction of the matrix.
  await database.owner.query(`begin; ${withRoles(change)}`);
  const callers = JSON.parse(withRoles(JSON.stringify(CALLERS)));
  return accessMatrix(database.owner, { schemas: ["public"], callers, tables });
}

/** The lines of a table. */
const sectionOf = (matrix: string, table: string) =>
  matrix
    .split(/^## /m)
    .filter((section) => section.startsWith(`${table}: `))
    .flatMap((section) => section.trim().split("\n").slice(4));

test("the matrix says who reaches which rows", () => {
  expect(sectionOf(original, "public.organisations")).toEqual([
    "| anon | denied | denied | denied | denied |",
    "| owner of 2 | #2 | denied | #2 (name, billing_address) | denied |",
    "| owner of 1, admin of 1 | #1 | denied | #1 (name, billing_address) | denied |",
    "| member of 2 | #2 | denied | none (name, billing_address) | denied |",
    "| member of 1 | #1 | denied | none (name, billing_address) | denied |",
    "| guest of 5 | #5 | denied | none (name, billing_address) | denied |",
    "| support | all | all | all | all |",
  ]);
});

test("rows that a caller does not see but changes are in the matrix", () => {
  // The policy that hides archived projects is only for select.
  const [, , ofOrganisation1] = sectionOf(original, "public.projects");
  expect(ofOrganisation1).toMatch(/^\| owner of 1, .* #5; 1 other \|$/);
});

test("the matrix changes nothing, and is the same again", async () => {
  expect(await matrixAfter("select")).toBe(original);
});

const own = "organisation_id in (select app_private.my_organisations())";
/** Changes of rights, and the table in whose section they are. */
const CHANGES = [
  ['drop policy "users see themselves and their colleagues" on users', "public.users"],
  ['alter policy "users see themselves and their colleagues" on users using (true)', "public.users"],
  ['alter policy "users update themselves" on users using (true)', "public.users"],
  [
    `alter policy "users see themselves and their colleagues" on users using (id = app_private.current_user_id()
       or id in (select user_id from members where user_id in (select app_private.my_organisations())))`,
    "public.users",
  ],
  ["alter table users disable row level security", "public.users"],
  ["grant update (email) on users to trackit_user", "public.users"],
  ["grant select (bcrypt) on users to trackit_user", "public.users"],
  [
    `alter policy "owners update their organisation" on organisations using (app_private.has_role(id, 'owner', 'member'))`,
    "public.organisations",
  ],
  ['alter policy "members see their organisation" on organisations using (true)', "public.organisations"],
  ['alter policy "owners manage members" on members with check (true)', "public.members"],
  [`alter policy "owners manage members" on members using (${own})`, "public.members"],
  ['drop policy "archived projects are hidden" on projects', "public.projects"],
  [
    `drop policy "archived projects are hidden" on projects;
     create policy "archived projects are hidden" on projects for select to trackit_user using (not is_archived)`,
    "public.projects",
  ],
  ['alter policy "members use the projects of their organisation" on projects with check (true)', "public.projects"],
  [
    `drop policy "members use the projects of their organisation" on projects;
     create policy "members use the projects of their organisation" on projects for select to trackit_user using (${own})`,
    "public.projects",
  ],
  ['alter policy "members use the tasks of their organisation" on tasks using (true)', "public.tasks"],
  ['alter policy "members use the tasks of their organisation" on tasks with check (true)', "public.tasks"],
  [
    `alter policy "members use the tasks of their organisation" on tasks using (assignee_id = app_private.current_user_id())`,
    "public.tasks",
  ],
  [`alter policy "members use the comments of their organisation" on comments with check (${own})`, "public.comments"],
  ["grant select on comments to trackit_anon", "public.comments"],
  [`alter policy "owners see invoices" on invoices using (${own})`, "public.invoices"],
  ['alter policy "owners see invoices" on invoices using (true)', "public.invoices"],
  ['drop policy "users update themselves" on users', "public.users"],
  ['drop policy "owners manage members" on members', "public.members"],
  ['drop policy "members see their organisation" on organisations', "public.organisations"],
  ["grant select on audit_log_2026_11 to trackit_user", "public.audit_log_2026_11"],
  ['alter policy "users watch tasks" on task_watchers with check (true)', "public.task_watchers"],
  ["grant select on api_tokens to trackit_user", "public.api_tokens"],
  ["alter view open_tasks reset (security_invoker)", "public.open_tasks"],
] as const;

test("there are at least twenty changes of policies", () =>
  expect(CHANGES.filter(([change]) => change.includes("policy")).length).toBeGreaterThanOrEqual(20));

describe("every change of rights changes the matrix", () => {
  test.each(CHANGES)("%s", async (change, table) => {
    const lines = sectionOf(await matrixAfter(change, [table]), table);
    expect(lines.length).toBeGreaterThan(1);
    expect(lines).not.toEqual(sectionOf(original, table));
  });
});

describe("without rows too, because it lists the policies", () => {
  test("as SQL on one line each", () => {
    expect(sectionOf(empty, "public.comments").filter((line) => line.startsWith("- "))).toEqual([
      '- `"members use the comments of their organisation" for all to ' +
        `${withRoles("trackit_user")} using ((organisation_id IN ( SELECT app_private.my_organisations() AS my_organisations))) ` +
        "with check (((organisation_id IN ( SELECT app_private.my_organisations() AS my_organisations)) AND " +
        "(author_id = ( SELECT app_private.current_user_id() AS current_user_id))))`",
    ]);
    expect(sectionOf(empty, "public.plans").at(-1)).toBe("- `no row-level security`");
    expect(sectionOf(empty, "public.api_tokens").at(-1)).toBe("- `no policies`");
    expect(sectionOf(empty, "public.open_tasks").at(-1)).toBe("- `reads with the rights of its caller`");
  });

  test.each(CHANGES)("%s", async (change, table) =>
    expect(sectionOf(await matrixAfter(`${WITHOUT_ROWS}; ${change}`, [table]), table)).not.toEqual(
      sectionOf(empty, table),
    ),
  );
});
