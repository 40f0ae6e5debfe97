import { expect, test } from "vitest";
import { Memo } from "../../../rest-gateway/conventions/memo-cache.ts";

const make = (text: string) => ({ text });

test("what was made of a text is given again", () => {
  const memo = new Memo<object>();
  expect(memo.of("a", make)).toBe(memo.of("a", make));
});

test("texts that are used stay, others make way for new ones", () => {
  const memo = new Memo<object>();
  const used = memo.of("used", make);
  const unused = memo.of("unused", make);
  for (let i = 0; i < 10_000; i++) {
    memo.of(`other ${i}`, make);
    expect(memo.of("used", make)).toBe(used);
  }
  expect(memo.of("unused", make) === unused).toBe(false);
});

test("long texts are not kept", () => {
  const memo = new Memo<object>();
  const long = "a".repeat(5000);
  const first = memo.of(long, make);
  expect(memo.of(long, make) === first).toBe(false);
});

test("what is refused is not kept", () => {
  const memo = new Memo<object>();
  expect(() =>
    memo.of("a", () => {
      throw new Error("no");
    }),
  ).toThrow("no");
  expect(memo.of("a", make)).toEqual({ text: "a" });
});
