import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { connect, type GraphQLClient, type Subscription } from "../support/graphql-client.ts";
import { POLL } from "../support/until.ts";
import { projectId, startTrackit, type Trackit, taskId, userId } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit(
    { INSTANCE_ID: "trackit" },
    undefined,
    `alter role trackit_api replication;
     alter table tasks replica identity full;
     create publication content_changes for table tasks, comments, plans
       with (publish_via_partition_root, publish_generated_columns = stored)`,
  );
});
afterAll(() => trackit.stop());
// The next test must not count subscriptions that this one has left open.
beforeEach(() => expect.poll(() => trackit.service.open().subscriptions, POLL).toBe(0));

const sql = async (text: string, ...values: unknown[]) => (await trackit.database.owner.query(text, values)).rows;
const as = (n: number): GraphQLClient => connect(trackit, { params: { Authorization: `Bearer ${trackit.token(n)}` } });

/** A task of project 1, which is of organisation 2, as is user 1. */
const add = (title: string, { project = 1, ...columns }: { project?: number } & Record<string, unknown> = {}) => {
  const row = { project_id: projectId(project), title, ...columns };
  const places = Object.keys(row).map((_, i) => `$${i + 1}`);
  return sql(`insert into tasks (${Object.keys(row)}) values (${places})`, ...Object.values(row));
};
const titles = (events: readonly any[]) => events.map((event) => (Object.values(event)[0] as any).title);

test.each<[string, Record<string, unknown>, string[]]>([
  ["an enum", { status: { equalTo: "done" } }, ["Done"]],
  ["a list of an enum", { status: { in: ["done", "review"] } }, ["Done", "Review"]],
  ["a uuid", { assigneeId: { equalTo: userId(6) } }, ["Assigned"]],
  ["null", { assigneeId: { isNull: false } }, ["Assigned"]],
  ["a number", { priority: { lessThanOrEqualTo: 1 } }, ["Urgent"]],
  ["a text", { title: { startsWith: "100%" } }, ["100% done"]],
  ["a pattern", { title: { likeInsensitive: "%_GENT" } }, ["Urgent"]],
  ["a regular expression", { title: { matches: "^(Done|Urgent)$" } }, ["Done", "Urgent"]],
  [
    "and, or and not",
    { or: [{ priority: { equalTo: 1 } }, { not: { status: { notEqualTo: "done" } } }] },
    ["Done", "Urgent"],
  ],
  ["several columns", { status: { equalTo: "todo" }, priority: { in: [1, 2] } }, ["Urgent"]],
  ["a time", { createdAt: { lessThan: "2020-01-01T00:00:00Z" } }, ["Old"]],
  ["no condition", { priority: null, and: [{}] }, ["Done", "Review", "Assigned", "Urgent", "100% done", "Old", "last"]],
])(
  "a filter by %s lets the changes through whose row fulfils it, and a list by the same returns the same",
  async (_, filter, expected) => {
    const subscription = await as(1).subscribe(
      "subscription ($filter: ChangedTaskFilter) { onTaskCreated(filter: $filter) { title } }",
      { filter },
    );
    const all = await as(1).subscribe("subscription { onTaskCreated { title } }");
    const [{ last }] = await sql("select max(number) as last from tasks where project_id = $1", projectId(1));
    await add("Done", { status: "done" });
    await add("Review", { status: "review" });
    await add("Assigned", { assignee_id: userId(6) });
    await add("Urgent", { priority: 1 });
    await add("100% done", { status: "in_progress" });
    await add("Old", { created_at: "2000-01-01" });
    // Of another organisation.
    await add("Done", { project: 2, status: "done", priority: 1, assignee_id: userId(6) });
    await add("last", { status: "in_progress" });
    await expect.poll(() => titles(all.events), POLL).toContain("last");
    await expect.poll(() => titles(subscription.events), POLL).toEqual(expected);

    const list = `query ($filter: TaskFilter!, $last: Int!) {
    tasks(first: 100, orderBy: [NUMBER_ASC], filter: { and: [{ projectId: { equalTo: "${projectId(1)}" } }, { number: { greaterThan: $last } }, $filter] }) {
      edges { node { title } }
    }
  }`;
    const { data, errors } = await trackit.gql(list, { as: 1, variables: { filter, last } });
    expect(errors).toBeUndefined();
    expect(data.tasks.edges.map(({ node }: any) => node.title)).toEqual(expected);
  },
);

test("a filter without variables, and the key beside it, are conditions that must all hold", async () => {
  const query = (filter: string) =>
    `subscription { onTaskUpdated(id: "${taskId(1)}", filter: { ${filter} }) { priority } }`;
  const [{ priority }] = await sql("select priority from tasks where id = $1", taskId(1));
  const owner = (await sql("select organisation_id from tasks where id = $1", taskId(1)))[0].organisation_id;
  const [{ n }] = await sql(
    "select right(user_id::text, 12)::int as n from members where organisation_id = $1 limit 1",
    owner,
  );
  const fitting = await as(n).subscribe(
    query(`priority: { equalTo: ${priority} }, status: { in: [todo, done, review, cancelled, in_progress] }`),
  );
  const other = await as(n).subscribe(query(`priority: { notEqualTo: ${priority} }`));
  await sql("update tasks set title = title || '!'");
  await fitting.expect({ onTaskUpdated: { priority } });
  expect(other.events).toEqual([]);
});

test.each([
  ["null as a value", "{ title: { equalTo: null } }", "VALIDATION_ERROR", /equalTo must not be null/],
  [
    "a value of another type",
    '{ assigneeId: { equalTo: "me" } }',
    "VALIDATION_ERROR",
    /invalid input syntax for type uuid/,
  ],
  ["an invalid regular expression", '{ title: { matches: "(" } }', "VALIDATION_ERROR", /regular expression/],
  [
    "a regular expression with a backreference",
    '{ title: { matches: "(a)\\\\1" } }',
    "VALIDATION_ERROR",
    /backreference/,
  ],
  ["an operator of lists alone", '{ title: { search: { query: "x" } } }', "VALIDATION_ERROR", /search/],
  ["another table", '{ project: { name: { equalTo: "x" } } }', "VALIDATION_ERROR", /project/],
])("a filter with %s is refused with the reason", async (_, filter, code, message) => {
  const { errors } = await as(1).run(`subscription { onTaskCreated(filter: ${filter}) { title } }`);
  expect(errors).toMatchObject([{ message: expect.stringMatching(message), extensions: { code } }]);
});

test("a filter by a column that the role may not read is refused", async () => {
  await trackit.change("revoke select on plans from trackit_anon; grant select (code, title) on plans to trackit_anon");
  const query = 'subscription { onPlanCreated(filter: { priceCents: { greaterThan: "1" } }) { code } }';
  const client = connect(trackit);
  // Until the service knows the change.
  const subscriptions: Subscription[] = [];
  await expect
    .poll(() => {
      subscriptions.at(-1)?.unsubscribe();
      subscriptions.push(client.subscribeSoon(query));
      return JSON.stringify(subscriptions.map(({ error }) => error));
    }, POLL)
    .toMatch(/may not read the column price_cents.*PERMISSION_DENIED/);
  subscriptions.at(-1)!.unsubscribe();
  await expect.poll(() => trackit.service.open().subscriptions, POLL).toBe(0);
  const allowed = await client.subscribe('subscription { onPlanCreated(filter: { title: { like: "T%" } }) { code } }');
  await sql("insert into plans values ('other', 'Other', 1), ('trial', 'Trial', 0)");
  await allowed.expect({ onPlanCreated: { code: "trial" } });
});

const CHANGED = "operation new { title status project { name } } old { id title status assigneeId labels } ";

test("onChanged sends every change of a row, with the new and the old row", async () => {
  const client = as(1);
  const changed = await client.subscribe(`subscription { onTaskChanged { ${CHANGED} } }`);
  await add("Task to change", { labels: "{a,b}", assignee_id: userId(6) });
  const [{ id }] = await sql("select id from tasks where title = 'Task to change'");
  await changed.expect({
    onTaskChanged: {
      operation: "INSERT",
      new: { title: "Task to change", status: "todo", project: { name: "Project 1" } },
      old: null,
    },
  });
  await sql("update tasks set status = 'done' where id = $1", id);
  const old = { id, title: "Task to change", status: "todo", assigneeId: userId(6), labels: ["a", "b"] };
  await expect
    .poll(() => changed.events[1], POLL)
    .toEqual({
      onTaskChanged: {
        operation: "UPDATE",
        new: { title: "Task to change", status: "done", project: { name: "Project 1" } },
        old,
      },
    });
  await sql("delete from tasks where id = $1", id);
  await expect
    .poll(() => changed.events[2], POLL)
    .toEqual({
      onTaskChanged: { operation: "DELETE", new: null, old: { ...old, status: "done" } },
    });
  expect([changed.faults, changed.error]).toEqual([[], null]);
});

test("an update after which the subscriber no longer sees the row, or the filter no longer holds, is a DELETE", async () => {
  const open = await as(1).subscribe(
    "subscription { onTaskChanged(filter: { status: { equalTo: todo } }) { operation new { title } old { id title } } }",
  );
  const creations = await as(1).subscribe(
    "subscription { onTaskChanged(operations: [INSERT], filter: { status: { equalTo: todo } }) { operation new { title } } }",
  );
  await add("Leaves by status");
  await add("Leaves the organisation");
  const inserts = ["Leaves by status", "Leaves the organisation"].map((title) => ({
    operation: "INSERT",
    new: { title },
  }));
  await creations.expect(...inserts.map((onTaskChanged) => ({ onTaskChanged })));
  const created = inserts.map((insert) => ({ onTaskChanged: { ...insert, old: null } }));
  await open.expect(...created);
  const [first, second] = await sql("select id from tasks where title like 'Leaves %' order by title");
  await sql("update tasks set status = 'done' where id = $1", first.id);
  const other = "(select organisation_id from projects where id = $2)";
  await sql(`update tasks set organisation_id = ${other} where id = $1`, second.id, projectId(2));
  // Only the key: the subscriber does not see the row any more.
  const left = ({ id }: any) => ({ onTaskChanged: { operation: "DELETE", new: null, old: { id, title: null } } });
  await open.expect(...created, left(first), left(second));
  expect(creations.events).toHaveLength(2);
  await sql("delete from tasks where title like 'Leaves %'");
});

test("where deletions cannot be delivered, onChanged is refused unless it leaves them out; old rows have their key", async () => {
  const query = (args: string) => `subscription { onCommentChanged${args} { operation new { body } old { id body } } }`;
  const refused = as(1).subscribeSoon(query(""));
  await expect
    .poll(() => JSON.stringify(refused.error), POLL)
    .toMatch(/old rows are logged without organisation_id.*subscribe to INSERT and UPDATE.*PERMISSION_DENIED/);
  const changed = await as(1).subscribe(query("(operations: [INSERT, UPDATE])"));
  const [{ id, body }] = await sql(
    "select id, body from comments where organisation_id = (select organisation_id from members where user_id = $1) limit 1",
    userId(1),
  );
  await sql("update comments set body = body || '!' where id = $1", id);
  await changed.expect({
    onCommentChanged: { operation: "UPDATE", new: { body: `${body}!` }, old: { id, body: null } },
  });
});

test("onChanged without operations is refused", async () => {
  const { errors } = await as(1).run("subscription { onTaskChanged(operations: []) { operation } }");
  expect(errors).toMatchObject([{ message: "operations must not be empty", extensions: { code: "VALIDATION_ERROR" } }]);
});

test("types of tables that are named like those for changes stay as they are", async () => {
  await trackit.change(`create table public.changed_tasks (id int primary key, note text);
    create table public.change_operations (id int primary key);
    grant select on public.changed_tasks, public.change_operations to trackit_user`);
  await expect
    .poll(
      () => trackit.gql("{ changedTasks { edges { node { id note } } } changeOperations { totalCount } }", { as: 1 }),
      POLL,
    )
    .toMatchObject({ data: { changedTasks: { edges: [] } } });
  const { data } = await trackit.gql('{ __type(name: "Subscription") { fields { name } } }');
  const names = data.__type.fields.map(({ name }: any) => name);
  expect(names).toContain("onTaskCreated");
  expect(names).not.toContain("onTaskChanged");
});
