import { describe, expect, test } from "vitest";
import { parserCache, shapeCache } from "../../cache/cache.ts";

const CACHES = {
  "a parser cache": () => parserCache<{ length: number }>(),
  "a shape cache": () => shapeCache<{ length: number }>(({ length }) => length),
};
const compute = () => ({ length: 100 });

describe.each(Object.entries(CACHES))("%s", (_name, create) => {
  test("keeps the value of a text from the second time on", () => {
    const cache = create();
    cache.getOrCompute("a", compute);
    const second = cache.getOrCompute("a", compute);
    expect(cache.getOrCompute("a", compute)).toBe(second);
    expect(cache.getOrCompute("b", compute)).not.toBe(second);
  });

  test("keeps what comes again among ever new texts", () => {
    const cache = create();
    cache.getOrCompute("used", compute);
    const used = cache.getOrCompute("used", compute);
    for (let i = 0; i < 20_000; i++) cache.getOrCompute(`other ${i}`, compute);
    expect(cache.getOrCompute("used", compute)).toBe(used);
  });

  test("does not cache an error", () => {
    const cache = create();
    const fail = () => {
      throw new Error("not valid");
    };
    for (const _ of [1, 2]) expect(() => cache.getOrCompute("a", fail)).toThrow("not valid");
    const first = compute();
    expect(cache.getOrCompute("a", () => first)).toBe(first);
  });
});
