import { afterAll, beforeAll, expect, test } from "vitest";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit(
    { GRAPHQL_UNINDEXED_FILTERS: "on" },
    undefined,
    `
    create type public.place as (street text, post_code char(2));
    create table public.orders (
      id int primary key, at date, big bigint, amount numeric(5, 2), code varchar(3), ip inet, at_utc timestamptz, ref uuid,
      slug public.slug, cents public.money_cents, many bigint[], due interval, seats int4range, home public.place, doc jsonb,
      few int constraint few_positive check (few > 0), less int constraint less_positive check (less > 0),
      later date default '2026-01-01'
    );
    comment on constraint few_positive on public.orders is 'few must be positive';
    comment on constraint less_positive on public.orders is 'less must be positive';
    comment on column public.orders.big is '@name large';
    grant all on public.orders to trackit_user;
    insert into public.orders (id) values (1);`,
  );
});
afterAll(() => trackit?.stop());

/** The fields of the only error: name and message. */
async function fieldsOf(query: string, variables: object) {
  const { errors, data } = await trackit.gql(query, { as: 1, variables: variables as Record<string, unknown> });
  if (!errors) return data;
  expect(errors).toHaveLength(1);
  const { fields = [], code } = errors[0]!.extensions as any;
  return [code, ...fields.map(({ field, code: of, message }: any) => `${field}: ${of} ${message}`)];
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

/** GraphQL input, column, value, and what is wrong with it. */
const BAD: readonly (readonly [field: string, column: string, value: unknown, message: string])[] = [
  ["at", "at", "2026-02-30", 'date/time field value out of range: "2026-02-30"'],
  ["at", "at", "soon", 'invalid input syntax for type date: "soon"'],
  ["large", "big", "12x", 'invalid input syntax for type bigint: "12x"'],
  ["amount", "amount", "1000", "numeric field overflow"],
  ["code", "code", "abcd", "value too long for type character varying(3)"],
  ["ip", "ip", "1.2.3", 'invalid input syntax for type inet: "1.2.3"'],
  ["slug", "slug", "A B", 'value for domain slug violates check constraint "slug_check"'],
  ["cents", "cents", "-1", 'value for domain money_cents violates check constraint "money_cents_check"'],
  ["many", "many", ["1", "y"], 'invalid input syntax for type bigint: "y"'],
];

test.each(BAD)("a value that %s cannot have is named in every mutation: %s %j", async (field, _, value, message) => {
  const input = { code: "abc", doc: { a: "12x" }, [field]: value };
  const expected = ["VALIDATION_ERROR", `${field}: VALIDATION_ERROR ${message}`];
  expect(await fieldsOf(CREATE, { input: { id: "7", ...input } })).toEqual(expected);
  expect(await fieldsOf(UPDATE, { input })).toEqual(expected);
  const error = { field, code: "VALIDATION_ERROR", message };
  expect(await fieldsOf(MANY, { input: [{ id: "8" }, { id: "9", ...input }] })).toEqual({
    createOrders: { success: false, errors: [{ index: 1, ...error }] },
  });
  expect(await fieldsOf(SET, { input })).toEqual({ updateOrders: { errors: [{ index: null, ...error }] } });
});

/** Values that are objects in GraphQL. */
const OBJECTS: readonly (readonly [field: string, value: unknown, message: RegExp])[] = [
  ["due", { years: 2147483647 }, /interval .*out of range/],
  ["seats", between(5, 1), /^range lower bound must be less than or equal to range upper bound$/],
  ["home", { street: "x", postCode: "abc" }, /^value too long for type character\(2\)$/],
];

test.each(OBJECTS)("an object that %s cannot have is named in every mutation: %j", async (field, value, message) => {
  const valid = { due: { days: 3 }, seats: between(1, 5), home: { street: "y", postCode: "de" }, doc: { a: "12x" } };
  const input = { code: "abc", ...valid, [field]: value };
  const expected = [
    "VALIDATION_ERROR",
    expect.stringMatching(`^${field}: VALIDATION_ERROR ${message.source.replace(/^\^/, "")}`),
  ];
  expect(await fieldsOf(CREATE, { input: { id: "7", ...input } })).toEqual(expected);
  expect(await fieldsOf(UPDATE, { input })).toEqual(expected);
  const error = { field, code: "VALIDATION_ERROR", message: expect.stringMatching(message) };
  expect(await fieldsOf(MANY, { input: [{ id: "8" }, { id: "9", ...input }] })).toEqual({
    createOrders: { success: false, errors: [{ index: 1, ...error }] },
  });
  expect(await fieldsOf(SET, { input })).toEqual({ updateOrders: { errors: [{ index: null, ...error }] } });
});

test("a rule that a row violates is named although the row has a range", async () => {
  const input = { seats: between(1, 5), few: -1, less: -1 };
  const named = ["few", "less"].map((field) => `${field}: VALIDATION_ERROR ${field} must be positive`);
  expect(await fieldsOf(CREATE, { input: { id: "7", ...input } })).toEqual(["VALIDATION_ERROR", ...named]);
});

test("mutations of many rows write composite values, ranges and intervals as those of one row do", async () => {
  const input = { due: { days: 3 }, seats: between(1, 5), home: { street: "x", postCode: "de" } };
  const ROW = "id due { days } seats { start { value } } home { street postCode }";
  const created = await fieldsOf(CREATE.replace("{ id }", `{ ${ROW} }`), { input: { id: "20", ...input } });
  const { createOrders } = await fieldsOf(
    `mutation ($input: [CreateOrderInput!]!) { createOrders(input: $input) { message orders { ${ROW} } } }`,
    { input: [{ id: "21", ...input }] },
  );
  expect(createOrders.orders).toEqual([{ ...created.createOrder, id: createOrders.orders[0].id }]);
  expect(createOrders.orders[0].home).toEqual(input.home);
});

test.each(BAD)("and at /rest/v1: %s %s %j", async (_, column, value, message) => {
  const body = { doc: { a: "12x" }, due: null, [column]: value };
  for (const [path, method] of [
    ["orders", "POST"],
    ["orders?id=eq.1", "PATCH"],
  ] as const) {
    const { status, json } = await trackit.rest(path, { method, body: { id: 7, ...body }, as: 1 });
    expect([status, json.message]).toEqual([400, message]);
    expect(json.details === `in ${column}` || json.details.includes("precision 5")).toBe(true);
  }
  const { json } = await trackit.rest("orders", {
    body: [
      { id: 8, ...body, [column]: null },
      { id: 9, ...body },
    ],
    as: 1,
  });
  expect(json.details).toContain(`in [1].${column}`);
});

test("every bad value of a row is named at once", async () => {
  const input = { at: "soon", code: "abcd", large: "1", due: { days: 3 }, home: { street: "x" } };
  const at = 'invalid input syntax for type date: "soon"';
  const code = "value too long for type character varying(3)";
  const named = [`at: VALIDATION_ERROR ${at}`, `code: VALIDATION_ERROR ${code}`];
  expect(await fieldsOf(CREATE, { input: { id: "7", ...input } })).toEqual(["VALIDATION_ERROR", ...named]);
  const { json } = await trackit.rest("orders", { body: { id: 7, at: "soon", code: "abcd" }, as: 1 });
  expect(json.details).toBe(`in at: ${at}; in code: ${code}`);
});

test("an error that no value of the input causes names none", async () => {
  await trackit.change("alter table orders alter later set default 'never'::text::date");
  await expect.poll(() => fieldsOf(CREATE, { input: { id: "7" } })).toEqual(["VALIDATION_ERROR"]);
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
