import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { body, sql } = useResources();
const ids = async (path: string) => (await body(path)).data.map(({ id }: { id: number }) => id);

describe("a filter", () => {
  test.each([
    ["articles?status=DRAFT", [3]],
    ["articles?author=1", [3, 1]],
    ["articles?author=999", []],
    ["articles?tag=history", [2, 1]],
    ["articles?tag=History", []],
    ["articles?tag=", []],
    ["articles?tag=a,b", []],
    ["articles?status=PUBLISHED&author=2&tag=networks", [2]],
    ["articles?created_after=2020-01-01&status=DRAFT", [3]],
    ["articles?created_before=2020-01-01", []],
    ["articles?createdBefore=2020-01-01T00:00:00Z", []],
    ["users/1/articles?status=DRAFT", [3]],
    ["users/1/articles?author=2", []],
    ["articles/1/comments?author=2", [1]],
    ["comments?article=1", [2, 1]],
    ["comments?author=1&article=2", [3]],
    ["users?email=ada@example.com", [1]],
    ["users?email=ADA@example.com", [1]],
    ["users?email=ada_example.com", []],
    ["users?name=Bob%20Kahn", [2]],
    ["users?name=Bob+Kahn&age=41", [2]],
    ["users?age=36", [1]],
    ["users?age=-1", []],
  ])("%s gives %j", async (path, expected) => expect(await ids(`/api/v2/${path}`)).toEqual(expected));

  test("by time has an inclusive start and an exclusive end", async () => {
    await sql("update articles set created_at = '2026-11-01 12:00:00.5+00' where id = 4");
    expect(await ids("/articles?created_before=2026-11-01T12:00:00.500000Z")).toEqual([]);
    expect(await ids("/articles?created_before=2026-11-01T12:00:00.500001Z")).toEqual([4]);
    expect(await ids("/articles?created_before=2026-11-02&created_after=2026-11-01T12:00:00.5Z")).toEqual([4]);
    expect(await ids("/articles?created_before=2026-11-02&created_after=2026-11-01T13:00:00.5%2B01:00")).toEqual([4]);
    expect(await ids("/articles?created_before=2026-11-02&created_after=2026-11-01")).toEqual([4]);
  });

  test("by a time without a zone uses UTC", async () => {
    expect(await ids("/articles?created_before=2026-11-01T12:00:01&created_after=2026-11-01T12:00:00")).toEqual([4]);
  });
});

describe("?keyword=", () => {
  test.each([
    ["articles", "ENGINE", [3, 1]], // a title whatever its case, and a tag
    ["articles", "loom", [1]],
    ["articles", "machine", []],
    ["articles", "a loom flowers", []],
    ["articles", "just as the loom", [1]],
    ["articles", "", [3, 2, 1, 4]], // nothing is looked for
    ["articles", "%", []],
    ["articles", "_", []],
    ["articles", "\\", []],
    ["articles", "'", []],
    ["articles", "''; drop table articles; --", []],
    ["articles", "ä", []],
    ["articles", "patterns\nengines", []],
    ["users", "ada", [1]],
    ["users", "EXAMPLE.COM", [1, 2, 3, 4]],
    ["users", "Lovelace\nada", []],
    ["comments", "PACKET", [3]],
    ["comments", "?", [3]],
  ])("searches %s for %j", async (resource, keyword, expected) => {
    expect(await ids(`/api/v2/${resource}?keyword=${encodeURIComponent(keyword)}&limit=100`)).toEqual(expected);
  });

  test("takes wildcards literally", async () => {
    await sql(
      "insert into comments (article_id, author_id, content) values (4, 1, '100 % of_it \\ \"so\" they''ve said')",
    );
    for (const keyword of ["100 %", "of_it", "\\", '"so"', "they've"])
      expect(await body(`/comments?keyword=${encodeURIComponent(keyword)}&fields=article_id`)).toMatchObject({
        data: [{ article_id: 4 }],
      });
    expect(await ids("/comments?keyword=of%25it")).toEqual([]);
  });

  test("can be combined with filters, sorting and paging, and counts the matches", async () => {
    const { data, pagination } = await body("/articles?keyword=a&status=PUBLISHED&sort=id&limit=1&page=2");
    expect([data.map(({ id }: { id: number }) => id), pagination.total]).toEqual([[2], 2]);
    expect(await ids("/users/2/articles?keyword=packets")).toEqual([2]);
    expect(await ids("/articles/1/comments?keyword=loom")).toEqual([1]);
  });

  test("may be long", async () => {
    expect(await ids(`/articles?keyword=${"x".repeat(5000)}`)).toEqual([]);
  });
});
