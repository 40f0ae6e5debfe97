import { beforeAll, describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { article, data, errors, gql, service, sql } = useService();

/** 25 ARCHIVED articles of bob in the order of the connection. Each five have the same creation time. */
let newestFirst: string[];
beforeAll(async () => {
  await sql("delete from articles");
  for (let i = 0; i < 25; i++) {
    await article({
      author: 2,
      status: "ARCHIVED",
      title: `Title ${i}`,
      createdAt: `2026-01-0${1 + Math.floor(i / 5)}T08:30:00.000001Z`,
    });
  }
  newestFirst = (await sql("select id from articles order by created_at desc, id desc")).map(({ id }) => id);
});

type Page = {
  edges: { cursor: string; node: { id: string } }[];
  pageInfo: { hasNextPage: boolean; hasPreviousPage: boolean; startCursor: string | null; endCursor: string | null };
  totalCount: number;
};

const ARTICLES = `query ($first: Int, $after: String, $status: ArticleStatus = ARCHIVED, $filter: ArticleFilterInput) {
  articles(first: $first, after: $after, status: $status, filter: $filter) {
    edges { cursor node { id } } totalCount
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}`;
const page = async (variables: object = {}): Promise<Page> =>
  (await data(ARTICLES, { variables: { ...variables } })).articles;
const ids = ({ edges }: Page) => edges.map(({ node }) => node.id);

/** All pages, from the first to the last. */
async function walk(variables: object, between: (page: Page) => Promise<unknown> = async () => {}): Promise<Page[]> {
  const pages: Page[] = [];
  let after: string | null = null;
  do {
    const next: Page = await page({ ...variables, after });
    pages.push(next);
    after = next.pageInfo.hasNextPage ? next.pageInfo.endCursor : null;
    await between(next);
  } while (after !== null && pages.length < 100);
  return pages;
}

describe("a page", () => {
  test("has 10 articles when first is omitted or null", async () => {
    expect(ids(await page())).toEqual(newestFirst.slice(0, 10));
    expect(ids(await page({ first: null, after: null }))).toEqual(newestFirst.slice(0, 10));
    const { articles } = await data("{ articles { edges { node { id } } } }");
    expect(articles.edges).toHaveLength(10);
  });

  test.each([1, 2, 3, 4, 7, 24, 25, 26, 1000])(
    "first %i: newest first, the id breaks ties, each article once",
    async (first) => {
      const pages = await walk({ first });
      expect(pages.flatMap(ids)).toEqual(newestFirst);
      expect(pages).toHaveLength(Math.ceil(25 / first));
      expect(new Set(pages.map(({ totalCount }) => totalCount))).toEqual(new Set([25]));
    },
  );

  test("has a pageInfo with the neighbouring pages and the cursors", async () => {
    const [one, two, three] = (await walk({ first: 10 })) as [Page, Page, Page];
    expect(one.pageInfo).toEqual({
      hasNextPage: true,
      hasPreviousPage: false,
      startCursor: one.edges[0]!.cursor,
      endCursor: one.edges[9]!.cursor,
    });
    expect(two.pageInfo).toEqual({
      hasNextPage: true,
      hasPreviousPage: true,
      startCursor: two.edges[0]!.cursor,
      endCursor: two.edges[9]!.cursor,
    });
    expect(three.pageInfo).toEqual({
      hasNextPage: false,
      hasPreviousPage: true,
      startCursor: three.edges[0]!.cursor,
      endCursor: three.edges[4]!.cursor,
    });
  });

  test("after the last article is empty", async () => {
    const [all] = await walk({ first: 25 });
    expect(await page({ after: all!.pageInfo.endCursor })).toEqual({
      edges: [],
      totalCount: 25,
      pageInfo: { hasNextPage: false, hasPreviousPage: true, startCursor: null, endCursor: null },
    });
  });

  test("of an empty collection is empty", async () => {
    expect(await page({ status: "PUBLISHED" })).toEqual({
      edges: [],
      totalCount: 0,
      pageInfo: { hasNextPage: false, hasPreviousPage: false, startCursor: null, endCursor: null },
    });
  });

  test("after any cursor begins with the next article", async () => {
    const { edges } = await page({ first: 25 });
    for (const [i, { cursor }] of edges.entries()) {
      expect(ids(await page({ first: 2, after: cursor }))).toEqual(newestFirst.slice(i + 1, i + 3));
    }
  });

  test("has the same cursors for every caller and every selection", async () => {
    const { edges } = await page({ first: 3 });
    const other = await data(
      `{ articles(first: 3, status: ARCHIVED) { edges { cursor node { title author { name } } } } }`,
      { as: "ada" },
    );
    expect(other.articles.edges.map(({ cursor }: { cursor: string }) => cursor)).toEqual(
      edges.map(({ cursor }) => cursor),
    );
  });
});

describe("totalCount", () => {
  test("counts the articles that match status and filter, on any page", async () => {
    const [ada1, ada2] = [
      await article({ author: 1, tags: ["rare"] }),
      await article({ author: 1, status: "PUBLISHED", tags: ["rare"] }),
    ];
    const count = async (variables: object) => (await page({ first: 1, ...variables })).totalCount;
    expect(await count({ status: null })).toBe(27);
    expect(await count({ status: "ARCHIVED" })).toBe(25);
    expect(await count({ status: null, filter: { tag: "rare" } })).toBe(2);
    expect(await count({ status: "DRAFT", filter: { tag: "rare" } })).toBe(1);
    expect(await count({ status: "ARCHIVED", filter: { tag: "rare" } })).toBe(0);
    expect(await count({ status: null, filter: { authorId: "2" } })).toBe(25);
    expect(await count({ status: null, filter: { authorId: "2" }, first: 0 })).toBe(25);
    await sql("delete from articles where id in ($1, $2)", ada1, ada2);
  });

  test("can be selected without a page", async () => {
    expect(await data("{ articles(status: ARCHIVED) { totalCount } }")).toEqual({ articles: { totalCount: 25 } });
  });
});

describe("a cursor keeps its position", () => {
  test("among articles that differ by a microsecond", async () => {
    const times = ["00.000001", "00.000002", "00.000003"].map((seconds) => `2026-07-01T08:30:${seconds}Z`);
    const written = [];
    for (const createdAt of times) written.push(await article({ author: 2, status: "PUBLISHED", createdAt }));
    const pages = await walk({ first: 1, status: "PUBLISHED" });
    expect(pages.flatMap(ids)).toEqual(written.toReversed());
    await sql("delete from articles where id = any ($1::bigint[])", written);
  });
});

const base64 = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64");

describe("a cursor that the service did not issue is VALIDATION_ERROR", () => {
  test.each([
    ["the empty string", ""],
    ["garbage", "garbage"],
    ["no base64", "§$%&/()"],
    ["a number", "12"],
    ["base64 of no JSON", Buffer.from("not JSON").toString("base64")],
    ["base64 of no UTF-8", Buffer.from([0xff, 0xfe, 0xfd]).toString("base64")],
    ...[
      null,
      true,
      12,
      "text",
      {},
      { length: 3 },
      [],
      [null],
      ["x"],
      [1, 2, 3],
      ["x", null, null],
      [["x"], {}, []],
    ].map((value): [string, string] => [`base64 of ${JSON.stringify(value)}`, base64(value)]),
    ["10 kB", "x".repeat(10_000)],
    ["base64 of 10 kB of brackets", Buffer.from("[".repeat(10_000)).toString("base64")],
    ["NUL", "\0"],
    ["half of a surrogate pair", "\ud800"],
  ])("%s", async (_, after) => {
    const answer = await gql(ARTICLES, { variables: { after } });
    expect(answer).toMatchObject({
      status: 200,
      data: null,
      errors: [{ path: ["articles"], extensions: { code: "VALIDATION_ERROR" } }],
    });
    expect(answer.errors).toHaveLength(1);
  });

  test("with the right shape and wrong values", async () => {
    const { edges } = await page({ first: 1 });
    const [shape, time, id] = JSON.parse(Buffer.from(edges[0]!.cursor, "base64").toString());
    expect([shape, time, id]).toEqual([expect.any(String), expect.stringMatching(/^2026-01-05/), newestFirst[0]]);
    const made = [
      [shape, "yesterday, or so", id],
      [shape, time, "abc"],
      [shape, time, "99999999999999999999"],
      [shape, time, "1; drop table articles"],
      [shape, time, "\0"],
      [shape, time, "\ud800"],
      [shape, "", ""],
      [shape, time, {}],
      [shape, [], id],
      [shape, true, id],
      [shape, time],
      [shape],
      [shape, time, id, 1],
      ["another", time, id],
    ];
    for (const values of made) {
      expect(await errors(ARTICLES, { variables: { after: base64(values) } }), JSON.stringify(values)).toEqual([
        expect.stringMatching(/^VALIDATION_ERROR: /),
      ]);
    }
    expect((await sql("select count(*)::int from articles"))[0]).toEqual({ count: 25 });
  });

  test("from another collection", async () => {
    await sql("insert into comments (article_id, author_id, content) values ($1, 1, 'A comment.')", newestFirst[0]);
    const { comments } = await data("{ comments { edges { cursor } } }");
    expect(await errors(ARTICLES, { variables: { after: comments.edges[0].cursor } })).toEqual([
      expect.stringMatching(/^VALIDATION_ERROR/),
    ]);
    const { edges } = await page({ first: 1 });
    expect(
      await errors("query ($after: String) { comments(after: $after) { totalCount edges { cursor } } }", {
        variables: { after: edges[0]!.cursor },
      }),
    ).toEqual([expect.stringMatching(/^VALIDATION_ERROR/)]);
  });

  test("also if only totalCount is selected", async () => {
    const query = "query ($after: String) { articles(after: $after) { totalCount } }";
    const { edges } = await page({ first: 1 });
    expect(await data(query, { variables: { after: edges[0]!.cursor } })).toEqual({ articles: { totalCount: 25 } });
  });
});

describe("a page and its totalCount", () => {
  test("are one round trip to the database", async () => {
    const before = service().service.databaseWaits();
    await page({ first: 5 });
    expect(service().service.databaseWaits() - before).toBe(1);
  });

  test("see one snapshot and agree while articles are inserted and deleted", async () => {
    let running = true;
    const churn = (async () => {
      while (running) {
        await sql(
          "insert into articles (author_id, title, content, status) select 1, 'A title', 'Text.', 'DRAFT' from generate_series(1, 20)",
        );
        await sql("delete from articles where status = 'DRAFT'");
      }
    })();
    const counts = new Set<number>();
    try {
      for (let i = 0; i < 100 || counts.size < 2; i++) {
        const { edges, totalCount } = await page({ first: 100, status: "DRAFT" });
        expect(edges).toHaveLength(totalCount);
        counts.add(totalCount);
      }
    } finally {
      running = false;
      await churn;
    }
    expect(counts).toEqual(new Set([0, 20]));
  });
});
