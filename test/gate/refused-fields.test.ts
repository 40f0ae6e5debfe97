import { afterEach, beforeAll, expect, test } from "vitest";
import { sendTo } from "../support/resource-client.ts";
import { useRest } from "../support/rest-client.ts";

const { rest, service, sql } = useRest(
  { GRAPHQL_DOCUMENTS: "any", USERS_WRITE: "open", registrationsPerAddress: 1000 },
  `create table public.orders (
     id bigint generated always as identity primary key,
     code text not null unique,
     total int constraint orders_total_check check (total >= 0),
     starts date, ends date, article_id bigint references public.articles,
     constraint orders_period check (starts <= ends)
   );
   comment on constraint orders_period on public.orders is 'ends must not be before starts';
   comment on column public.orders.total is E'@name sum\\nThe sum.';
   grant select, insert (code, total, starts, ends, article_id), update (code, total, starts, ends), delete
     on public.orders to authenticated;
   insert into public.orders (code) values ('A'), ('B');`,
);

type TableName = "users" | "articles" | "orders";
type Row = Readonly<Record<string, unknown>>;
/** A column, what is wrong with it, and the constraint that says so. */
type Fault = readonly [column: string, message: string, constraint?: string];

/** A row without faults. */
const GOOD: Readonly<Record<TableName, Row>> = {
  users: { name: "Good", email: "good@test.example", age: 1 },
  articles: { title: "A good title", content: "Some content.", tags: [], status: "DRAFT" },
  orders: { code: "Y", total: 1, starts: null, ends: null, article_id: null },
};
const REQUIRED: Readonly<Record<TableName, Row>> = {
  users: { name: "Grace", email: "grace@test.example" },
  articles: { title: "A new title", content: "Some content." },
  orders: { code: "Z" },
};
const MUTATIONS: Readonly<Record<TableName, string>> = {
  users: "mutation ($row: CreateUserInput!) { createUser(input: $row) { id } }",
  articles: `mutation ($row: UpdateArticleInput!) { ...change }
    fragment change on Mutation { changed: updateArticle(id: 1, input: $row) { id } }`,
  orders: "mutation ($row: CreateOrderInput!) { createOrder(input: $row) { id } }",
};
/** Columns that have another name in GraphQL. */
const NAMES: Readonly<Record<string, string>> = { total: "sum", article_id: "articleId" };
const inGraphql = (column: string) => NAMES[column] ?? column;

const content = () =>
  sql(`select u::text from users as u union all select a::text from articles as a
       union all select o::text from orders as o order by 1`);
let before: unknown;
beforeAll(async () => {
  before = await content();
});
afterEach(async () => expect(await content()).toEqual(before));

/** The status, and the faults by field. */
async function refused(request: string, body: unknown) {
  const { service: started, token, url } = service();
  const headers = { apikey: started.tokens.issueKey("anon"), authorization: `Bearer ${token("ada")}` };
  const { status, json } = await sendTo(url, request, { body, headers });
  const listed: { field: string }[] = json.errors?.[0].extensions.fields ?? json.error?.details ?? json.fields;
  return [status, listed.toSorted((a, b) => (a.field < b.field ? -1 : 1))];
}

const codeOf = (constraint = "") => (/_f?key$/.test(constraint) ? "RESOURCE_CONFLICT" : "VALIDATION_ERROR");
const statusOf = (faults: readonly Fault[]) =>
  faults.every(([, , constraint]) => codeOf(constraint) === "RESOURCE_CONFLICT") ? 409 : 400;

const LENGTH: Fault = ["name", "name must have 1 to 200 characters", "users_name_length"];
const EMAIL: Fault = ["email", "email must be a valid address", "users_email_format"];
const TAKEN: Fault = ["email", "email already registered", "users_email_key"];
const AGE: Fault = ["age", "age must be from 0 to 150", "users_age_range"];
const TITLE: Fault = ["title", "title must have at least 5 characters", "articles_title_length"];
const EMPTY: Fault = ["content", "content must not be empty", "articles_content_text"];
const TAGS: Fault = ["tags", "each tag must have 1 to 50 characters", "articles_tags_length"];
const TOTAL: Fault = ["total", "total violates the rule orders_total_check of orders", "orders_total_check"];
const CODE: Fault = ["code", "code is already taken", "orders_code_key"];
const ARTICLE: Fault = ["article_id", "article_id refers to a record that does not exist", "orders_article_id_fkey"];
const period = (column: string): Fault => [column, "ends must not be before starts", "orders_period"];

test.each<[table: TableName, given: Row, faults: readonly Fault[]]>([
  ["users", { name: "" }, [LENGTH]],
  ["users", { name: " \t\n" }, [LENGTH]],
  ["users", { name: "x".repeat(201) }, [LENGTH]],
  ["users", { email: "no address" }, [EMAIL]],
  ["users", { email: "x@y.example\n" }, [EMAIL]],
  ["users", { email: `${"x".repeat(245)}@y.example` }, [EMAIL]],
  ["users", { email: "aDa@example.com" }, [TAKEN]],
  ["users", { age: -1 }, [AGE]],
  ["users", { age: 151 }, [AGE]],
  ["users", { name: " ", email: "x", age: 700 }, [AGE, EMAIL, LENGTH]],
  ["users", { name: "", email: "ADA@example.com", age: 200 }, [AGE, TAKEN, LENGTH]],
  ["articles", { title: "Four" }, [TITLE]],
  ["articles", { title: "Four", content: "", tags: [""] }, [EMPTY, TAGS, TITLE]],
  ["orders", { total: -1 }, [TOTAL]],
  ["orders", { code: "A" }, [CODE]],
  ["orders", { article_id: 99 }, [ARTICLE]],
  ["orders", { starts: "2026-02-01", ends: "2026-01-01" }, [period("ends"), period("starts")]],
  [
    "orders",
    { code: "A", total: -1, starts: "2026-02-01", ends: "2026-01-01" },
    [CODE, period("ends"), period("starts"), TOTAL],
  ],
])("every wire names each fault of a new row of %s: %j", async (table, given, faults) => {
  const row = { ...REQUIRED[table], ...given };
  const good = Object.fromEntries(Object.keys(row).map((name) => [name, GOOD[table][name]]));
  const status = statusOf(faults);
  const fields = (nameOf: (column: string) => string, ofRecord = "") =>
    faults
      .map(([column, message, constraint]) => ({
        ...{ field: nameOf(column), message: `${ofRecord}${message}`, code: codeOf(constraint) },
      }))
      .toSorted((a, b) => (a.field < b.field ? -1 : 1));
  const withConstraint = (listed: { field: string }[], nameOf: (column: string) => string) =>
    listed.map((each) => ({ ...each, constraint: faults.find(([column]) => nameOf(column) === each.field)![2] }));
  const second = (column: string) => `[1].${column}`;
  const same = (column: string) => column;

  const variables = { row: Object.fromEntries(Object.entries(row).map(([name, value]) => [inGraphql(name), value])) };
  expect(await refused("POST /graphql", { query: MUTATIONS[table], variables })).toEqual([
    200,
    withConstraint(fields(inGraphql), inGraphql),
  ]);
  const ofTable = `POST /rest/v1/${table}`;
  expect(await refused(ofTable, row)).toEqual([status, withConstraint(fields(same), same)]);
  expect(await refused(ofTable, [good, row])).toEqual([status, withConstraint(fields(second), second)]);
  if (table === "orders") return;
  expect(await refused(`POST /${table}`, row)).toEqual([status, fields(same)]);
  expect(await refused(`POST /${table}`, [good, row])).toEqual([status, fields(second, "[1]: ")]);
  if (table === "articles") return;
  const account = { password: "Correct-Horse-8!", username: "grace" };
  expect(await refused("POST /auth/register", { ...row, ...account })).toEqual([status, fields(same)]);
});

test.each<[given: Row, update: readonly string[], patch: readonly string[]]>([
  [{ code: "A", total: -1 }, ["sum"], ["total"]],
  // Of other unique values PATCH reports only the one that Postgres names: it may change several rows.
  [{ code: "B", total: -1 }, ["code", "sum"], ["total"]],
  [{ code: "B" }, ["code"], ["code"]],
])("a row's own unique values are not taken: %j", async (given, update, patch) => {
  const query = "mutation ($row: UpdateOrderInput!) { updateOrder(id: 1, input: $row) { id } }";
  const variables = { row: Object.fromEntries(Object.entries(given).map(([name, value]) => [inGraphql(name), value])) };
  const names = async (request: string, body: unknown) =>
    ((await refused(request, body))[1] as { field: string }[]).map(({ field }) => field);
  expect(await names("POST /graphql", { query, variables })).toEqual(update);
  expect(await names("PATCH /rest/v1/orders?id=eq.1", given)).toEqual(patch);
  const own = { email: "ada@example.com", age: 200 };
  const user = "mutation ($row: UpdateUserInput!) { updateUser(id: 1, input: $row) { id } }";
  expect(await names("POST /graphql", { query: user, variables: { row: own } })).toEqual(["age"]);
  for (const request of ["PATCH /rest/v1/users?id=eq.1", "PATCH /users/1"])
    expect([request, await names(request, own)]).toEqual([request, ["age"]]);
});

test("an argument of a function is named, and an error of other rows has no fields", async () => {
  const errorOf = async (mutation: string) =>
    (await service().gql(`mutation { ${mutation} }`, { as: "ada" })).errors![0]!.extensions as any;
  expect(await errorOf('createComment(articleId: 1, content: "") { id }')).toMatchObject({
    code: "VALIDATION_ERROR",
    fields: [{ field: "content", constraint: "comments_content_text" }],
  });
  expect((await errorOf("deleteUser(id: 1)")).fields).toBeUndefined();
});

const LABELS = "article_status must be one of DRAFT, PUBLISHED, ARCHIVED";
const MISSING = "content must not be null";

test.each<[request: string, body: unknown, code: string, details: string, hint: string | null]>([
  ["POST articles", { status: "LOST" }, "22P02", "in status", LABELS],
  ["PATCH articles?id=eq.1", { status: "LOST" }, "22P02", "in status", LABELS],
  ["POST articles", { content: null }, "23502", "in content", null],
  ["POST articles", { title: "Four" }, "23514", "in title", TITLE[1]],
  ["PATCH articles?id=eq.1", { title: null }, "23502", "in title", null],
  ["PATCH articles?id=eq.1", { title: "Four" }, "23514", "in title", TITLE[1]],
  [
    "PATCH articles?id=eq.1",
    { title: "Four", content: "" },
    "23514",
    `in content: ${EMPTY[1]}; in title: ${TITLE[1]}`,
    `${EMPTY[1]}; ${TITLE[1]}`,
  ],
  ["POST articles", [{}, {}, { status: "LOST" }, {}], "22P02", "in [2].status", LABELS],
  ["POST articles", [{}, {}, { content: null }, {}], "23502", "in [2].content", null],
  [
    "POST articles",
    [{}, { title: "Four" }, { content: "" }],
    "23514",
    `in [1].title: ${TITLE[1]}; in [2].content: ${EMPTY[1]}`,
    `${TITLE[1]}; ${EMPTY[1]}`,
  ],
])(
  "the table interface has the place in details and the rule as a hint: %s %j",
  async (request, given, ...expected) => {
    const [method, path] = request.split(" ") as [string, string];
    const isNew = method === "POST";
    const fill = (row: Row) => ({ ...(isNew && { ...REQUIRED.articles, status: "DRAFT" }), ...row });
    const body = Array.isArray(given) ? given.map(fill) : given && fill(given as Row);
    const { json, text } = await rest(path, { method, as: "ada", body });
    expect([json.code, json.details, json.hint]).toEqual(expected);
    expect(text).not.toContain("Failing row");
    const [code, details, hint] = expected;
    const [first] = json.fields;
    expect(details.startsWith(`in ${first.field}`)).toBe(true);
    expect(first).toMatchObject({
      message: code === "23502" ? expect.stringContaining("must not be null") : expect.any(String),
    });
    if (hint === LABELS)
      expect(json.fields).toEqual([{ field: first.field, message: LABELS, code: "VALIDATION_ERROR" }]);
  },
);

test("a missing value is a fault among others, and a request without a value has no fields", async () => {
  const { json } = await rest("articles", { as: "ada", body: { tags: [""] } });
  expect([json.code, json.details]).toEqual([
    "23502",
    `in title: title must not be null; in content: ${MISSING}; in tags: ${TAGS[1]}`,
  ]);
  expect((await rest("articles?nothing=eq.1")).json.fields).toBeUndefined();
});

test("a merge does not call the values of the row that it is merged with taken", async () => {
  const prefer = "resolution=merge-duplicates";
  const { json } = await rest("orders?on_conflict=code", { as: "ada", body: { code: "A", total: -1 }, prefer });
  expect([json.code, json.details]).toEqual(["23514", "in total"]);
});
