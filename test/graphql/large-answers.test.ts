import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ dbMaxResultBytes: 1_000_000, graphqlMaxRows: 5000 });
  // Ten articles of the one author that every nested list selects.
  await service.database.owner.query(`
    insert into articles (author_id, title, content, tags)
    select 1, 'Title number ' || n, repeat('x', 1000), '{}' from generate_series(1, 10) as n`);
});
afterAll(() => service.stop());

const nested = (levels: number): string =>
  levels === 0 ? "content" : `content author { articles { ${nested(levels - 1)} } }`;

test("nested lists that grow tenfold with each level are refused at the maximum response size", async () => {
  const small = await service.gql(`{ user(id: 1) { articles { ${nested(1)} } } }`);
  expect(small.errors).toBeUndefined();
  const { data, errors } = await service.gql(`{ user(id: 1) { articles { ${nested(3)} } } }`);
  expect(data).toEqual({ user: null });
  expect(errors).toMatchObject([
    { message: expect.stringContaining("larger than 1000000 bytes"), extensions: { code: "VALIDATION_ERROR" } },
  ]);
  expect((await service.gql("{ articles { totalCount } }")).data.articles.totalCount).toBe(14);
});

const ids = (levels: number): string => (levels === 0 ? "id" : `articles { author { ${ids(levels - 1)} } }`);

test("nested lists of small rows are refused at the maximum number of rows", async () => {
  const small = await service.gql(`{ user(id: 1) { ${ids(3)} } }`);
  expect(small.errors).toBeUndefined();
  expect(small.data.user.articles).toHaveLength(10);
  const { data, errors } = await service.gql(`{ user(id: 1) { ${ids(4)} } }`);
  expect(data).toEqual({ user: null });
  expect(errors).toMatchObject([
    { message: expect.stringContaining("more than 5000 rows"), extensions: { code: "VALIDATION_ERROR" } },
  ]);
  expect((await service.gql("{ articles { totalCount } }")).data.articles.totalCount).toBe(14);
});

test("the response of a write is not limited, because the write has been committed", async () => {
  const mutation =
    "mutation ($input: CreateArticleInput!) { createArticle(input: $input) { success article { title } } }";
  const input = { title: "A long article", content: "x".repeat(1_000_000) };
  const { data, errors } = await service.gql(mutation, { variables: { input }, as: "bob" });
  expect(errors).toBeUndefined();
  expect(data.createArticle).toEqual({ success: true, article: { title: "A long article" } });
});
