import { expect, test } from "vitest";
import { fieldsOf, itemsOf } from "../../../db/catalog/node-tree.ts";

test.each([
  ["{QUERY :a 1 :b true}", { a: "1", b: "true" }],
  ["{QUERY :list ({X :a 2} {Y :a 3}) :a 1}", { list: "({X :a 2} {Y :a 3})", a: "1" }],
  ["{QUERY :node {X :a {Y :b 2}} :a 1}", { node: "{X :a {Y :b 2}}", a: "1" }],
  ["{QUERY :none <> :a 1}", { none: "<>", a: "1" }],
  ["{QUERY :value 4 [ 1 0 0 0 ] :a 1}", { value: "4", a: "1" }],
  ["{QUERY :name \\ :a\\ 2\\{\\(\\) :a 1}", { name: "\\ :a\\ 2\\{\\(\\)", a: "1" }],
  ['{QUERY :names ("a\\ \\)" "b\\\\") :a 1}', { names: '("a\\ \\)" "b\\\\")', a: "1" }],
  ["{QUERY}", {}],
])("fieldsOf(%j) is %j", (node, fields) => expect(Object.fromEntries(fieldsOf(node))).toEqual(fields));

test.each([
  ["({A} {B :c ({D})})", ["{A}", "{B :c ({D})}"]],
  ["({A :name \\}\\)} {B})", ["{A :name \\}\\)}", "{B}"]],
  ["<>", []],
  ["()", []],
])("itemsOf(%j) is %j", (list, items) => expect(itemsOf(list)).toEqual(items));

test.each(["({A :b ({C", "{A :b (", "\\", ""])("the truncated tree %j is read to its end", (text) => {
  expect(itemsOf(text).length).toBeLessThanOrEqual(1);
  expect(fieldsOf(text).size).toBeLessThanOrEqual(1);
});
