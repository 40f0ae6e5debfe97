import { expect, test } from "vitest";
import { observe, useRealtime } from "../support/realtime.ts";

const { client, service } = useRealtime(
  { GRAPHQL_DOCUMENTS: "any", GRAPHQL_UNINDEXED_FILTERS: "on" },
  `create table public.pages (id int primary key, body text, doc jsonb);
  alter table public.pages enable row level security;
  grant select on public.pages to anon;
  create policy "everyone" on public.pages using (true);
  insert into public.pages values (1, 'abc', '{"a": "abc"}')`,
);

const EXPENSIVE = "(.+)(.+)(.+)(.+)(.+)(.+)\\1\\2\\3\\4\\5\\6";
const REFUSED: readonly (readonly [pattern: string, message: string])[] = [
  [EXPENSIVE, "a regular expression must not have backreferences, lookahead or lookbehind, or select another syntax"],
  [
    "(\\y|a)".repeat(16),
    "a regular expression may have at most 10 anchors and word boundaries, and none in a part that is repeated",
  ],
  ["(a{50}){50}", "a regular expression may have at most 200 characters after its repetitions are written out"],
  ["a".repeat(201), "a pattern may have at most 200 characters"],
];

async function ask(query: string, variables: object = {}) {
  const response = await fetch(`${service().url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", apikey: service().service.tokens.issueKey("anon") },
    body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = (await response.json()) as any;
  return errors ? `${errors[0].extensions.code}: ${errors[0].message}` : data;
}

const PAGES = "query ($filter: PageFilter) { pages(filter: $filter) { edges { node { id } } } }";

async function filtered(filter: object) {
  const answer = await ask(PAGES, { filter });
  return typeof answer === "string" ? answer : answer.pages.edges.map(({ node }: any) => node.id);
}

test.each(REFUSED)("the regular expression %s is refused in a filter of a channel", async (pattern, message) => {
  const filter = `body=match."${pattern.replaceAll("\\", "\\\\")}"`;
  const channel = observe(client(), "expensive", [{ event: "*", schema: "public", table: "pages", filter }]);
  await expect.poll(() => channel.states).toEqual([expect.stringContaining(message)]);
});

test("a filter of a channel has as many patterns as a request to a table", async () => {
  const filter = Array(21).fill("body=like.a%").join(",");
  const channel = observe(client(), "many", [{ event: "*", schema: "public", table: "pages", filter }]);
  await expect.poll(() => channel.states).toEqual([expect.stringContaining("may have at most 20 patterns")]);
});

test.each(REFUSED)("the regular expression %s is refused in filters of GraphQL", async (pattern, message) => {
  const path = (text: string) => ({ doc: { matchesPath: `$.a ? (@ like_regex ${JSON.stringify(text)})` } });
  expect(await filtered(path("^a"))).toEqual(["1"]);
  expect(await filtered(path(pattern))).toBe(`VALIDATION_ERROR: ${message}`);
  expect(await filtered({ body: { matches: "^a" } })).toEqual(["1"]);
  expect(await filtered({ body: { matches: pattern } })).toBe(`VALIDATION_ERROR: ${message}`);
});

const LONG = "a".repeat(201);
const TOO_LONG = "VALIDATION_ERROR: a pattern may have at most 200 characters";
const tooMany = (count: number) =>
  `VALIDATION_ERROR: the filters have ${count} patterns (like, includes, startsWith, endsWith, matches, search); the maximum is 20: split the operation`;

/** Operators of texts that compare values. Postgres matches no pattern for these. */
const COMPARISONS = /^(equalTo|notEqualTo|distinctFrom|notDistinctFrom|(less|greater)Than(OrEqualTo)?)(Insensitive)?$/;

test("every operator of a text that is not a comparison has the limits of patterns", async () => {
  const { __type: type } = await ask(
    '{ __type(name: "StringFilter") { inputFields { name type { kind name ofType { name } } } } }',
  );
  const operators = type.inputFields.filter(
    ({ name, type: { name: of } }: any) => of !== null && !COMPARISONS.test(name),
  );
  expect(operators.map(({ name }: any) => name)).toEqual(expect.arrayContaining(["like", "notIncludes", "search"]));
  for (const {
    name,
    type: { name: of },
  } of operators) {
    if (of === "Boolean") continue;
    const condition = (text: string) => ({ body: { [name]: of === "TextSearch" ? { query: text } : text } });
    expect([name, await filtered(condition("a".repeat(200)))]).toEqual([name, expect.any(Array)]);
    expect([name, await filtered(condition(LONG))]).toEqual([name, TOO_LONG]);
    expect([name, await filtered({ or: Array(20).fill(condition("a")) })]).toEqual([name, expect.any(Array)]);
    expect([name, await filtered({ or: Array(21).fill(condition("a")) })]).toEqual([name, tooMany(21)]);
  }
  const compared = ["equalTo", "lessThanInsensitive"].map((name) => ({ body: { [name]: LONG } }));
  expect(await filtered({ or: Array(30).fill(compared).flat() })).toEqual(expect.any(Array));
});

test("patterns of GraphQL count wherever they are", async () => {
  const like = (count: number) => `or: [${'{ body: { like: "a" } } '.repeat(count)}]`;
  const field = (filter: string, alias = "a") => `${alias}: pages(filter: { ${filter} }) { totalCount }`;
  const list = "{ body: { like: $p } } ".repeat(21);
  const having = `pages { groupedAggregates(groupBy: [ID], having: { min: { body: { like: "${LONG}" } } }) { count } }`;
  const spread = `{ ...F ...G } fragment F on Query { ${field(like(11))} } fragment G on Query { ...F }`;
  const nested = PAGES.replace("$filter: PageFilter", "$s: TextSearch!, $c: StringFilter").replace(
    "filter: $filter",
    "filter: { body: { search: $s }, or: [{ body: $c }] }",
  );
  const byDefault = (value: string) => PAGES.replace("PageFilter)", `PageFilter = { body: { like: "${value}" } })`);
  const refused: readonly (readonly [query: string, variables: object, message: string])[] = [
    [`{ ${field(`body: { like: "${LONG}" }`)} }`, {}, TOO_LONG],
    [`{ ${field(`body: { like: """${LONG}""" }`)} }`, {}, TOO_LONG],
    [`{ ${field(like(21))} }`, {}, tooMany(21)],
    [`{ ${field(like(10), "a")} ${field(like(11), "b")} }`, {}, tooMany(21)],
    [spread, {}, tooMany(22)],
    [`{ ${having} }`, {}, TOO_LONG],
    [`query ($p: String) { ${field(`or: [${list}]`)} }`, { p: "a" }, tooMany(21)],
    [`query ($p: String = "a") { ${field(`or: [${list}]`)} }`, {}, tooMany(21)],
    [`query ($p: String) { ${field("body: { like: $p }")} }`, { p: LONG }, TOO_LONG],
    [nested, { s: { query: LONG } }, TOO_LONG],
    [nested, { s: { query: "a" }, c: { endsWith: LONG } }, TOO_LONG],
    [byDefault(LONG), {}, TOO_LONG],
    [PAGES, { filter: { doc: { matchesPath: Array(21).fill('$.a ? (@ like_regex "a")').join(" || ") } } }, tooMany(21)],
  ];
  for (const [query, variables, message] of refused)
    expect([query, await ask(query, variables)]).toEqual([query, message]);
  const accepted: readonly (readonly [query: string, variables: object])[] = [
    [`{ ${field(like(20))} }`, {}],
    [`query ($p: String = "${LONG}") { ${field("body: { equalTo: $p }")} }`, {}],
    [byDefault(LONG), { filter: null }],
    [nested, { s: { query: "a" } }],
  ];
  for (const [query, variables] of accepted) expect(await ask(query, variables)).toEqual(expect.any(Object));
});
