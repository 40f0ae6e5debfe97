import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { connect } from "../support/graphql-client.ts";
import { type DemoUser, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** The policies that docs/database-application.md prints. */
const [, POLICIES] = /^```sql drafts\n([\s\S]*?)^```$/m.exec(readFileSync("docs/database-application.md", "utf8"))!;
const READERS = [undefined, "bob", "ada"] as const;

let service: TestService;
let id: string;
beforeAll(async () => {
  service = await startTestService({ API_KEY_REQUIRED: "off" });
  const { owner } = service.database;
  const { rows } = await owner.query(
    "insert into articles (title, content, author_id) values ('A secret draft', 'x', 1) returning id",
  );
  id = String(rows[0].id);
  await owner.query("insert into comments (article_id, author_id, content) values ($1, 1, 'A note to myself')", [id]);
});
afterAll(() => service.stop());

/** What a caller reads of the draft: in lists, by its id, and of the tables. */
async function readDraft(as?: DemoUser) {
  const options = as === undefined ? {} : { as };
  const query = `{
    article(id: ${id}) { title }
    articles(status: DRAFT, first: 100) { edges { node { id } } }
    search(keyword: "secret") { id }
  }`;
  const { data } = await service.gql(query, options);
  const headers: Record<string, string> = as === undefined ? {} : { authorization: `Bearer ${service.token(as)}` };
  const countOf = async (path: string) =>
    ((await (await fetch(`${service.url}/rest/v1/${path}`, { headers })).json()) as object[]).length;
  return {
    article: data.article?.title ?? null,
    isListed: data.articles.edges.some(({ node }: any) => node.id === id),
    isFound: data.search.some((found: any) => found.id === id),
    rows: await countOf(`articles?id=eq.${id}`),
    comments: await countOf(`comments?article_id=eq.${id}`),
  };
}
const ALL = { article: "A secret draft", isListed: true, isFound: true, rows: 1, comments: 1 };
const NOTHING = { article: null, isListed: false, isFound: false, rows: 0, comments: 0 };

test("in the demo, everyone reads drafts, as README.md and docs/database-application.md say", async () => {
  for (const reader of READERS) expect(await readDraft(reader)).toEqual(ALL);
});

test("with the policies of docs/database-application.md, drafts and their comments are read by their author only, until they are published", async () => {
  await service.database.owner.query(POLICIES!);
  for (const reader of [undefined, "bob"] as const) await expect.poll(() => readDraft(reader), POLL).toEqual(NOTHING);
  expect(await readDraft("ada")).toEqual(ALL);
  const subscribe = `subscription { onCommentAdded(articleId: ${id}) { content } }`;
  const { errors } = await connect(service, { as: "bob" }).run(subscribe);
  expect(errors).toMatchObject([{ extensions: { code: "RESOURCE_NOT_FOUND" } }]);

  const publish = `mutation { publishArticle(id: ${id}) { status } }`;
  expect((await service.gql(publish, { as: "bob" })).errors).toMatchObject([
    { extensions: { code: "RESOURCE_NOT_FOUND" } },
  ]);
  expect((await service.gql(publish, { as: "ada" })).data).toEqual({ publishArticle: { status: "PUBLISHED" } });
  for (const reader of READERS) expect(await readDraft(reader)).toEqual({ ...ALL, isListed: false });
});
