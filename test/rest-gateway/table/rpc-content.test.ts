import { describe, expect, test } from "vitest";
import { type RestSent, useRest } from "../../support/rest-client.ts";
import type { DemoUser } from "../../support/service.ts";

const { rest, rows, failure } = useRest({ DB_TX_END: "commit-allow-override" });

type Caller = DemoUser | "anon" | "service";
const CALLERS: readonly Caller[] = ["anon", "ada", "bob", "admin", "service"];
const as = (caller: Caller): RestSent => (caller === "anon" ? {} : { as: caller });

/** The status, and the code of an error, of the call for each caller; each call is rolled back. Ada is the author of article 1. */
async function outcomes(name: string, body: object): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const caller of CALLERS) {
    const { status, json } = await rest(`rpc/${name}`, { ...as(caller), body, prefer: "tx=rollback" });
    found[caller] = [status, json?.code].filter(Boolean).join(" ");
  }
  return found;
}

const ALL = { anon: "200", ada: "200", bob: "200", admin: "200", service: "200" };
const SIGNED_IN = { anon: "401 42501", ada: "200", bob: "200", admin: "200" };
const AUTHOR = { anon: "401 42501", ada: "200", bob: "403 42501", admin: "200", service: "200" };
const MISSING = { anon: "401 42501", ada: "404 P0002", bob: "404 P0002", admin: "404 P0002", service: "404 P0002" };
const GONE = { anon: "401 42501", ada: "200", bob: "200", admin: "200", service: "200" };

describe("for each caller,", () => {
  test.each<[name: string, body: object, expected: object]>([
    ["search", { keyword: "engine" }, ALL],
    ["me", {}, { anon: "401 28000", ada: "200", bob: "200", admin: "200", service: "401 28000" }],
    ["create_user", { input: { name: "Dan", email: "dan@example.com" } }, ALL],
    ["create_article", { input: { title: "A new title", content: "Text." } }, ALL],
    ["update_article", { id: 1, input: { title: "Another title" } }, AUTHOR],
    ["publish_article", { id: 3 }, AUTHOR],
    ["delete_article", { id: 1 }, AUTHOR],
    ["create_comment", { article_id: 1, content: "I agree." }, { ...SIGNED_IN, service: "400 23502" }],
  ])("rpc/%s with %j succeeds or is refused by the policies", async (name, body, expected) =>
    expect(await outcomes(name, body)).toEqual(expected),
  );

  test.each<[name: string, body: object, expected: object]>([
    ["update_article", { id: 99, input: { title: "Another title" } }, MISSING],
    ["publish_article", { id: 99 }, MISSING],
    ["create_comment", { article_id: 99, content: "I agree." }, { ...MISSING, service: "400 23502" }],
    ["create_comment", { article_id: null, content: "I agree." }, { ...MISSING, anon: "404 P0002" }],
    ["delete_article", { id: 99 }, GONE],
  ])("rpc/%s with %j, which does not exist, is 404 or false", async (name, body, expected) => {
    expect(await outcomes(name, body)).toEqual(expected);
  });
});

describe("rpc", () => {
  test("search returns the articles, best match first, and accepts the parameters of a table", async () => {
    expect(await rows("rpc/search?keyword=ENGINE&select=id,title,users(name)")).toEqual([
      { id: 1, title: "Notes on the Analytical Engine", users: { name: "Ada Lovelace" } },
      { id: 3, title: "Computing Bernoulli numbers", users: { name: "Ada Lovelace" } },
    ]);
    expect(await rows("rpc/search?select=id&status=eq.DRAFT", { body: { keyword: "engine" } })).toEqual([{ id: 3 }]);
    const counted = await rest("rpc/search?keyword=history&select=id&limit=1", { prefer: "count=exact" });
    expect([counted.status, counted.headers.get("content-range")]).toEqual([206, "0-0/2"]);
  });

  test("create_article takes neither the id nor the author nor the times of the input", async () => {
    const chosen = { id: 7000, author_id: 2, created_at: "2001-01-01", updated_at: "2001-01-01" };
    const input = { title: "Punched cards", content: "Holes in a row.", ...chosen };
    const { article } = await rows("rpc/create_article", { as: "ada", body: { input } });
    expect(article).toMatchObject({ author_id: 1, title: "Punched cards", updated_at: null });
    expect([article.id === 7000, article.created_at.startsWith("2001")]).toEqual([false, false]);
  });

  test.each<[name: string, body: object, status: number, code: string]>([
    ["create_user", { input: {} }, 400, "23502"],
    ["create_user", { input: { name: "Eve", email: "none" } }, 400, "23514"],
    ["create_user", { input: { name: "Eve", email: "ADA@example.com" } }, 409, "23505"],
    // What a caller may not choose.
    ["create_user", { input: { name: "Eve", email: "e@test.example", id: 7 } }, 400, "428C9"],
    ["create_user", { input: { name: "Eve", email: "e@test.example", created_at: "2001-01-01" } }, 403, "42501"],
    ["create_user", { input: { name: "Eve", email: "e@test.example", updated_at: "2001-01-01" } }, 403, "42501"],
    ["create_user", { input: { name: "Eve", email: "e@test.example", avatar_url: "https://a.b" } }, 403, "42501"],
    ["update_article", { id: 1, input: { title: "Four" } }, 400, "23514"],
    ["create_comment", { article_id: 1, content: "" }, 400, "23514"],
    ["create_comment", { article_id: 1, content: null }, 400, "23502"],
  ])("%s of %j is refused", async (name, body, status, code) => {
    expect(await failure(`rpc/${name}`, { body, as: "ada" })).toEqual([status, code]);
  });
});
