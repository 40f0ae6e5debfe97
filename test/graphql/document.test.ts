import { buildSchema } from "postgraphile/graphql";
import { expect, test } from "vitest";
import { DocumentCache } from "../../graphql/document.ts";

const LIMITS = { depth: 15, complexity: 10_000, searches: 20, tokens: 100_000, brackets: 64, suggestions: false };
const newCache = () => new DocumentCache(buildSchema("type Query { a: Int }"), LIMITS);

/** Returns a document with this many fields. Other names give other documents. */
const documentOf = (count: number, name = "a") =>
  `{ ${Array.from({ length: count }, (_, i) => `${name}${i}: a`).join(" ")} }`;

test("a document that is in use is parsed once", () => {
  const cache = newCache();
  const first = cache.check("{ a }");
  expect(first).toHaveProperty("document");
  for (let i = 0; i < 1000; i++) {
    cache.check(documentOf(100, `x${i}_`));
    expect(cache.check("{ a }")).toBe(first);
  }
});

test("the least recently used documents are evicted when the total weight exceeds the limit", () => {
  const cache = newCache();
  const first = cache.check("{ a }");
  for (let i = 0; i < 4; i++) cache.check(documentOf(900, `x${i}_`));
  expect(cache.check("{ a }")).toBe(first);
  for (let i = 0; i < 6; i++) cache.check(documentOf(900, `y${i}_`));
  expect(cache.check("{ a }") === first).toBe(false);
});

test("a document that is heavier than the limit is not cached and evicts no other document", () => {
  const cache = newCache();
  const first = cache.check("{ a }");
  const heavy = cache.check(documentOf(9000));
  expect(cache.check(documentOf(9000)) === heavy).toBe(false);
  expect(cache.check("{ a }")).toBe(first);
});

test("an invalid document is not cached", () => {
  const cache = newCache();
  const refused = cache.check("{ b }");
  expect(refused).toHaveProperty("errors");
  expect(cache.check("{ b }") === refused).toBe(false);
});
