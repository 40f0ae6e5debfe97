import { expect, test } from "vitest";
import { Shapes } from "../../rest-gateway/shape-cache.ts";

/** What is made of a shape, which is as long as it says. */
const shapes = () => new Shapes<{ length: number }>(({ length }) => length);
const made = (length = 100) => ({ length });

test("what was made of a shape is given again", () => {
  const known = shapes();
  const first = made();
  expect(known.of("a", () => first)).toBe(first);
  expect(known.of("a", made)).toBe(first);
  expect(known.of("b", made) === first).toBe(false);
});

test("what is used stays, the rest makes way", () => {
  const known = shapes();
  const used = known.of("used", made);
  const unused = known.of("unused", made);
  for (let i = 0; i < 30_000; i++) {
    known.of(`other ${i}`, made);
    expect(known.of("used", made)).toBe(used);
  }
  expect(known.of("unused", made) === unused).toBe(false);
});

test("a thousand ordinary shapes are remembered", () => {
  const known = shapes();
  const all = Array.from({ length: 1000 }, (_, i) => known.of(`${i} ${"x".repeat(500)}`, () => made(1000)));
  for (const [i, each] of all.entries()) expect(known.of(`${i} ${"x".repeat(500)}`, made)).toBe(each);
});

test.each([
  ["whose text is long", "x".repeat(100_000), 100],
  ["of which much is made", "x", 100_000],
])("a shape %s is not remembered, and pushes nothing out", (_what, shape, length) => {
  const known = shapes();
  const other = known.of("other", made);
  const first = known.of(shape, () => made(length));
  expect(known.of(shape, () => made(length)) === first).toBe(false);
  for (let i = 0; i < 1000; i++) known.of(`${i}${shape}`, () => made(length));
  expect(known.of("other", made)).toBe(other);
});

test("what is refused is not remembered", () => {
  const known = shapes();
  const refuse = () => {
    throw new Error("no");
  };
  expect(() => known.of("a", refuse)).toThrow("no");
  const first = made();
  expect(known.of("a", () => first)).toBe(first);
});
