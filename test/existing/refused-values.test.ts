import { afterAll, beforeAll, expect, test } from "vitest";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit(
    { GRAPHQL_UNINDEXED_FILTERS: "on" },
    undefined,
    `
    create type public.place as (street text, post_code char(2));
    create table public.shops (id uuid primary key, number int unique);
    create table public.orders (
      id int primary key, at date, big bigint, amount numeric(5, 2), code varchar(3), ip inet, at_utc timestamptz, ref uuid,
      slug public.slug, cents public.money_cents, many bigint[], due interval, seats int4range, home public.place, doc jsonb,
      few int constraint few_positive check (few > 0), less int constraint less_positive check (less > 0),
      later date default '2026-01-01', shop uuid references public.shops, number int references public.shops (number)
    );
    comment on constraint few_positive on public.orders is 'few must be positive';
    comment on constraint less_positive on public.orders is 'less must be positive';
    comment on column public.orders.big is '@name large';
    create table public.parcels (id int primary key, order_id int references public.orders, due date);
    create index on public.parcels (order_id);
    create function public.sent(o public.orders) returns date language sql stable return (o).at;
    create function public.orders_between(since date, until date) returns setof public.orders language sql stable
      begin atomic select * from public.orders where at between since and until; end;
    create function public.days_between(since date, until date) returns table (day date, n int) language sql stable
      begin atomic select d::date, 1 from generate_series(since, until, '1 day') as d; end;
    create function public.log_order(id int, at date, span interval default null) returns int language sql volatile return id;
    create function public.divide(n int) returns int language sql stable return 1 / n;
    create function public.shop_of(n int, o public.orders) returns text language sql volatile return (o).shop::text;
    create table public.labels (id int primary key, name text);
    create table public.marks (id int primary key, label_id int references public.labels, note text);
    comment on column public.marks.label_id is E'@name used';
    create table public.secrets (label_id int references public.labels);
    create table public.nodes (id int primary key, parent int references public.nodes on delete restrict);
    comment on constraint nodes_parent_fkey on public.nodes is 'no such parent';
    create table public.drafts (id int primary key, owner int default length('x'), name text, unique (owner, name));
    insert into public.drafts values (1, 1, 'Moon');
    grant all on public.drafts, public.orders, public.parcels, public.labels, public.marks, public.nodes to trackit_user;
    insert into public.orders (id) values (1);
    insert into public.labels (id) values (1), (2), (3);
    insert into public.marks (id, label_id) values (1, 1);
    insert into public.secrets (label_id) values (2);
    insert into public.nodes values (1, null), (2, 1);`,
  );
});
afterAll(() => trackit?.stop());

const RANGE = 'date/time field value out of range: "2026-02-30"';
const DATE = (text: string) => `invalid input syntax for type date: "${text}"`;
const INTEGER = 'invalid input syntax for type integer: "x"';

type Fields = readonly { field: string; code: string; message: string }[];

/** The result of an operation, or the code, the message and the fields of its only error. */
async function run(query: string, variables: object = {}): Promise<any> {
  const { errors, data } = await trackit.gql(query, { as: 1, variables: variables as Record<string, unknown> });
  if (!errors) return data;
  expect(errors).toHaveLength(1);
  const [{ message, extensions }] = errors as any;
  return [extensions.code, message, extensions.fields ?? []];
}

const between = (start: number, end: number) => ({
  start: { value: start, inclusive: true },
  end: { value: end, inclusive: true },
});

const CREATE = "mutation ($input: CreateOrderInput!) { createOrder(input: $input) { id } }";
const UPDATE = "mutation ($input: UpdateOrderInput!) { updateOrder(id: 1, input: $input) { id } }";
const MANY = `mutation ($input: [CreateOrderInput!]!) { createOrders(input: $input) { success errors { index field code message } } }`;
const SET = `mutation ($input: UpdateOrderInput!) {
  updateOrders(filter: { id: { equalTo: "1" } }, limit: 1, input: $input) { errors { index field code message } } }`;

/** An input of GraphQL, its column at /rest/v1 if the value is the same there, the value, and what is wrong with it. */
const BAD: readonly (readonly [field: string, column: string | null, value: unknown, message: string | RegExp])[] = [
  ["at", "at", "2026-02-30", RANGE],
  ["at", "at", "soon", DATE("soon")],
  ["large", "big", "12x", 'invalid input syntax for type bigint: "12x"'],
  ["amount", "amount", "1000", "numeric field overflow"],
  ["code", "code", "abcd", "value too long for type character varying(3)"],
  ["shop", "shop", "ben", 'invalid input syntax for type uuid: "ben"'],
  ["shop", "shop", "", 'invalid input syntax for type uuid: ""'],
  ["number", "number", "x", INTEGER],
  ["number", "number", "2147483648", 'value "2147483648" is out of range for type integer'],
  ["ip", "ip", "1.2.3", 'invalid input syntax for type inet: "1.2.3"'],
  ["slug", "slug", "A B", 'value for domain slug violates check constraint "slug_check"'],
  ["cents", "cents", "-1", 'value for domain money_cents violates check constraint "money_cents_check"'],
  ["many", "many", ["1", "y"], 'invalid input syntax for type bigint: "y"'],
  ["due", null, { years: 2147483647 }, /interval .*out of range/],
  ["seats", null, between(5, 1), /^range lower bound must be less than or equal to range upper bound$/],
  ["home", null, { street: "x", postCode: "abc" }, /^value too long for type character\(2\)$/],
];

test.each(BAD)("a value that %s cannot have is named by every write: %s %j", async (field, column, value, expected) => {
  const valid = { due: { days: 3 }, seats: between(1, 5), home: { street: "y", postCode: "de" } };
  const input = { code: "abc", doc: { a: "12x" }, ...(column === null && valid), [field]: value };
  const message = typeof expected === "string" ? expected : expect.stringMatching(expected);
  const fault = { field, code: "VALIDATION_ERROR", message };
  const refused = ["VALIDATION_ERROR", message, [fault]];
  expect(await run(CREATE, { input: { id: "7", ...input } })).toEqual(refused);
  expect(await run(UPDATE, { input })).toEqual(refused);
  expect(await run(MANY, { input: [{ id: "8" }, { id: "9", ...input }] })).toEqual({
    createOrders: { success: false, errors: [{ index: 1, ...fault }] },
  });
  expect(await run(SET, { input })).toEqual({ updateOrders: { errors: [{ index: null, ...fault }] } });
  if (column === null) return;
  const body = { id: 7, doc: { a: "12x" }, due: null, [column]: value };
  for (const [path, method] of [
    ["orders", "POST"],
    ["orders?id=eq.1", "PATCH"],
  ] as const) {
    const { status, json } = await trackit.rest(path, { method, body, as: 1 });
    expect([status, json.message]).toEqual([400, message]);
    expect(json.details === `in ${column}` || json.details.includes("precision 5")).toBe(true);
  }
  const rows = [{ ...body, id: 8, [column]: null }, body];
  expect((await trackit.rest("orders", { body: rows, as: 1 })).json.details).toContain(`in [1].${column}`);
});

test("a rule that a row violates is named although the row has a range", async () => {
  const input = { seats: between(1, 5), few: -1, less: -1 };
  const [, , fields] = await run(CREATE, { input: { id: "7", ...input } });
  expect(fields).toMatchObject(["few", "less"].map((field) => ({ field, message: `${field} must be positive` })));
});

test("mutations of many rows write composite values, ranges and intervals as those of one row do", async () => {
  const input = { due: { days: 3 }, seats: between(1, 5), home: { street: "x", postCode: "de" } };
  const ROW = "id due { days } seats { start { value } } home { street postCode }";
  const created = await run(CREATE.replace("{ id }", `{ ${ROW} }`), { input: { id: "20", ...input } });
  const { createOrders } = await run(
    `mutation ($input: [CreateOrderInput!]!) { createOrders(input: $input) { message orders { ${ROW} } } }`,
    { input: [{ id: "21", ...input }] },
  );
  expect(createOrders.orders).toEqual([{ ...created.createOrder, id: createOrders.orders[0].id }]);
  expect(createOrders.orders[0].home).toEqual(input.home);
});

test("an id that a row of an argument cannot have is named", async () => {
  const message = 'invalid input syntax for type uuid: "ben"';
  const refused = ["VALIDATION_ERROR", message, [{ field: "shop", code: "VALIDATION_ERROR", message }]];
  expect(await run('mutation { shopOf(n: 1, o: { id: 1, shop: "ben" }) }')).toEqual(refused);
});

test("every bad value of a row is named at once", async () => {
  const input = { at: "soon", code: "abcd", large: "1", due: { days: 3 }, home: { street: "x" } };
  const code = "value too long for type character varying(3)";
  const [, , fields] = await run(CREATE, { input: { id: "7", ...input } });
  expect(fields.map((each: Fields[0]) => [each.field, each.message])).toEqual([
    ["at", DATE("soon")],
    ["code", code],
  ]);
  const { json } = await trackit.rest("orders", { body: { id: 7, at: "soon", code: "abcd" }, as: 1 });
  expect(json.details).toBe(`in at: ${DATE("soon")}; in code: ${code}`);
});

/** Where a value stands that its type in GraphQL refuses. */
const COERCED: readonly (readonly [query: string, variables: object, fields: readonly string[]])[] = [
  [CREATE, { input: { id: "7", ref: "x", at: "2026-01-01" } }, ["ref"]],
  [CREATE, { input: { id: "7", due: { days: "x" }, seats: 3 } }, ["due.days", "seats"]],
  [CREATE, { input: { id: "7", nowhere: 1 } }, ["nowhere"]],
  [CREATE, { input: {} }, ["id"]],
  [CREATE, { input: 5 }, ["input"]],
  [CREATE, {}, ["input"]],
  [MANY, { input: [{ id: "7" }, { id: "8", ref: "x" }] }, ["[1].ref"]],
  [
    "query ($at: Time) { orders(filter: { or: [{ id: { equalTo: 1 } }, { atUtc: { equalTo: $at } }] }) { totalCount } }",
    { at: "soon" },
    ["filter.or[1].atUtc.equalTo"],
  ],
  [
    "query ($filter: OrderFilter) { orders(filter: $filter) { totalCount } }",
    { filter: { ref: { in: ["x"] } } },
    ["filter.ref.in[0]"],
  ],
  ["query ($n: Int) { orders(first: $n) { totalCount } }", { n: "x" }, ["first"]],
  ['mutation { createOrder(input: { id: 7, ref: "x" }) { id } }', {}, ["ref"]],
  ["mutation { createOrder(input: { ref: null, nowhere: 1 }) { id } }", {}, ["id", "nowhere"]],
  ['{ orders(filter: { atUtc: { lessThan: "soon" } }) { totalCount } }', {}, ["filter.atUtc.lessThan"]],
  ['{ orders(first: "x") { totalCount } }', {}, ["first"]],
];

test.each(COERCED)("an error of %s with %j names the field", async (query, variables, fields) => {
  const { errors = [] } = await trackit.gql(query, { as: 1, variables: variables as Record<string, unknown> });
  const named = errors.map(({ message, extensions }) => {
    const [field, ...others] = (extensions as any).fields;
    expect([others, field.code, extensions.code]).toEqual([[], "VALIDATION_ERROR", "VALIDATION_ERROR"]);
    expect(message).toContain(field.message);
    return field.field;
  });
  expect(named.toSorted()).toEqual([...fields].toSorted());
});

/** Requests whose filter or argument cannot be read. */
const UNREADABLE: readonly (readonly [path: string, message: string, sent: object])[] = [
  ["orders?id=in.(1,x)", INTEGER, {}],
  ["orders?at=eq.soon", DATE("soon"), { method: "DELETE" }],
  ["orders?at=eq.soon", DATE("soon"), { method: "PATCH", body: { code: "a" } }],
  ["orders?at=eq.soon", DATE("soon"), { headers: { accept: "application/x-ndjson" } }],
  ["rpc/orders_between?since=2026-01-01&until=soon", DATE("soon"), {}],
  ["rpc/log_order", DATE("soon"), { method: "POST", body: { id: 1, at: "soon", span: null } }],
  ["rpc/divide?n=0", "division by zero", {}],
];

test.each(UNREADABLE)("/rest/v1/%s responds with the message of Postgres: %s", async (path, message, sent) => {
  const { status, json } = await trackit.rest(path, { as: 1, ...sent });
  expect([status, json]).toEqual([400, { code: expect.stringMatching(/^22/), message, details: null, hint: null }]);
});

test("a number of rows that is refused costs no further transaction", async () => {
  const before = trackit.service.databaseWaits();
  const accept = "application/vnd.pgrst.object+json";
  expect((await trackit.rest("orders?id=gt.5", { as: 1, headers: { accept } })).json.code).toBe("PGRST116");
  expect(trackit.service.databaseWaits() - before).toBe(1);
});

test.each([
  ['{ orders(filter: { at: { equalTo: "2026-02-30" } }) { totalCount } }', RANGE],
  ['mutation { logOrder(id: 1, at: "soon") }', DATE("soon")],
  // In a function.
  ["{ divide(n: 0) }", "invalid value"],
])("GraphQL responds to %s with the message %s", async (query, message) => {
  expect(await run(query)).toEqual(["VALIDATION_ERROR", message, []]);
});

/** Mutates one row; what `run` returns, without an empty list of fields. */
async function change(mutation: string) {
  const result = await run(`mutation { ${mutation} }`);
  if (!Array.isArray(result)) return Object.values(result)[0];
  const [code, message, fields] = result;
  return fields.length === 0 ? [code, message] : result;
}

const conflict = (field: string, message: string, constraint: string) => [
  "RESOURCE_CONFLICT",
  message,
  [{ field, message, code: "RESOURCE_CONFLICT", constraint }],
];
const MISSING = conflict("used", "label_id refers to a record that does not exist", "marks_label_id_fkey");
const USED = ["RESOURCE_CONFLICT", "rows of marks refer to this record"];

test("a unique value names the fields of the input before columns that a default has filled", async () => {
  const [code, , fields] = await run('mutation { createDraft(input: { id: 2, name: "Moon" }) { id } }');
  expect([code, fields.map(({ field }: Fields[0]) => field)]).toEqual(["RESOURCE_CONFLICT", ["name", "owner"]]);
});

test("a row that refers to one that does not exist names its field", async () => {
  expect(await change("createMark(input: { id: 9, used: 99 }) { id }")).toEqual(MISSING);
  expect(await change("updateMark(id: 1, input: { used: 99, note: null }) { id }")).toEqual(MISSING);
  const [, message] = MISSING;
  const error = { index: 1, field: "used", message, code: "RESOURCE_CONFLICT" };
  expect(
    await change(
      "createMarks(input: [{ id: 8, used: 1 }, { id: 9, used: 99 }]) { errors { index field message code } }",
    ),
  ).toEqual({ errors: [error] });
  expect(await change("updateNode(id: 2, input: { parent: 99 }) { id }")).toEqual(
    conflict("parent", "no such parent", "nodes_parent_fkey"),
  );
});

test("a row to which others refer says so, and names their table if the caller may read it", async () => {
  expect(await change("deleteLabel(id: 1)")).toEqual(USED);
  expect(await change("updateLabel(id: 1, input: { id: 5 }) { id }")).toEqual(
    conflict("id", USED[1]!, "marks_label_id_fkey"),
  );
  const error = { index: null, field: null, message: USED[1], code: "RESOURCE_CONFLICT" };
  expect(
    await change("deleteLabels(filter: { id: { equalTo: 1 } }, limit: 1) { errors { index field message code } }"),
  ).toEqual({ errors: [error] });
  expect(await change("deleteNode(id: 1)")).toEqual(["RESOURCE_CONFLICT", "rows of nodes refer to this record"]);
  expect(await change("updateNode(id: 1, input: { id: 5 }) { id }")).toEqual(
    conflict("id", "rows of nodes refer to this record", "nodes_parent_fkey"),
  );
  expect(await change("deleteLabel(id: 2)")).toEqual(["RESOURCE_CONFLICT", "other data refers to this record"]);
  expect(await change("deleteLabel(id: 3)")).toBe(true);
});

test("the table interface has the text of Postgres, and the comment of the foreign key only where it applies", async () => {
  expect(
    await trackit.rest("nodes", {
      body: [
        { id: 7, parent: null },
        { id: 8, parent: 99 },
      ],
      as: 1,
    }),
  ).toMatchObject({
    status: 409,
    json: { code: "23503", details: expect.stringMatching(/^in \[1\]\.parent: /), hint: "no such parent" },
  });
  const update = { method: "PATCH", body: { id: 5 }, as: 1 };
  for (const sent of [{ method: "DELETE", as: 1 }, update]) {
    const { status, json } = await trackit.rest("nodes?id=eq.1", sent);
    expect([status, json.message, json.hint]).toEqual([409, expect.stringContaining('on table "nodes"'), null]);
  }
  expect((await trackit.rest("marks?id=eq.1", { ...update, body: { label_id: 99 } })).json.details).toContain(
    "(label_id)=(99)",
  );
});

test("an error that no value of the input causes names none", async () => {
  await trackit.change("alter table orders alter later set default 'never'::text::date");
  await expect.poll(() => run(CREATE, { input: { id: "7" } })).toEqual(["VALIDATION_ERROR", expect.any(String), []]);
});
