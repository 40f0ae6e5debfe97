import { readFileSync } from "node:fs";
import { type ArgumentNode, buildSchema, isObjectType, parse, visit } from "postgraphile/graphql";
import { expect, test } from "vitest";
import { refuseLargeOperations } from "../../graphql/execute/document-size.ts";
import { connect } from "../support/graphql-client.ts";
import { useService } from "../support/http-client.ts";

const { data, gql, service } = useService();

const GUIDE = readFileSync("docs/graphql.md", "utf8");
let heading = "";
const EXAMPLES = [...GUIDE.matchAll(/^## (.+)$|```graphql\n([\s\S]*?)```/gm)].flatMap(([, title, example]) => {
  heading = title ?? heading;
  return example === undefined ? [] : [[heading, example] as const];
});

const REALTIME = readFileSync("docs/realtime.md", "utf8");
const SUBSCRIPTIONS = [...REALTIME.matchAll(/```graphql\n([\s\S]*?)```/g)].map(([, example]) => example!);

test.each(SUBSCRIPTIONS)("docs/realtime.md: the service accepts %s", async (example) => {
  const subscription = await connect(service(), { as: "ada" }).subscribe(example);
  expect(subscription.faults).toEqual([]);
  subscription.unsubscribe();
  await expect.poll(() => service().service.open().subscriptions).toBe(0);
});

test.each(EXAMPLES)("docs/graphql.md, %s: the example works", async (_, example) => {
  const { data, errors } = await gql(example, { as: "ada" });
  expect(errors).toBeUndefined();
  for (const result of Object.values<any>(data)) if (result?.success !== undefined) expect(result.success).toBe(true);
});

test("docs/graphql.md: currentUser is the signed-in user, and null for an anonymous caller", async () => {
  const [, code] = /```js\n(async function currentUser[\s\S]*?)```/.exec(GUIDE)!;
  const script = `${code!.replace("http://127.0.0.1:3000", service().url)} export { currentUser };`;
  const { currentUser } = await import(`data:text/javascript,${encodeURIComponent(script)}`);
  expect(await currentUser(service().token("ada"))).toEqual({ id: "1", name: "Ada Lovelace" });
  expect(await currentUser(undefined)).toBeNull();
  expect(await currentUser("not a token")).toBeNull();
});

test("docs/realtime.md: a subscription begins at the position of the query", async () => {
  const [, request] = /```json\n(\{ "query": [\s\S]*?)```/.exec(REALTIME)!;
  const { query, extensions } = JSON.parse(request!);
  const client = connect(service(), { as: "ada" });
  const subscription = "subscription { onArticleCreated { title } }";
  const warm = await client.subscribe(subscription);
  const create = (title: string) =>
    data(`mutation { createArticle(input: { title: "${title}", content: "Some content." }) { success } }`, {
      as: "ada",
    });
  await create("Before");
  await warm.expect({ onArticleCreated: { title: "Before" } });
  const read = await client.run(query, undefined, extensions);
  expect(read.errors).toBeUndefined();
  expect(read.data.articles.edges.length).toBeGreaterThan(0);
  await create("After");
  const after = await client.subscribe(subscription, undefined, { after: read.extensions!.changePosition });
  await after.expect({ onArticleCreated: { title: "After" } });
});

test("docs/graphql.md and docs/realtime.md have an example of every argument", () => {
  const shown = new Set<string>();
  const collect = ({ name }: ArgumentNode) => void shown.add(name.value);
  for (const example of [...EXAMPLES.map(([, each]) => each), ...SUBSCRIPTIONS])
    visit(parse(example), { Argument: collect });
  const types = Object.values(buildSchema(readFileSync("demo/schema.graphql", "utf8")).getTypeMap());
  const fields = types
    .filter(isObjectType)
    .filter(({ name }) => !name.startsWith("__"))
    .flatMap((type) => Object.values(type.getFields()));
  const names = new Set(fields.flatMap(({ args }) => args.map(({ name }) => name)));
  expect([...names].filter((name) => !shown.has(name))).toEqual([]);
});

test("docs/graphql.md, Limits: the operation has the documented complexity and depth", () => {
  const [, complexity, depth] = /This operation has complexity (\d+) and depth (\d+)/.exec(GUIDE)!;
  const page = parse(EXAMPLES.find(([title]) => title === "Limits")![1]);
  const check = (limits: object) =>
    refuseLargeOperations(page, {
      graphqlMaxComplexity: 1000,
      graphqlMaxDepth: 15,
      graphqlMaxSearches: 20,
      restMaxPatterns: 20,
      restMaxPatternLength: 200,
      ...limits,
    });
  expect(() => check({ graphqlMaxComplexity: 0 })).toThrow(`the operation has complexity ${complexity};`);
  expect(() => check({ graphqlMaxDepth: 0 })).toThrow(`the operation has depth ${depth};`);
  const [, parts] = /\| Part \| Complexity \|\n\|---\|---\|\n((?:\|.*\n)*)/.exec(GUIDE)!;
  const counts = [...parts!.matchAll(/\| (\d+) \|$/gm)].map(([, count]) => Number(count));
  expect(counts.reduce((sum, count) => sum + count)).toBe(Number(complexity));
});
