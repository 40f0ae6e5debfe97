import { afterAll, beforeAll, expect, test } from "vitest";
import { outcomeOf } from "../../cli/command.ts";
import { why } from "../../parts/advisor/why/why.ts";
import { consoleClient, textOf } from "../support/console-client.ts";
import { EventStreamClient } from "../support/event-stream.ts";
import { organisationId, startTrackit, type Trackit, taskId, userId } from "./trackit.ts";

const NOTES = ["full_notes", "key_notes"] as const;

/** Notes of a user; the old rows of one table are logged whole, those of the other with their key. */
const tableOf = (name: string) => `
  create table ${name} (id int primary key, owner uuid not null, body text not null, title text not null default '');
  alter table ${name} enable row level security;
  grant select on ${name} to trackit_user;
  create policy "users see their notes" on ${name} for select to trackit_user
    using (owner = (select app_private.current_user_id()));`;

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit(
    { PARTS: "+console", CONSOLE_ROLES: "trackit_support" },
    undefined,
    `${NOTES.map(tableOf).join("")}
     create table drafts (id int primary key, body text);
     alter table full_notes replica identity full;
     alter role trackit_api replication;
     create publication content_changes for table full_notes, key_notes, tasks with (publish_via_partition_root)`,
  );
});
afterAll(() => trackit.stop());

const sql = async (text: string) => (await trackit.database.owner.query(text)).rows;

const npmWhy = (args: readonly string[], settings = {}) =>
  outcomeOf(
    why([...args], {
      DATABASE_URL: trackit.loginUrl,
      MIGRATE: "off",
      DB_ANON_ROLE: trackit.role("anon"),
      JWT_SECRET: trackit.secret,
      ...settings,
    }),
  );

/** As a subscriber who is a user. */
const asUser = (n: number) => ["--role", trackit.role("user"), "--claims", JSON.stringify({ sub: userId(n) })];
const conditions = async (args: readonly string[]) => {
  const { stdout } = await npmWhy([...args, "--json"]);
  const { steps, ...answer } = JSON.parse(stdout);
  const unmet = steps.filter(({ isMet }: { isMet: boolean }) => !isMet);
  return { ...answer, unmet };
};

/** A change: what the command is asked, and the statement that makes it. `t` is the table. */
type Case = {
  readonly event: string;
  readonly old?: object;
  readonly new?: object;
  readonly statement: string;
  /** What the subscriber to the table with whole old rows receives, and the subscriber to the other one. */
  readonly received: readonly [full: string | null, key: string | null];
};

const own = (id: number) => ({ id, owner: userId(1), body: "kept", title: "" });
const insert = ({ id, owner, body }: ReturnType<typeof own>) =>
  `insert into t (id, owner, body) values (${id}, '${owner}', '${body}')`;
const CASES: Readonly<Record<string, Case>> = {
  "an insert": { event: "INSERT", new: own(1), statement: insert(own(1)), received: ["INSERT", "INSERT"] },
  "an insert of another user's row": {
    event: "INSERT",
    new: { ...own(2), owner: userId(2) },
    statement: insert({ ...own(2), owner: userId(2) }),
    received: [null, null],
  },
  "an insert that does not fulfil the filter": {
    event: "INSERT",
    new: { ...own(3), body: "other" },
    statement: insert({ ...own(3), body: "other" }),
    received: [null, null],
  },
  "an update": {
    event: "UPDATE",
    old: own(1),
    new: { ...own(1), title: "new" },
    statement: "update t set title = 'new' where id = 1",
    received: ["UPDATE", "UPDATE"],
  },
  "an update into the filter": {
    event: "UPDATE",
    old: { ...own(3), body: "other" },
    new: own(3),
    statement: "update t set body = 'kept' where id = 3",
    received: ["UPDATE", "UPDATE"],
  },
  "an update out of the filter": {
    event: "UPDATE",
    old: own(3),
    new: { ...own(3), body: "gone" },
    statement: "update t set body = 'gone' where id = 3",
    received: ["DELETE", null],
  },
  "an update that gives the row to another user": {
    event: "UPDATE",
    old: own(1),
    new: { ...own(1), owner: userId(2) },
    statement: `update t set owner = '${userId(2)}' where id = 1`,
    received: ["DELETE", null],
  },
  "an update of the key": {
    event: "UPDATE",
    old: own(4),
    new: own(5),
    statement: `${insert(own(4))}; update t set id = 5 where id = 4`,
    received: ["UPDATE", "UPDATE"],
  },
  "a deletion": { event: "DELETE", old: own(5), statement: "delete from t where id = 5", received: ["DELETE", null] },
};

test.each(NOTES)("the answers of the page Why are what a stream of %s receives", async (name) => {
  const operator = await consoleClient(trackit, trackit.token(1, "support"));
  const asked = { table: name, as: "role", role: trackit.role("user"), claims: `{"sub": "${userId(1)}"}` };
  const rowIn = (row: object | undefined) => (row ? JSON.stringify(row) : "");
  const stream = new EventStreamClient(`${trackit.url}/rest/v1/${name}?body=eq.kept`, {
    headers: { authorization: `Bearer ${trackit.token(1)}` },
  });
  await stream.take(1, "snapshot");
  const expected: string[] = [];
  for (const [title, { event, old, new: current, statement, received }] of Object.entries(CASES)) {
    const change = { event, old: rowIn(old), new: rowIn(current), filter: "body=eq.kept" };
    const page = textOf(await operator.send("/why", { ...asked, ...change }));
    const wanted = received[NOTES.indexOf(name)]!;
    expect([title, page]).toEqual([title, expect.stringContaining(`The subscriber receives ${wanted ?? "nothing"}`)]);
    await sql(statement.replaceAll(/\b(into|update|from) t\b/g, `$1 ${name}`));
    if (statement.startsWith("insert") && event !== "INSERT") expected.push("INSERT");
    if (wanted !== null) expected.push(wanted);
  }
  await sql(`insert into ${name} (id, owner, body) values (1000, '${userId(1)}', 'kept')`);
  const all = await stream.take(expected.length + 1, "INSERT", "UPDATE", "DELETE");
  expect(all.map(({ event }) => event)).toEqual([...expected, "INSERT"]);
  expect(all.at(-1)!.data.new.id).toBe(1000);
});

test("prints each condition, why it is not met, and the SQL that changes that", async () => {
  const reader = ["--reader", trackit.role("support")];
  expect(await npmWhy(["public.tasks", "delete", "--key", taskId(1), ...asUser(1), ...reader])).toEqual({
    exitCode: 0,
    stdout: `yes  The service reads the changes of the database
yes  The publication content_changes has the table public.tasks
yes  The publication content_changes sends DELETE
yes  The service may act as the role ${trackit.role("user")}
yes  The role ${trackit.role("user")} may SELECT from public.tasks
yes  The publication has the columns that policies and filter read
no   The old row is logged with the columns that policies and filter read
       old rows are logged without organisation_id, without which policies or filters cannot be checked
         alter publication content_changes set (publish_generated_columns = stored);
         alter table public.tasks replica identity full;
yes  The policies let the subscriber read the old row

The subscriber receives nothing.
`,
    stderr: "",
  });
});

test("the login has no rights of its own: it reads the row with the roles that it may become, one of which has the claims", async () => {
  await sql(`insert into full_notes (id, owner, body) values (4, '${userId(1)}', 'seen by its owner')`);
  const insert = ["full_notes", "INSERT", "--key", "4"];
  expect(await conditions([...insert, ...asUser(1)])).toMatchObject({ event: "INSERT", unmet: [] });
  const { stderr } = await npmWhy([...insert, ...asUser(1), "--reader", trackit.role("anon")]);
  expect(stderr).toContain(
    "permission denied for table full_notes: name a role that may read it with --reader, or give",
  );
  const hidden = await npmWhy([...insert, ...asUser(2)]);
  expect(hidden.stderr).toContain(
    " nor a role that it may become sees a row with this key in public.full_notes: give its",
  );
  expect((await npmWhy(["full_notes", "INSERT", "--key", "x", ...asUser(1)])).stderr).toContain(
    'invalid input syntax for type integer: "x": give its values',
  );
});

test("names what is missing of publication, grants, policies and roles", async () => {
  const draft = ["--new", '{"id": 1}'];
  expect((await conditions(["drafts", "INSERT", ...draft])).unmet).toMatchObject([
    { obstacles: [{ reason: "no role of callers may read it, so there would be no subscriber" }] },
    { obstacles: [{ fix: `grant select on public.drafts to ${trackit.role("anon")};` }] },
  ]);
  await sql(`grant select (id) on drafts to ${trackit.role("anon")}`);
  expect((await conditions(["drafts", "INSERT", ...draft])).unmet).toMatchObject([
    {
      condition: "The publication content_changes has the table public.drafts",
      obstacles: [{ fix: "alter publication content_changes add table public.drafts;" }],
    },
  ]);
  const filtered = await conditions(["drafts", "INSERT", ...draft, "--filter", "body=eq.x"]);
  expect(filtered.unmet).toContainEqual(
    expect.objectContaining({
      condition: "The subscriber may use the filter",
      obstacles: [expect.objectContaining({ fix: `grant select (body) on public.drafts to ${trackit.role("anon")};` })],
    }),
  );
  await sql("alter publication content_changes add table drafts");
  expect(await conditions(["drafts", "INSERT", ...draft])).toMatchObject({ event: "INSERT", unmet: [] });
  await sql("alter table drafts enable row level security");
  expect((await conditions(["drafts", "INSERT", ...draft])).unmet).toMatchObject([
    { obstacles: [{ fix: expect.stringContaining('create policy "…" on public.drafts for select') }] },
  ]);
  await sql("alter publication content_changes set (publish = 'update')");
  const { unmet } = await conditions(["drafts", "INSERT", ...draft]);
  await sql("alter publication content_changes set (publish = 'insert, update, delete, truncate')");
  expect(unmet[0]).toMatchObject({ condition: "The publication content_changes sends INSERT" });
  expect((await conditions(["drafts", "INSERT", ...draft, "--role", "nobody_here"])).unmet).toMatchObject([
    { obstacles: [{ reason: "there is no such role" }] },
  ]);
  const owner = trackit.role("owner");
  expect((await conditions(["drafts", "INSERT", ...draft, "--role", owner])).unmet).toMatchObject([
    { obstacles: [{ fix: `grant ${owner} to ${trackit.role("api")};` }] },
  ]);
});

test("names a policy that is false for the row, with its expression, and one that raises an error", async () => {
  const note = ["full_notes", "INSERT", "--new", JSON.stringify({ ...own(7), owner: userId(2) })];
  const { unmet } = await conditions([...note, ...asUser(1)]);
  expect(unmet).toMatchObject([
    {
      condition: "The policies let the subscriber read the new row",
      obstacles: [
        {
          reason: "the policy “users see their notes” is false for this row",
          expression: expect.stringContaining("owner = ( SELECT app_private.current_user_id()"),
        },
      ],
    },
  ]);
  const broken = await conditions([...note, "--role", trackit.role("user"), "--claims", '{"sub": "1"}']);
  expect(broken.answer).toContain("The subscriber receives an error: ");
  expect(broken.unmet[0].obstacles[0].reason).toContain("invalid input syntax for type uuid");
});

test("names the condition of a publication, and the partitions whose old rows are not logged whole", async () => {
  await sql(`
    alter publication content_changes set table full_notes where (id > 5), audit_log;
    insert into audit_log (id, organisation_id, action, entity, at) overriding system value
      values (4711, '${organisationId(1)}', 'read', 'task', '2026-10-05')`);
  const { stdout } = await npmWhy(["full_notes", "INSERT", "--new", JSON.stringify(own(7)), ...asUser(1)]);
  expect(stdout).toContain(
    "no   The publication content_changes sends every row\n       it sends only the rows that fulfil its condition: (id > 5)\n",
  );
  expect(stdout).toContain("\nThe subscriber receives INSERT, if the publication sends the row.\n");
  const reader = ["--reader", trackit.role("support")];
  const entry = await npmWhy(["audit_log", "DELETE", "--key", "4711, 2026-10-05", ...asUser(1), ...reader]);
  expect(entry.stdout).toContain("yes  The publication content_changes has the table public.audit_log\n");
  expect(entry.stdout).toContain("         alter table public.audit_log_2026_10 replica identity full;\n");
  expect(entry.stdout).toContain("\nThe subscriber receives nothing.\n");
  await sql("alter publication content_changes set table full_notes, key_notes, tasks");
});

test("says what is missing before changes can be read", async () => {
  await sql("alter publication content_changes rename to other");
  const { stdout } = await npmWhy(["full_notes", "INSERT", "--new", '{"id": 1}']);
  await sql("alter publication other rename to content_changes");
  expect(stdout).toMatch(
    /^no {3}The service reads the changes of the database\n.*there is no publication content_changes/,
  );
  expect(stdout).toMatch(/create publication content_changes for table .*full_notes/);
});

test.each([
  [["tasks"], "expected a table and one of INSERT, UPDATE, DELETE; see npx content-service why --help"],
  [["tasks", "TRUNCATE"], "expected a table and one of INSERT, UPDATE, DELETE; see npx content-service why --help"],
  [["absent", "INSERT"], "“absent” is not a table of the served schemas."],
  [["tasks", "INSERT"], "Give a primary key, or the values of the new row."],
  [["tasks", "INSERT", "--old", "{}"], "An INSERT has no old row."],
  [["tasks", "DELETE", "--new", "{}"], "A DELETE has no new row."],
  [["tasks", "DELETE", "--old", "1"], 'The values of the old row must be a JSON object, such as {"id": 1}.'],
  [["tasks", "DELETE", "--old", '{"absent": 1}'], "The table has no column absent."],
  [["full_notes", "DELETE", "--old", '{"id": "x"}'], "The values are not a row of public.full_notes: invalid input"],
  [
    ["tasks", "INSERT", "--key", taskId(0)],
    " nor a role that it may become sees a row with this key in public.tasks: give its values with --old and --new",
  ],
  [["tasks", "INSERT", "--new", '{"id": null}', "--filter", "title=absent.x"], "absent"],
  [["tasks", "INSERT", "--claims", "[]"], "--claims must be a JSON object"],
])("npx content-service why %j says what to correct", async (args, message) => {
  const { exitCode, stderr } = await npmWhy(args);
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining(message)]);
});

test("the page Why of the console gives the answer of npx content-service why", async () => {
  const operator = await consoleClient(trackit, trackit.token(1, "support"));
  const asked = { table: "key_notes", as: "role", role: trackit.role("user"), claims: `{"sub": "${userId(1)}"}` };
  const old = JSON.stringify(own(8));
  const page = textOf(await operator.send("/why", { ...asked, event: "DELETE", old, filter: "body=eq.kept" }));
  expect(page).toContain("receives of this DELETE The subscriber receives nothing.");
  expect(page).toContain(
    "The old row is logged with the columns that policies and filter read no old rows are logged without owner",
  );
  const inserted = { event: "INSERT", new: old, filter: "body=eq.kept" };
  expect(textOf(await operator.send("/why", { ...asked, ...inserted }))).toContain("The subscriber receives INSERT.");
  const task = { ...asked, table: "tasks", event: "UPDATE", key: taskId(1), new: '{"title": "changed"}' };
  expect(textOf(await operator.send("/why", task))).toContain("The subscriber receives UPDATE.");
  expect(textOf(await operator.send("/why", { ...task, new: '{"absent": 1}' }))).toContain("has no column absent");
  expect(textOf(await operator.send("/why", { ...task, filter: "title=absent.x" }))).toContain("absent");
});
