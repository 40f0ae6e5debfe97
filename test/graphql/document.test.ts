import { buildSchema } from "postgraphile/graphql";
import { describe, expect, test } from "vitest";
import { CacheMemory } from "../../cache/cache.ts";
import { DocumentCache } from "../../graphql/execute/document.ts";

const LIMITS = {
  ...{ graphqlMaxDepth: 15, graphqlMaxComplexity: 10_000, graphqlMaxSearches: 20, graphqlMaxTokens: 100_000 },
  ...{ restMaxPatterns: 20, restMaxPatternLength: 200, jsonMaxDepth: 64, embedded: false },
};
const SCHEMA = buildSchema("type Query { a: Int }");

/** `bytes` is cacheMemory. */
function newCache(bytes = Number.POSITIVE_INFINITY): DocumentCache {
  const memory = new CacheMemory();
  memory.limitTo(bytes);
  return new DocumentCache(SCHEMA, LIMITS, memory);
}

/** Returns a document with this many fields. Other names give other documents. */
const documentOf = (count: number, name = "a") =>
  `{ ${Array.from({ length: count }, (_, i) => `${name}${i}: a`).join(" ")} }`;

/** Checks the document as often as it takes until it is kept. */
function keep(cache: DocumentCache, text: string) {
  cache.check(text);
  return cache.check(text);
}

test("a document is kept from the second time on, also among ever new ones", () => {
  const cache = newCache();
  const kept = keep(cache, "{ a }");
  expect(kept).toHaveProperty("document");
  for (let i = 0; i < 200; i++) cache.check(documentOf(100, `x${i}_`));
  expect(cache.check("{ a }")).toBe(kept);
});

describe("with cacheMemory of 64 MB", () => {
  test("the least recently used documents are evicted", () => {
    const cache = newCache(64_000_000);
    const first = keep(cache, "{ a }");
    for (let i = 0; i < 4; i++) keep(cache, documentOf(500, `x${i}_`));
    expect(cache.check("{ a }")).toBe(first);
    for (let i = 0; i < 5; i++) keep(cache, documentOf(500, `y${i}_`));
    expect(cache.check("{ a }") === first).toBe(false);
  });

  test("a document with too many fields is not kept and evicts no other document", () => {
    const cache = newCache(64_000_000);
    const first = keep(cache, "{ a }");
    const heavy = keep(cache, documentOf(9000));
    expect(cache.check(documentOf(9000)) === heavy).toBe(false);
    expect(cache.check("{ a }")).toBe(first);
  });
});

test("an invalid document is not cached", () => {
  const cache = newCache();
  const refused = keep(cache, "{ b }");
  expect(refused).toHaveProperty("errors");
  expect(cache.check("{ b }") === refused).toBe(false);
});
