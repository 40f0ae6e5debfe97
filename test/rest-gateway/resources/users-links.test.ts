import { beforeAll, describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { fill, idsOf, range, type User } from "./users.ts";

const client = useResources();
const { api, body, service } = client;
const TOTAL = 125;
beforeAll(() => fill(client, TOTAL));

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
    expect(headers.get("link")).toMatch(/limit=2/);
    expect(headers.get("link")).not.toContain("api_key");
  });
});
