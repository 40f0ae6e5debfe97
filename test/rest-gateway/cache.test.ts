import { describe, expect, test } from "vitest";
import { parserCache, shapeCache } from "../../rest-gateway/cache.ts";

const CACHES = {
  "a parser cache": () => parserCache<{ length: number }>(),
  "a shape cache": () => shapeCache<{ length: number }>(({ length }) => length),
};
const compute = (length = 100) => ({ length });

describe.each(Object.entries(CACHES))("%s", (_name, create) => {
  test("returns the value that it computed for a text before", () => {
    const cache = create();
    const first = compute();
    expect(cache.getOrCompute("a", () => first)).toBe(first);
    expect(cache.getOrCompute("a", () => compute())).toBe(first);
    expect(cache.getOrCompute("b", () => compute())).not.toBe(first);
  });

  test("keeps entries that are used and evicts others", () => {
    const cache = create();
    const used = cache.getOrCompute("used", () => compute());
    const unused = cache.getOrCompute("unused", () => compute());
    for (let i = 0; i < 30_000; i++) {
      cache.getOrCompute(`other ${i}`, () => compute());
      expect(cache.getOrCompute("used", () => compute())).toBe(used);
    }
    expect(cache.getOrCompute("unused", () => compute())).not.toBe(unused);
  });

  test("does not cache a long text, which displaces nothing", () => {
    const cache = create();
    const long = "x".repeat(100_000);
    const other = cache.getOrCompute("other", () => compute());
    const first = cache.getOrCompute(long, () => compute());
    expect(cache.getOrCompute(long, () => compute())).not.toBe(first);
    for (let i = 0; i < 1000; i++) cache.getOrCompute(`${i}${long}`, () => compute());
    expect(cache.getOrCompute("other", () => compute())).toBe(other);
  });

  test("does not cache an error", () => {
    const cache = create();
    const fail = () => {
      throw new Error("not valid");
    };
    expect(() => cache.getOrCompute("a", fail)).toThrow("not valid");
    const first = compute();
    expect(cache.getOrCompute("a", () => first)).toBe(first);
  });
});

test("a shape cache holds a thousand ordinary shapes", () => {
  const cache = CACHES["a shape cache"]();
  const textOf = (i: number) => `${i} ${"x".repeat(500)}`;
  const all = Array.from({ length: 1000 }, (_, i) => cache.getOrCompute(textOf(i), () => compute(1000)));
  for (const [i, each] of all.entries()) expect(cache.getOrCompute(textOf(i), () => compute())).toBe(each);
});

test("a shape cache does not keep a long value, which displaces nothing", () => {
  const cache = CACHES["a shape cache"]();
  const other = cache.getOrCompute("other", () => compute());
  const first = cache.getOrCompute("x", () => compute(100_000));
  expect(cache.getOrCompute("x", () => compute(100_000))).not.toBe(first);
  for (let i = 0; i < 1000; i++) cache.getOrCompute(`${i}`, () => compute(100_000));
  expect(cache.getOrCompute("other", () => compute())).toBe(other);
});
