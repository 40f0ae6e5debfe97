import { beforeAll, describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";

const { body, failure, sql } = useResources();
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

test.each([
  ["sort=nope", 'cannot sort users by "nope": use id, name, email, age, created'],
  ["sort=", 'cannot sort users by ""'],
  ["sort=name,", 'cannot sort users by ""'],
  ["sort=avatar_url", 'cannot sort users by "avatar_url"'],
  ["sort=name:up", 'the direction in sort must be asc or desc, not "up"'],
  ["sort=name:", 'the direction in sort must be asc or desc, not ""'],
  ["sort=name:DESC", 'the direction in sort must be asc or desc, not "DESC"'],
  ["sort=name:asc:desc", 'cannot sort users by "name:asc:desc"'],
  ["sort=name,name:desc", "sort must not name a field twice"],
  ["sort=created_at,createdAt", "sort must not name a field twice"],
  ["sort=-name", 'cannot sort users by "-name"'],
  ["sort=name%20desc", 'cannot sort users by "name desc"'],
  ["sort=id;drop table users", "cannot sort users by"],
  ["order=up", 'the direction in order must be asc or desc, not "up"'],
  ["order=", 'the direction in order must be asc or desc, not ""'],
])("?%s is 400", async (search, message) => {
  for (const path of ["/users", "/api/v2/users"]) {
    const [status, code, received] = await failure(`${path}?${search}`);
    expect([status, code]).toEqual([400, "BAD_REQUEST"]);
    expect(received).toContain(message);
  }
});

test("the error lists the fields in the spelling of the version", async () => {
  const received = async (path: string) => (await failure(path))[2];
  expect(await received("/users?sort=nope")).toMatch(/use id, name, email, age, created_at, updated_at, each/);
  expect(await received("/api/v2/users?sort=nope")).toMatch(/use id, name, email, age, createdAt, updatedAt, each/);
  expect(await received("/articles?nope=1")).toMatch(/tag, created_after, created_before, version/);
  expect(await received("/api/v2/articles?nope=1")).toMatch(/tag, createdAfter, createdBefore, version/);
});

test("articles and comments cannot be sorted by their other fields", async () => {
  expect((await failure("/articles?sort=content"))[0]).toBe(400);
  expect((await failure("/comments?sort=content"))[0]).toBe(400);
});
