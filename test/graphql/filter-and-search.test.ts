import { describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";

const { article, data, errors, sql } = useService();

describe("articles(filter: ArticleFilterInput)", () => {
  const FILTER =
    "query ($filter: ArticleFilterInput, $status: ArticleStatus) { articles(filter: $filter, status: $status, first: 100) { edges { node { id } } totalCount } }";
  const found = async (filter: object | null, status?: string) => {
    const { articles } = await data(FILTER, { variables: { filter, ...(status && { status }) } });
    expect(articles.totalCount).toBe(articles.edges.length);
    return articles.edges.map(({ node }: { node: { id: string } }) => node.id);
  };
  let made: string[];
  const make = async () => {
    made ??= [
      await article({
        author: 3,
        title: "Filter one",
        content: "Alpha",
        status: "DRAFT",
        tags: ["f", "one"],
        createdAt: "2020-01-01T00:00:00Z",
      }),
      await article({
        author: 3,
        title: "Filter two",
        content: "100% alpha_beta",
        status: "PUBLISHED",
        tags: ["f", "two"],
        createdAt: "2020-01-02T00:00:00Z",
      }),
      await article({
        author: 4,
        title: "Filter three",
        content: "C:\\beta",
        status: "ARCHIVED",
        tags: ["f", "three"],
        createdAt: "2020-01-03T00:00:00Z",
      }),
    ];
  };
  const only = { tag: "f" };

  test.each([
    [{ ...only }, [2, 1, 0]],
    [{ ...only, status: "PUBLISHED" }, [1]],
    [{ ...only, authorId: "3" }, [1, 0]],
    [{ ...only, authorId: "999999" }, []],
    [{ ...only, authorId: "abc" }, []],
    [{ ...only, authorId: "-1" }, []],
    [{ ...only, authorId: "99999999999999999999" }, []],
    [{ tag: "two" }, [1]],
    [{ tag: "tw" }, []],
    [{ tag: "TWO" }, []],
    [{ ...only, keyword: "ALPHA" }, [1, 0]],
    [{ ...only, keyword: "filter t" }, [2, 1]],
    [{ ...only, keyword: "thre" }, [2]],
    [{ ...only, keyword: "100%" }, [1]],
    [{ ...only, keyword: "1%0" }, []],
    [{ ...only, keyword: "a_b" }, [1]],
    [{ ...only, keyword: "_" }, [1]],
    [{ ...only, keyword: "\\" }, [2]],
    [{ ...only, keyword: "" }, [2, 1, 0]],
    [{ ...only, createdAfter: "2020-01-02T00:00:00Z" }, [2]],
    [{ ...only, createdAfter: "2020-01-01T23:59:59.999Z" }, [2, 1]],
    [{ ...only, createdBefore: "2020-01-02T00:00:00Z" }, [0]],
    [{ ...only, createdBefore: "2020-01-02T01:00:00+01:00" }, [0]],
    [{ ...only, createdBefore: "2020-01-02" }, [0]],
    [{ ...only, createdBefore: "2020-01-02T00:00:00" }, [0]],
    [{ ...only, createdBefore: "2020-01-02 00:00:01" }, [1, 0]],
    [{ ...only, createdAfter: "2020-01-01T12:00Z", createdBefore: "2020-01-02T12:00Z" }, [1]],
    [{ ...only, status: "DRAFT", authorId: "3", keyword: "alpha", createdBefore: "2021-01-01T00:00Z" }, [0]],
    [{ ...only, status: "DRAFT", authorId: "4" }, []],
    [{ ...only, status: null, authorId: null, keyword: null, createdAfter: null, createdBefore: null }, [2, 1, 0]],
  ])("with the filter %j returns the matching articles", async (filter, expected) => {
    await make();
    expect(await found(filter)).toEqual(expected.map((i) => made[i]));
  });

  test("combines filter and status with AND", async () => {
    await make();
    expect(await found({ ...only, status: "DRAFT" }, "DRAFT")).toEqual([made[0]]);
    expect(await found({ ...only, status: "DRAFT" }, "PUBLISHED")).toEqual([]);
    expect(await found(only, "ARCHIVED")).toEqual([made[2]]);
  });

  test("with null or {} returns all articles", async () => {
    const [row] = await sql("select count(*)::int from articles");
    expect(await found(null)).toHaveLength(row!.count);
    expect(await found({})).toHaveLength(row!.count);
  });

  test("accepts a literal with variables inside", async () => {
    await make();
    const query =
      'query ($tag: String) { articles(filter: { tag: $tag, status: PUBLISHED, createdAfter: "2019-12-31T00:00:00Z" }) { edges { node { id } } } }';
    const { articles } = await data(query, { variables: { tag: "f" } });
    expect(articles.edges).toEqual([{ node: { id: made[1] } }]);
  });

  test.each([
    [{ createdAfter: "yesterday" }],
    [{ createdAfter: "2020-13-01T00:00:00Z" }],
    [{ createdAfter: "2020-02-30T00:00:00Z" }],
    [{ createdAfter: "" }],
    [{ createdAfter: 7 }],
    [{ createdAfter: "in a while" }],
    [{ status: "draft" }],
    [{ unknown: 1 }],
    [{ tag: ["f"] }],
    ["f"],
    [[]],
  ])("refuses %j with VALIDATION_ERROR", async (filter) => {
    expect(await errors(FILTER, { variables: { filter } })).toEqual([expect.stringMatching(/^VALIDATION_ERROR: /)]);
  });
});

describe("search(keyword: String!): [Article!]!", () => {
  const search = async (keyword: string): Promise<string[]> =>
    (
      await data("query ($keyword: String!) { search(keyword: $keyword) { id } }", { variables: { keyword } })
    ).search.map(({ id }: { id: string }) => id);

  test.each(["xylophone", "XYLOPHONE", "Xylo", "lopho"])(
    "finds %s in title, content and tags, best match first",
    async (keyword) => {
      await sql("delete from articles where tags @> '{search}'");
      const tags = ["search"];
      const tag = await article({ title: "Second place", tags: ["xylophone", ...tags] });
      const content = await article({ title: "Third place", content: "There is a xylophone in it.", tags });
      const title = await article({ title: "A xylophone in the title", tags });
      const exact = await article({ title: "Xylophone", tags });
      await article({ title: "Not found", tags });
      const found = await search(keyword);
      expect(found.slice(0, 2)).toEqual([exact, title]);
      expect(found.toSorted()).toEqual([content, tag, title, exact].toSorted());
      if (keyword.length === 9) expect(found).toEqual([exact, title, tag, content]);
    },
  );

  test.each([
    ["50% off", "50% off today", "50 off today"],
    ["a_c", "The a_c file", "The abc file"],
    ["c:\\dir", "In c:\\dir it is", "In c:dir it is"],
    ["%", "One percent %", "One percent"],
    ["{}", "Brackets {} here", "Brackets here"],
    ["'; drop table users; --", "'; drop table users; --", "Nothing here"],
    ["\\%", "Escaped \\% sign", "Escaped % sign"],
    [".*", "Regexp .*", "Regexp xy"],
    ["t\u00d7w", "Next\u00d7WEEK", "Nextweek"],
    ["ÜBUNG ç", "Eine übung Çedille", "Eine uebung cedille"],
    ["€ & 😀", "5 € & 😀!", "5 € 😀!"],
    ["s q", "Books quoted", "Booksquoted"],
  ])("takes wildcards and quotes literally: %s", async (keyword, match, other) => {
    const [yes, no] = [await article({ title: `${match} wildcards` }), await article({ title: `${other} wildcards` })];
    const found = await search(keyword);
    expect(found).toContain(yes);
    expect(found).not.toContain(no);
  });

  test("does not match text across two fields, or two tags", async () => {
    const id = await article({ title: "Ends with foo", content: "bar begins and ends", tags: ["third", "fourth"] });
    for (const keyword of ["foo\nbar", "ends\nthird", "third\nfourth", "thirdfourth", "third,fourth"])
      expect(await search(keyword)).not.toContain(id);
    expect(await search("foo")).toContain(id);
  });

  test("with an empty keyword returns all articles, at most 1000", async () => {
    const [row] = await sql("select count(*)::int from articles");
    expect(await search("")).toHaveLength(row!.count);
  });

  test("returns pages of the same list with limit and offset, also with an order", async () => {
    const page = (args: string) => data(`{ search(keyword: "", ${args}) { id } }`).then(({ search: rows }) => rows);
    for (const order of ["", ", orderBy: ID_DESC"]) {
      const all = await page(`limit: null${order}`);
      expect(all).toHaveLength((await search("")).length);
      expect(await page(`limit: 2${order}`)).toEqual(all.slice(0, 2));
      expect(await page(`limit: 2, offset: 1${order}`)).toEqual(all.slice(1, 3));
      expect(await page(`offset: 1${order}`)).toEqual(all.slice(1));
      expect(await page(`limit: 0${order}`)).toEqual([]);
    }
    expect(await errors('{ search(keyword: "", limit: 1001) { id } }')).toEqual([
      "VALIDATION_ERROR: limit must be from 0 to 1000",
    ]);
    expect(await errors('{ search(keyword: "", offset: -1) { id } }')).toEqual([
      "VALIDATION_ERROR: offset must not be negative",
    ]);
  });

  test("without a match returns an empty list", async () => expect(await search("no article has this")).toEqual([]));
});
