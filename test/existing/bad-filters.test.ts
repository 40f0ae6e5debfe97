import { afterAll, beforeAll, expect, test } from "vitest";
import { startTrackit, type Trackit } from "./trackit.ts";

let trackit: Trackit;
beforeAll(async () => {
  trackit = await startTrackit(
    { GRAPHQL_UNINDEXED_FILTERS: "on" },
    undefined,
    `
    create table public.orders (
      id int primary key, at date, later date, amount numeric(5, 2), code varchar(3), ip inet, slug public.slug, doc jsonb, seats int4range
    );
    create table public.parcels (id int primary key, order_id int references public.orders, due date);
    create index on public.parcels (order_id);
    create function public.sent(o public.orders) returns date language sql stable return (o).at;
    create function public.orders_between(since date, until date) returns setof public.orders language sql stable
      begin atomic select * from public.orders where at between since and until; end;
    create function public.days_between(since date, until date) returns table (day date, n int) language sql stable
      begin atomic select d::date, 1 from generate_series(since, until, '1 day') as d; end;
    create function public.log_order(id int, at date, span interval default null) returns int language sql volatile return id;
    create function public.divide(n int) returns int language sql stable return 1 / n;
    grant all on public.orders, public.parcels to trackit_user;
    insert into public.orders (id) values (1);`,
  );
});
afterAll(() => trackit?.stop());

const RANGE = 'date/time field value out of range: "2026-02-30"';
const DATE = (text: string) => `invalid input syntax for type date: "${text}"`;
const INTEGER = 'invalid input syntax for type integer: "x"';

/** A request to /rest/v1, its message, and the details. */
const REST: readonly (readonly [path: string, message: string, details: string | null, sent: object])[] = [
  ["orders?id=eq.x", INTEGER, "in id", {}],
  ["orders?id=in.(1,x)", INTEGER, "in id", {}],
  ["orders?id=eq(any).{1,x}", INTEGER, "in id", {}],
  ["orders?code=eq.2026-02-30&at=eq.2026-02-30", RANGE, "in at", {}],
  ["orders?or=(id.eq.1,not.and(at.lt.2026-02-30,id.gt.3))", RANGE, "in at", {}],
  [
    "orders?at=eq.soon&ip=eq.1.2.3",
    DATE("soon"),
    `in at: ${DATE("soon")}; in ip: invalid input syntax for type inet: "1.2.3"`,
    {},
  ],
  ["orders?sent=gt.soon", DATE("soon"), "in sent", {}],
  ["orders?code=match.(", "invalid regular expression: parentheses () not balanced", "in code", {}],
  ["orders?select=id,rows:parcels(id)&rows.due=eq.soon", DATE("soon"), "in rows.due", {}],
  ["orders?at=eq.soon", DATE("soon"), "in at", { method: "DELETE" }],
  ["orders?at=eq.soon", DATE("soon"), "in at", { method: "PATCH", body: { code: "a" } }],
  ["orders?at=eq.soon", DATE("soon"), "in at", { headers: { accept: "application/x-ndjson" } }],
  ["rpc/orders_between?since=2026-01-01&until=soon", DATE("soon"), "in until", {}],
  ["rpc/orders_between", DATE("soon"), "in since", { method: "POST", body: { since: "soon", until: "2026-01-01" } }],
  ["rpc/orders_between?since=2026-01-01&until=2026-01-02&id=eq.x", INTEGER, "in id", {}],
  ["rpc/days_between?since=2026-01-01&until=2026-01-02&n=eq.x", INTEGER, "in n", {}],
  ["rpc/log_order", DATE("soon"), "in at", { method: "POST", body: { id: 1, at: "soon", span: null } }],
  ["rpc/divide?n=0", "division by zero", null, {}],
];

test.each(REST)("/rest/v1/%s names what is refused: %s", async (path, message, details, sent) => {
  const { status, json } = await trackit.rest(path, { as: 1, ...sent });
  const { fields = [], ...error } = json;
  expect([status, error]).toEqual([400, { code: expect.stringMatching(/^22/), message, details, hint: null }]);
  const listed = fields.map((fault: { field: string; message: string }) =>
    fields.length === 1 ? `in ${fault.field}` : `in ${fault.field}: ${fault.message}`,
  );
  expect(listed.join("; ")).toBe(details ?? "");
  if (fields.length > 0) expect(fields[0].message).toBe(message);
});

test("a number of rows that is refused costs no further transaction", async () => {
  const before = trackit.service.databaseWaits();
  const accept = "application/vnd.pgrst.object+json";
  expect((await trackit.rest("orders?id=gt.5", { as: 1, headers: { accept } })).json.code).toBe("PGRST116");
  expect(trackit.service.databaseWaits() - before).toBe(1);
});

const NESTED =
  "query ($due: Date) { parcels { edges { node { order { parcels(filter: { due: { equalTo: $due } }) { id } } } } } }";

/** A GraphQL operation, its variables, and the values that are refused. */
const GRAPHQL: readonly (readonly [query: string, variables: object, fields: Readonly<Record<string, string>>])[] = [
  ['{ orders(filter: { at: { equalTo: "2026-02-30" } }) { totalCount } }', {}, { "filter.at.equalTo": RANGE }],
  [
    "query ($filter: OrderFilter) { orders(filter: $filter) { edges { node { id } } } }",
    { filter: { or: [{ id: { equalTo: "1" } }, { at: { lessThan: "2026-02-30" } }] } },
    { "filter.or[1].at.lessThan": RANGE },
  ],
  [
    "query ($at: [Date!]) { orders(filter: { at: { in: $at } }) { totalCount edges { node { id } } } }",
    { at: ["2026-01-01", "soon"] },
    { "filter.at.in[1]": DATE("soon") },
  ],
  [
    '{ orders(filter: { at: { equalTo: "soon" }, ip: { equalTo: "1.2.3" } }) { totalCount } }',
    {},
    { "filter.at.equalTo": DATE("soon"), "filter.ip.equalTo": 'invalid input syntax for type inet: "1.2.3"' },
  ],
  [
    '{ orders(filter: { slug: { equalTo: "A B" } }) { totalCount } }',
    {},
    {
      "filter.slug.equalTo": 'value for domain slug violates check constraint "slug_check"',
    },
  ],
  [NESTED, { due: "soon" }, { "filter.due.equalTo": DATE("soon") }],
  [
    'query ($until: Date!) { ordersBetween(since: "2026-01-01", until: $until) { totalCount } }',
    { until: "soon" },
    { until: DATE("soon") },
  ],
  ['mutation { logOrder(id: 1, at: "soon") }', {}, { at: DATE("soon") }],
  // As a code the text is valid.
  ['{ orders(filter: { code: { equalTo: "soon" }, at: { equalTo: "soon" } }) { totalCount } }', {}, {}],
  ["{ divide(n: 0) }", {}, {}],
];

test.each(GRAPHQL)("GraphQL names what is refused in %s with %j", async (query, variables, fields) => {
  const { errors = [] } = await trackit.gql(query, { as: 1, variables: variables as Record<string, unknown> });
  expect(errors.map(({ extensions }) => extensions.code)).toEqual(["VALIDATION_ERROR"]);
  const { message, extensions } = errors[0]!;
  const named: { field: string; code: string; message: string }[] = (extensions as any).fields ?? [];
  expect(named).toEqual(
    Object.entries(fields).map(([field, reason]) => ({ field, code: "VALIDATION_ERROR", message: reason })),
  );
  if (named.length > 0) expect(message).toBe(Object.values(fields).join("; "));
});
