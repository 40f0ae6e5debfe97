import { expect, test } from "vitest";
import { observe, useRealtime } from "../support/realtime.ts";

const { client, service } = useRealtime(
  { GRAPHQL_MAX_TABLES: "100", GRAPHQL_UNINDEXED_FILTERS: "on" },
  `create table public.pages (id int primary key, body text, doc jsonb);
  alter table public.pages enable row level security;
  grant select on public.pages to anon;
  create policy "everyone" on public.pages using (true);
  insert into public.pages values (1, 'abc', '{"a": "abc"}')`,
);

const EXPENSIVE = "(.+)(.+)(.+)(.+)(.+)(.+)\\1\\2\\3\\4\\5\\6";
const REFUSED: readonly (readonly [pattern: string, message: string])[] = [
  [EXPENSIVE, "a regular expression must not have backreferences, lookahead or lookbehind, or select another syntax"],
  ["(a{50}){50}", "a regular expression may have at most 200 characters after its repetitions are written out"],
  ["a".repeat(201), "a pattern may have at most 200 characters"],
];

async function filtered(filter: object) {
  const query = "query ($filter: PageFilter!) { pages(filter: $filter) { edges { node { id } } } }";
  const response = await fetch(`${service().url}/graphql`, {
    method: "POST",
    headers: { "content-type": "application/json", apikey: service().service.tokens.issueKey("anon") },
    body: JSON.stringify({ query, variables: { filter } }),
  });
  const { data, errors } = (await response.json()) as any;
  return errors?.[0].message ?? data.pages.edges.map(({ node }: any) => node.id);
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
  expect(await filtered(path(pattern))).toBe(message);
  expect(await filtered({ body: { matches: "^a" } })).toEqual(["1"]);
  expect(await filtered({ body: { matches: pattern } })).toBe(message);
});
