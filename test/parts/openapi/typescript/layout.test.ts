import { expect, test } from "vitest";
import { layOut } from "../../../../parts/openapi/typescript/layout.ts";
import {
  array,
  object,
  openObject,
  orNull,
  type Type,
  tuple,
  union,
} from "../../../../parts/openapi/typescript/type.ts";

const LONG = ["a".repeat(30), "b".repeat(30), "c".repeat(30)];

test.each<[Type, string]>([
  ["number", "number"],
  [union([]), "never"],
  [union(["string"]), "string"],
  [orNull("unknown"), "unknown"],
  [orNull("string"), "string | null"],
  [array("string"), "string[]"],
  [array(orNull("string")), "(string | null)[]"],
  [tuple([]), "[]"],
  [tuple(['"a"', '"b"']), '["a", "b"]'],
  [object([["a", "A", true]]), "{ a?: A }"],
  [
    object([
      ["user-id", "A"],
      ["b", "B"],
    ]),
    '{ "user-id": A; b: B }',
  ],
  [openObject([]), "{\n  [_ in never]: never\n}"],
  [openObject([["a", "A"]]), "{\n  a: A\n}"],
  [array(openObject([["a", "A"]])), "{\n  a: A\n}[]"],
  [orNull(openObject([["a", "A"]])), "{\n  a: A\n} | null"],
  [object([["a", openObject([["b", "B"]])]]), "{\n  a: {\n    b: B\n  }\n}"],
  [tuple(LONG), `[\n${LONG.map((part) => `  ${part},\n`).join("")}]`],
  [union(LONG), LONG.map((part) => `\n  | ${part}`).join("")],
  [array(union(LONG)), `(${LONG.map((part) => `\n  | ${part}`).join("")}\n)[]`],
  [object(LONG.map((name) => [name, "A"])), `{\n${LONG.map((name) => `  ${name}: A\n`).join("")}}`],
  [openObject([["a", union(LONG)]]), `{\n  a:${LONG.map((part) => `\n    | ${part}`).join("")}\n}`],
])("%j is formatted as Prettier does", (type, text) => expect(layOut(type, 0, 0)).toBe(text));

test("a line has at most 80 characters", () => {
  expect(layOut(union(["a", "b"]), 0, 75)).toBe("a | b");
  expect(layOut(union(["a", "b"]), 0, 76)).toBe("\n  | a\n  | b");
});
