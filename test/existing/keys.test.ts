import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit(
    {},
    undefined,
    `
    create table public.vouchers (id int primary key, code text unique, note text);
    create table public.secrets (id int primary key default 1, note text);
    create table public.hints (id int primary key, secret_id int references public.secrets);
    create index on public.hints (secret_id);
    grant select (id, note), insert, update, delete on public.vouchers to trackit_user;
    grant select (note), insert, update, delete on public.secrets to trackit_user;
    grant select on public.hints to trackit_user;
    create table public.cases (rating int not null, id int primary key, note text);
    create view public.case_notes as select rating, note from public.cases;
    grant select (id, note) on public.cases to trackit_user;
    grant select (rating, id, note) on public.cases to trackit_anon;
    grant select (note) on public.case_notes to trackit_user;
    create table public.sealed (id int primary key, note text);
    grant select (note) on public.sealed to trackit_user;
    create table public.movements (item int, amount int);
    create table public.notices (id int primary key, voucher_id int references public.vouchers, note text);
    grant select on public.movements, public.notices to trackit_user;
    create table public.hidden_notices (id int primary key, voucher_id int references public.vouchers);
    create table public.offices (id int primary key);
    create table public.desks (id int primary key, home_office int references public.offices, office int references public.offices,
      voucher_id int references public.vouchers, hidden_notice int references public.hidden_notices);
    create index on public.desks (home_office);
    create index on public.desks (office);
    grant select on public.offices, public.desks to trackit_user;
    create function public.add(a int) returns int language sql stable as 'select a';
    create function public.add(a int, b int) returns int language sql stable as 'select a + b';
    create function public.move(a int) returns int language sql as 'select a';
    create function public.move(a int, b int) returns int language sql as 'select a + b';
    create function public.offices_label(office public.offices) returns int language sql stable as 'select 1';
    create function public.offices_label(office public.offices, a int) returns int language sql stable as 'select a';
    create function public.sealed_add(a int) returns int language sql stable as 'select a';
    create function public.sealed_add(a int, b int) returns int language sql stable as 'select a + b';
    revoke execute on function public.sealed_add(int), public.sealed_add(int, int) from public;
    create table public.messages (id int primary key, note text);
    grant insert (id, note) on public.messages to trackit_user;
    create table public.voucher_clerks (voucher_id int primary key references public.vouchers);
    insert into public.cases values (5, 1, null), (4, 2, 'closed');
    insert into public.vouchers values (1, 'A', 'one');
    insert into public.secrets values (7, 'one');
    insert into public.hints values (1, 7);`,
  );
});
afterAll(() => trackit?.stop());

const gql = async (query: string) => {
  const { data, errors } = await trackit.gql(query, { as: 1 });
  return errors ? errors.map(({ message }) => message).join() : data;
};

/** The fields of a type, with their types. */
async function fieldsOf(type: string): Promise<Readonly<Record<string, string>>> {
  const { __type } = await gql(`{ __type(name: "${type}") { fields { name type { name ofType { name } } } } }`);
  return Object.fromEntries(__type.fields.map(({ name, type }: any) => [name, type.name ?? type.ofType.name]));
}

describe("a key that callers may not read", () => {
  test("has no field, mutation or order, and the other keys of the table have theirs", async () => {
    const queries = await fieldsOf("Query");
    expect(["voucher", "voucherByCode", "secret"].filter((name) => name in queries)).toEqual(["voucher"]);
    const names = Object.keys(await fieldsOf("Mutation"));
    const ofSecrets = names.filter((name) => /secrets?$/i.test(name)).sort();
    expect(ofSecrets).toEqual(["createSecret", "createSecrets", "deleteSecrets", "updateSecrets"]);
    expect(names).toContain("upsertVoucher");
    const { keys, orders } = await gql(`{ keys: __type(name: "VoucherUniqueKey") { enumValues { name } }
      orders: __type(name: "SecretOrderBy") { enumValues { name } } }`);
    expect(keys.enumValues).toEqual([{ name: "PRIMARY_KEY" }]);
    expect(orders.enumValues.map(({ name }: any) => name)).not.toContain("PRIMARY_KEY_ASC");
  });

  test("does not keep the rows from being read and written", async () => {
    for (const order of ["", "(orderBy: NOTE_ASC)"]) {
      expect(await gql(`{ secrets${order} { edges { node { note } } totalCount } }`)).toEqual({
        secrets: { edges: [{ node: { note: "one" } }], totalCount: 1 },
      });
    }
    const changed = 'updateSecrets(filter: { note: { equalTo: "one" } }, limit: 1, input: { note: "two" })';
    expect(await gql(`mutation { ${changed} { success count } }`)).toEqual({
      updateSecrets: { success: true, count: 1 },
    });
  });

  test("is not joined: a row that refers to it has the value only", async () => {
    expect(await fieldsOf("Hint")).toEqual({ id: "ID", secretId: "ID" });
    expect(Object.keys(await fieldsOf("Secret"))).toEqual(["note"]);
    expect(await gql("{ hints { edges { node { id secretId } } } }")).toEqual({
      hints: { edges: [{ node: { id: "1", secretId: "7" } }] },
    });
  });

  test("has its fields as soon as one role may read all of it", async () => {
    await trackit.change(
      "grant select (code) on vouchers to trackit_anon; grant select (id) on secrets to trackit_user",
    );
    await expect.poll(async () => Object.keys(await fieldsOf("Query"))).toContain("secret");
    expect(Object.keys(await fieldsOf("Query"))).toContain("voucherByCode");
    expect(await gql("{ secret(id: 7) { note hints { id } } }")).toEqual({
      secret: { note: "two", hints: [{ id: "1" }] },
    });
  });
});

test("a row whose columns are not all readable is read with those that are", async () => {
  const rows = (names: string) => names.split(" ").map((note) => ({ node: { note: note === "-" ? null : note } }));
  expect(await gql("{ cases { edges { node { note } } } }")).toEqual({ cases: { edges: rows("- closed") } });
  const notes = "{ caseNotes(filter: { note: { isNull: false } }, orderBy: NOTE_ASC) { edges { node { note } } } }";
  expect(await gql(notes)).toEqual({ caseNotes: { edges: rows("closed") } });
});

test.each([
  ["{ importStaging(line: 1) { title } }", 'importStaging" on type "Query"', "importStagings"],
  [
    "mutation { updateImportStaging(line: 1) { title } }",
    'updateImportStaging" on type "Mutation"',
    "updateImportStagings",
  ],
  ["mutation { deleteImportStaging(line: 1) }", 'deleteImportStaging" on type "Mutation"', "deleteImportStagings"],
  ["mutation { upsertImportStaging(line: 1) { count } }", 'upsertImportStaging" on type "Mutation"', null],
  ["subscription { onImportStagingChanged { operation } }", 'onImportStagingChanged" on type "Subscription"', null],
])("%s: the error says that the table has no primary key", async (query, field, instead) => {
  const other = instead === null ? "" : `, or use ${instead} with a filter`;
  expect(await gql(query)).toBe(
    `Cannot query field "${field}: \`import_staging\` has no primary key. Create one${other}.`,
  );
});

test.each([
  [
    "{ caseNote(id: 1) { note } }",
    "`case_notes` has no key. Name its columns with the smart tag @primaryKey, or use caseNotes",
  ],
  ["{ sealed(id: 1) { note } }", "callers may not read the primary key of `sealed`. Grant it to them, or use sealeds"],
])("%s: the error says why the rows have no key", async (query, reason) => {
  expect(await gql(query)).toContain(`" on type "Query": ${reason} with a filter.`);
});

test("the names of tables that callers may not use are not confirmed", async () => {
  expect(await gql("{ apiToken(id: 1) { id } noPolicy(id: 1) { id } }")).toBe(
    'Cannot query field "apiToken" on type "Query".,Cannot query field "noPolicy" on type "Query".',
  );
  expect(await gql("mutation { updateCaseNote(id: 1) { note } updateHiddenNotice(id: 1) { id } }")).toBe(
    'Cannot query field "updateCaseNote" on type "Mutation".,Cannot query field "updateHiddenNotice" on type "Mutation".',
  );
  expect(await gql("{ vouchers { edges { node { hiddenNotices { id } } } } }")).toBe(
    'Cannot query field "hiddenNotices" on type "Voucher".',
  );
});

test("a filter has no field for a table that callers may not read, although the foreign key has an index", async () => {
  const { __type } = await gql('{ __type(name: "VoucherFilter") { inputFields { name } } }');
  const names = __type.inputFields.map(({ name }: any) => name);
  expect(names).toContain("note");
  expect(names.filter((name: string) => /clerk/i.test(name))).toEqual([]);
});

test.each([
  ["createMovement", "insert", "movements"],
  ["updateMovement", "update", "movements"],
  ["deleteMovements", "delete", "movements"],
  ["updateNotice", "update", "notices"],
  ["updateNotices", "update", "notices"],
  ["upsertNotice", "insert", "notices"],
])("%s: the error says that no role has the right", async (field, right, table) => {
  expect(await gql(`mutation { ${field} }`)).toBe(
    `Cannot query field "${field}" on type "Mutation": no role of callers has the right to ${right} rows of \`${table}\`. Grant it to one.`,
  );
});

const NO_INDEX = "the foreign key of `notices` has no index. Create one: create index on public.notices (voucher_id).";

test.each([
  ["{ vouchers { edges { node { notices { id } } } } }", `Cannot query field "notices" on type "Voucher": ${NO_INDEX}`],
  [
    "{ vouchers { edges { node { noticesConnection { totalCount } } } } }",
    `Cannot query field "noticesConnection" on type "Voucher": ${NO_INDEX}`,
  ],
  [
    "{ vouchers(filter: { noticesExist: true }) { totalCount } }",
    `Field "noticesExist" is not defined by type "VoucherFilter": ${NO_INDEX}`,
  ],
])("%s: the error has the index that is missing", async (query, error) => {
  expect(await gql(query)).toBe(error);
});

test("the list of rows that refer to a row is there with the index of the error", async () => {
  await trackit.change("create index on public.notices (voucher_id)");
  const lists = "{ vouchers(filter: { noticesExist: false }) { edges { node { note notices { id } } } } }";
  await expect.poll(() => gql(lists)).toEqual({ vouchers: { edges: [{ node: { note: "one", notices: [] } }] } });
});

test.each([
  [
    "{ desks { edges { node { offices { id } } } } }",
    'offices" on type "Desk": use officeByHomeOffice or officeByOffice',
  ],
  ["{ desks { edges { node { home_office } } } }", 'home_office" on type "Desk": use homeOffice or officeByHomeOffice'],
  ["{ desks { edges { node { vouchers { note } } } } }", 'vouchers" on type "Desk": use voucher'],
  [
    "{ offices { edges { node { desks { id } } } } }",
    'desks" on type "Office": use desksByHomeOffice or desksByOffice',
  ],
  ["{ desks { edges { node { hidden_notices { id } } } } }", 'hidden_notices" on type "Desk"'],
  [
    "{ offices { edges { node { label } } } }",
    'label" on type "Office": several functions of these rows have the name `offices_label`. Rename all but one',
  ],
  [
    "{ add(a: 1) }",
    'add" on type "Query": several functions have the name `add`. Rename all but one, or call them at /rest/v1/rpc/add',
  ],
  [
    "mutation { move(a: 1) }",
    'move" on type "Mutation": several functions have the name `move`. Rename all but one, or call them at /rest/v1/rpc/move',
  ],
  ["{ sealedAdd(a: 1) }", 'sealedAdd" on type "Query"'],
])("%s: the error has the fields that its name in the database may mean", async (query, error) => {
  expect(await gql(query)).toBe(`Cannot query field "${error}.`);
});

test("a filter and a selection of a key have the field of the row too", async () => {
  expect(await gql("{ desks(filter: { home_office: { id: { equalTo: 1 } } }) { totalCount } }")).toBe(
    'Field "home_office" is not defined by type "DeskFilter": use homeOffice or officeByHomeOffice.',
  );
  expect(await gql("{ desks { edges { node { office { id } } } } }")).toBe(
    'Field "office" must not have a selection since type "ID" has no subfields: use officeByHomeOffice or officeByOffice.',
  );
});

const TASKS = "projects { edges { node { tasks";

test.each([
  ["{ tasks { id } }", 'Cannot query field "id" on type "TaskConnection": use edges { node { id } }.'],
  ["{ tasks { edges { title } } }", 'Cannot query field "title" on type "TaskEdge": use node { title }.'],
  ["{ tasks { bcrypt } }", 'Cannot query field "bcrypt" on type "TaskConnection".'],
  [
    `{ ${TASKS} { edges { cursor } } } } } }`,
    'Cannot query field "edges" on type "Task": tasks is a list; tasksConnection has edges.',
  ],
  [
    `{ ${TASKS}(first: 1) { id } } } } }`,
    'Unknown argument "first" on field "Project.tasks": tasks is a list; tasksConnection has first.',
  ],
  [
    "{ projects(filter: { tasks: { status: { equalTo: done } } }) { totalCount } }",
    'Field "status" is not defined by type "ProjectToManyTaskFilter": use some, every or none.',
  ],
  [
    '{ tasks(filter: { status: { equalTo: "done" } }) { totalCount } }',
    'Enum "TaskStatus" cannot represent non-enum value: "done": write it without quotes.',
  ],
  [
    "{ tasks(filter: { status: { equalTo: DONE } }) { totalCount } }",
    'Value "DONE" does not exist in "TaskStatus" enum: use done.',
  ],
  [
    "mutation { createTask(input: { number: 4 }) { id } }",
    'Field "number" is not defined by type "CreateTaskInput": no role of callers has the right to insert the column `number`. Grant it to one.',
  ],
  [
    "mutation { updateTask(id: 1, input: { isOverdue: true, number: 4 }) { id } }",
    'Field "number" is not defined by type "UpdateTaskInput": no role of callers has the right to update the column `number`. Grant it to one.',
  ],
  [
    "{ messages { totalCount } }",
    'Cannot query field "messages" on type "Query": no role of callers has the right to select rows of `messages`. Grant it to one.',
  ],
])("%s: the error says what to write instead, or which right is missing", async (query, error) => {
  expect((await gql(query)).split(".,").join(".\n").split("\n")).toContain(error);
});

test("a filter that is no object has the operators, in a variable too", async () => {
  const operators = /TaskStatusFilter".*: the operators are .*equalTo/;
  expect(await gql("{ tasks(filter: { status: done }) { totalCount } }")).toMatch(operators);
  const query = "query ($filter: TaskFilter) { tasks(filter: $filter) { totalCount } }";
  const { errors } = await trackit.gql(query, { as: 1, variables: { filter: { status: "done" } } });
  expect(errors![0]!.message).toMatch(operators);
});

test("a column that callers may not read is not confirmed by an input", async () => {
  expect(await gql('mutation { updateUser(id: 1, input: { bcrypt: "x" }) { id } }')).toBe(
    'Field "bcrypt" is not defined by type "UpdateUserInput".',
  );
});
