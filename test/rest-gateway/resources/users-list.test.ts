import { beforeAll, describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { fill, idsOf, range, type User } from "./users.ts";

const client = useResources();
const { api, body, service } = client;
const TOTAL = 125;
beforeAll(() => fill(client, TOTAL));

describe("GET /users is an array in the order of ids", () => {
  test.each<[query: string, first: number, last: number]>([
    ["", 1, 10],
    ["?", 1, 10],
    ["?skip=0", 1, 10],
    ["?skip=10", 11, 20],
    ["?limit=3", 1, 3],
    ["?skip=3&limit=2", 4, 5],
    ["?limit=2&skip=0007", 8, 9],
    ["?limit=100", 1, 100],
    ["?limit=101", 1, 100],
    ["?limit=99999999999999999999999999", 1, 100],
    ["?skip=120&limit=100", 121, 125],
    ["?skip=124", 125, 125],
    ["?skip=125", 1, 0],
    ["?skip=99999999999999999999999999", 1, 0],
    ["?skip=1000000000000000&limit=100", 1, 0],
    ["?limit=0", 1, 0],
    ["?skip=5&limit=0", 1, 0],
  ])("%s", async (query, first, last) => {
    const { status, json, headers } = await api(`/users${query}`);
    expect([status, idsOf(json), headers.get("x-total-count")]).toEqual([200, range(first, last), "125"]);
  });

  test("of users with the contract's fields", async () => {
    expect((await body("/users?limit=1"))[0]).toEqual(await body("/users/1"));
  });
});

describe("page and size give a page object that counts from 0", () => {
  test.each<[query: string, page: number, size: number, first: number, last: number]>([
    ["page=0", 0, 10, 1, 10],
    ["page=2", 2, 10, 21, 30],
    ["size=3", 0, 3, 1, 3],
    ["page=1&size=3", 1, 3, 4, 6],
    ["size=50&page=2", 2, 50, 101, 125],
    ["page=1&size=1000", 1, 100, 101, 125],
    ["page=12", 12, 10, 121, 125],
    ["page=13", 13, 10, 1, 0],
    ["page=999999999999999&size=100", 999999999999999, 100, 1, 0],
  ])("%s", async (query, page, size, first, last) => {
    const { json, headers } = await api(`/users?${query}`);
    const { content, ...more } = json;
    expect(idsOf(content)).toEqual(range(first, last));
    expect(more).toEqual({ page, size, totalElements: TOTAL, totalPages: Math.ceil(TOTAL / size) });
    expect(headers.get("x-total-count")).toBe("125");
  });
});

describe("page and limit give the envelope, and count from 1", () => {
  test.each<[query: string, page: number, limit: number, first: number, last: number]>([
    ["page=1&limit=20", 1, 20, 1, 20],
    ["page=3&limit=20", 3, 20, 41, 60],
    ["page=2&limit=500", 2, 100, 101, 125],
    ["page=13&limit=10", 13, 10, 121, 125],
    ["page=14&limit=10", 14, 10, 1, 0],
  ])("%s", async (query, page, limit, first, last) => {
    const { data, pagination, links } = await body(`/users?${query}`);
    expect(idsOf(data)).toEqual(range(first, last));
    expect(pagination).toEqual({ page, limit, total: TOTAL, totalPages: Math.ceil(TOTAL / limit) });
    expect(Object.keys(links)).toEqual(["first", "prev", "next", "last"]);
  });

  test("links are URLs, or null if there is no such page", async () => {
    const at = (page: number) => `/users?page=${page}&limit=50`;
    const linksOf = async (page: number) => (await body(at(page))).links;
    expect(await linksOf(1)).toEqual({ first: at(1), prev: null, next: at(2), last: at(3) });
    expect(await linksOf(2)).toEqual({ first: at(1), prev: at(1), next: at(3), last: at(3) });
    expect(await linksOf(3)).toEqual({ first: at(1), prev: at(2), next: null, last: at(3) });
    expect(await linksOf(9)).toEqual({ first: at(1), prev: at(3), next: null, last: at(3) });
  });
});

describe("dialect=envelope gives data and pagination with skip, limit and total", () => {
  test.each<[query: string, skip: number, limit: number, first: number, last: number]>([
    ["", 0, 10, 1, 10],
    ["?skip=120", 120, 10, 121, 125],
    ["?skip=7&limit=2", 7, 2, 8, 9],
    ["?limit=0", 0, 0, 1, 0],
  ])("%s", async (query, skip, limit, first, last) => {
    const { json, headers } = await api(`/users${query}`, { prefer: "dialect=envelope" });
    expect(headers.get("preference-applied")).toBe("dialect=envelope");
    expect(json).toEqual({ data: json.data, pagination: { skip, limit, total: TOTAL } });
    expect(idsOf(json.data)).toEqual(range(first, last));
  });
});

/** `rel="next"` → its address. */
const linksOf = (headers: Headers): Readonly<Record<string, string>> =>
  Object.fromEntries(
    [...(headers.get("link") ?? "").matchAll(/<([^>]*)>; rel="(\w+)"/g)].map(([, href, rel]) => [rel, href]),
  );

/** The records of a list in any of its forms. */
const recordsOf = (list: any): readonly User[] => (Array.isArray(list) ? list : (list.data ?? list.content));

describe("the header Link leads through the whole list, each user once", () => {
  test.each<[query: string, prefer?: string]>([
    ["", undefined],
    ["?limit=7", undefined],
    ["?limit=50&skip=0", undefined],
    ["?page=0", undefined],
    ["?size=30", undefined],
    ["?page=0&size=125", undefined],
    ["?page=1&limit=20", undefined],
    ["?page=1&limit=25", undefined],
    ["", "dialect=envelope"],
    ["?sort=name&order=desc&limit=40", undefined],
    ["?keyword=user&limit=40", undefined],
  ])("%s %s", async (query, prefer) => {
    const seen: User[] = [];
    let path: string | undefined = `/users${query}`;
    let previous: string | undefined;
    while (path !== undefined) {
      const { json, headers } = await api(path, prefer ? { prefer } : {});
      const { next, prev, first, last } = linksOf(headers);
      expect([first, last]).not.toContain(undefined);
      if (previous !== undefined) expect(await same(prev!, previous, prefer)).toBe(true);
      seen.push(...recordsOf(json));
      previous = path;
      path = next;
    }
    const expected = query.includes("keyword") ? range(5, TOTAL) : range(1, TOTAL);
    expect(idsOf(seen).toSorted((a, b) => a - b)).toEqual(expected);
  });

  /** Whether two addresses have the same users. */
  async function same(one: string, other: string, prefer?: string): Promise<boolean> {
    const [a, b] = await Promise.all([one, other].map((path) => body(path, prefer ? { prefer } : {})));
    return idsOf(recordsOf(a)).join() === idsOf(recordsOf(b)).join();
  }

  test("from the middle of a page in both directions", async () => {
    const { headers } = await api("/users?skip=15&limit=10");
    const { next, prev, first, last } = linksOf(headers);
    expect({ next, prev, first, last }).toEqual({
      next: "/users?skip=25&limit=10",
      prev: "/users?skip=5&limit=10",
      first: "/users?skip=0&limit=10",
      last: "/users?skip=120&limit=10",
    });
    expect(linksOf((await api(prev!)).headers).prev).toBe("/users?skip=0&limit=10");
  });

  test("and beyond the end the previous page is the last one", async () => {
    expect(linksOf((await api("/users?skip=500&limit=10")).headers)).toEqual({
      first: "/users?skip=0&limit=10",
      prev: "/users?skip=120&limit=10",
      last: "/users?skip=120&limit=10",
    });
  });

  test("and not with a limit of 0", async () => {
    expect((await api("/users?limit=0")).headers.get("link")).toBe(null);
  });

  test("without the API key of the URL", async () => {
    const key = service().service.tokens.issueKey("anon");
    const { headers } = await api(`/users?api_key=${key}&limit=2`);
    expect((await api(`/users?apikey=${key}&limit=2`)).headers.get("link")).toBe(headers.get("link"));
    expect(headers.get("link")).toMatch(/limit=2/);
    expect(headers.get("link")).not.toContain("api_key");
  });
});
