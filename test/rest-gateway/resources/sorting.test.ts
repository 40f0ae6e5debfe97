import { beforeAll, describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { body, sql } = useResources();
const column = async (path: string, name: string) =>
  (await body(path)).data.map((record: Readonly<Record<string, unknown>>) => record[name]);

describe("users", () => {
  // Ada 36, Bob 41, Administrator and Carol without an age.
  test.each([
    ["", [1, 2, 3, 4]],
    ["order=desc", [4, 3, 2, 1]],
    ["order=asc", [1, 2, 3, 4]],
    ["sort=name", [1, 3, 2, 4]],
    ["sort=%20name", [1, 3, 2, 4]],
    ["sort=age:desc%20,%20id:asc%20", [2, 1, 3, 4]],
    ["sort=name&order=desc", [4, 2, 3, 1]],
    ["sort=name:desc", [4, 2, 3, 1]],
    ["sort=name:asc&order=desc", [1, 3, 2, 4]],
    ["sort=age", [1, 2, 3, 4]], // nulls last
    ["sort=age:desc", [2, 1, 4, 3]], // and last again
    ["sort=age:desc,id:asc", [2, 1, 3, 4]],
    ["sort=age,name:desc", [1, 2, 4, 3]],
    ["sort=createdAt", [1, 2, 3, 4]],
    ["sort=created_at:desc", [4, 3, 2, 1]],
    ["sort=id:desc,name", [4, 3, 2, 1]],
  ])("?%s are %j", async (search, expected) => expect(await column(`/api/v2/users?${search}`, "id")).toEqual(expected));
});

describe("articles", () => {
  beforeAll(() => sql("update articles set created_at = '2026-11-01'"));

  test("are sorted newest first, then by descending id", async () => {
    expect(await column("/articles", "id")).toEqual([4, 3, 2, 1]);
    expect(await column("/articles?order=asc", "id")).toEqual([4, 3, 2, 1].toReversed());
  });

  test("are sorted by the order of an enum", async () => {
    expect(await column("/articles?sort=status,id", "status")).toEqual(["DRAFT", "PUBLISHED", "PUBLISHED", "ARCHIVED"]);
  });

  test("are sorted by several fields, each in its own direction", async () => {
    expect(await column("/articles?sort=status:asc,title:desc", "id")).toEqual([3, 1, 2, 4]);
    expect(await column("/articles?sort=status:desc,title:asc", "id")).toEqual([4, 2, 1, 3]);
  });
});

test("pages of records with equal sort values do not overlap", async () => {
  await sql(
    "insert into users (name, email) select 'Twin', 'twin' || n || '@example.com' from generate_series(1, 40) as n",
  );
  for (const order of ["asc", "desc"]) {
    const ids: number[] = [];
    for (let page = 1; page <= 6; page++)
      ids.push(...(await column(`/api/v2/users?name=Twin&sort=name&order=${order}&limit=7&page=${page}`, "id")));
    const sorted = [...ids].sort((a, b) => (order === "asc" ? a - b : b - a));
    expect([ids.length, ids]).toEqual([40, sorted]);
  }
});
