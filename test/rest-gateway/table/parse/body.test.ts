import { expect, test } from "vitest";
import type { Body } from "../../../../rest-gateway/table/request.ts";
import { LIMITS, parse, problemOf } from "./parse.ts";

const CSV = "text/csv";
const FORM = "application/x-www-form-urlencoded";

function bodyOf(url: string, body: string | Buffer, type?: string, method = "POST"): Body | null {
  return parse(url, { method, body, headers: type === undefined ? {} : { "content-type": type } }).body;
}
const json = (text: string, more: Partial<Body>) => ({
  kind: "json",
  source: "json",
  text,
  isArray: false,
  keys: [],
  rows: 1,
  isOther: false,
  ...more,
});

test.each([
  ["{}", {}],
  ['{"b":1,"a":{"c":[]}}', { keys: ["a", "b"] }],
  [' {"a":1} \n', { keys: ["a"] }],
  ['{"a":1,"a":2}', { keys: ["a"] }],
  ['{"__proto__":1,"constructor":2}', { keys: ["__proto__", "constructor"] }],
  ["[]", { isArray: true, rows: 0 }],
  ['[{"a":1},{"a":2}]', { isArray: true, rows: 2, keys: ["a"] }],
  ['[{"b":1,"a":2},{"a":3,"b":4}]', { isArray: true, rows: 2, keys: ["a", "b"] }],
  ['[{"a":1},{"b":2}]', { isArray: true, rows: 2, keys: null }],
  ['[{"a":1},{"a":1,"b":2}]', { isArray: true, rows: 2, keys: null }],
  ['[{"toString":1},{"__proto__":1}]', { isArray: true, rows: 2, keys: null }],
  ['[{"__proto__":1},{"a":1}]', { isArray: true, rows: 2, keys: null }],
  ["[{},{}]", { isArray: true, rows: 2 }],
  ["[1]", { isArray: true, isOther: true, keys: null, rows: 0 }],
  ['[{"a":1},null]', { isArray: true, isOther: true, keys: null, rows: 0 }],
  ["[[]]", { isArray: true, isOther: true, keys: null, rows: 0 }],
  ["3", { isOther: true, keys: null, rows: 0 }],
  ["null", { isOther: true, keys: null, rows: 0 }],
  ['"ü"', { isOther: true, keys: null, rows: 0 }],
] as [string, Partial<Body>][])("%s is parsed as JSON with its keys and number of rows", (text, body) => {
  expect(bodyOf("t", text)).toEqual(json(text, body));
});

test.each([
  undefined,
  "application/json",
  "Application/JSON; Charset=UTF-8",
  'application/json;charset="utf-8"',
  "application/vnd.pgrst.object+json",
  "application/vnd.pgrst.array+json;nulls=stripped",
])("a body with Content-Type: %s is JSON", (type) => {
  expect(bodyOf("t", "{}", type)).toEqual(json("{}", {}));
});

test.each([
  ["", "the body is not valid JSON: "],
  [" ", "the body is not valid JSON: "],
  ["{", "the body is not valid JSON: "],
  ["{'a':1}", "the body is not valid JSON: "],
  ["\uFEFF{}", "the body is not valid JSON: "],
  ["NaN", "the body is not valid JSON: "],
  [Buffer.from([0x22, 0xff, 0x22]), "the body is not valid UTF-8"],
  ["[".repeat(6) + "]".repeat(6), "the body is nested more than 5 levels deep"],
  ["[".repeat(1_000_000), "the body is nested more than 5 levels deep"],
])("%j is refused as JSON", (text, details) => {
  const refused = { status: 400, code: "PGRST102", message: "Empty or invalid json" };
  for (const method of ["POST", "PATCH", "PUT"])
    expect(problemOf(() => bodyOf("t", text, undefined, method))).toMatchObject({
      ...refused,
      details: expect.stringContaining(details),
    });
});

test("brackets in strings do not count as levels", () => {
  expect(bodyOf("t", JSON.stringify({ a: "[".repeat(100) }))).toMatchObject({ keys: ["a"] });
  expect(bodyOf("t", "[".repeat(LIMITS.jsonMaxDepth) + "]".repeat(LIMITS.jsonMaxDepth))).toMatchObject({
    isOther: true,
  });
});

test("an empty body passes no arguments to a function", () => {
  expect(bodyOf("rpc/f", "")).toEqual(json("{}", {}));
  expect(parse("rpc/f", { method: "POST" }).body).toEqual(json("{}", {}));
  expect(problemOf(() => parse("t", { method: "POST" }))).toMatchObject({ code: "PGRST102" });
});

test("the body of methods without a body is ignored", () => {
  for (const method of ["GET", "HEAD", "DELETE", "OPTIONS"])
    expect(parse("t", { method, body: "nonsense", headers: { "content-type": "nonsense" } }).body).toBeNull();
});

test.each([
  [
    "id,name\n1,a\n2,b\n",
    [
      { id: "1", name: "a" },
      { id: "2", name: "b" },
    ],
  ],
  [
    "id,name\r\n1,a\r\n\r\n2,b",
    [
      { id: "1", name: "a" },
      { id: "2", name: "b" },
    ],
  ],
  ["\uFEFFid\r1\r2", [{ id: "1" }, { id: "2" }]],
  ['a,b,c\nNULL,"NULL",null', [{ a: null, b: "NULL", c: "null" }]],
  ['"a b","c""d"\n"x, y","line 1\nline ""2"""\n', [{ "a b": "x, y", 'c"d': 'line 1\nline "2"' }]],
  [
    "a,b\n,\n , x\n",
    [
      { a: "", b: "" },
      { a: " ", b: " x" },
    ],
  ],
  ['a\n""\n', [{ a: "" }]],
  ['a\nb"c"\n', [{ a: 'b"c"' }]],
  ['NULL\n"""x"""\n', [{ NULL: '"x"' }]],
  ["a\nü🙂\\\t\n", [{ a: "ü🙂\\\t" }]],
])("%j is parsed as CSV", (text, rows) => {
  const body = bodyOf("t", text, CSV);
  expect(body).toMatchObject({ kind: "json", isArray: true, rows: rows.length, keys: Object.keys(rows[0]!).sort() });
  expect(JSON.parse((body as any).text)).toEqual(rows);
});

test("CSV with only a header has no rows", () => {
  expect(bodyOf("t", "b,a\n", CSV)).toEqual(json("[]", { source: "csv", isArray: true, rows: 0, keys: ["a", "b"] }));
});

test.each([
  ["", "Empty or invalid csv", "the header is missing"],
  ["\n\n", "Empty or invalid csv", "the header is missing"],
  ["a,a\n1,2", "Empty or invalid csv", "the header names a column twice"],
  ['a\n"b\nc', "Empty or invalid csv", "a quote in line 2 is not closed"],
  ['a\n\n"b"c\n', "Empty or invalid csv", "unexpected text after a quoted field in line 3"],
  ["a,b\n1,2\n3\n", "All lines must have same number of fields", "line 3 has 1 fields, the header has 2"],
  ['a,b\n"1\n\n",2\n3,4,5\n', "All lines must have same number of fields", "line 5 has 3 fields, the header has 2"],
])("%j is refused as CSV", (text, message, details) => {
  expect(problemOf(() => bodyOf("t", text, CSV))).toMatchObject({ status: 400, code: "PGRST102", message, details });
});

test.each([
  ["a=1&b=x+y%21", { a: "1", b: "x y!" }],
  ["a&b=", { a: "", b: "" }],
  ["", {}],
  ["%22=%5C&__proto__=x", { '"': "\\", ["__proto__"]: "x" }],
])("%s is parsed as a form", (text, object) => {
  for (const url of ["t", "rpc/f"]) {
    const body = bodyOf(url, text, FORM);
    expect(body).toMatchObject({ kind: "json", isArray: false, rows: 1, keys: Object.keys(object).sort() });
    expect(JSON.parse((body as any).text)).toEqual(object);
  }
});

test("a form with a repeated name uses the last value, and passes all values to a function", () => {
  const object = (url: string) => JSON.parse((bodyOf(url, "a=1&b=2&a=3", FORM) as any).text);
  expect(object("t")).toEqual({ a: "3", b: "2" });
  expect(object("rpc/f")).toEqual({ a: ["1", "3"], b: "2" });
});

test.each(["a=%ff", "%00=1"])("%s is refused as a form", (text) => {
  expect(problemOf(() => bodyOf("t", text, FORM))).toMatchObject({
    status: 400,
    code: "PGRST102",
    message: "Empty or invalid form",
    details: expect.stringContaining("at character 1: expected "),
  });
});

test.each([
  ["t", CSV],
  ["t", FORM],
  ["rpc/f", "text/plain"],
  ["rpc/f", "text/xml"],
])("a body for %s with Content-Type: %s must be valid UTF-8", (url, type) => {
  expect(problemOf(() => bodyOf(url, Buffer.from([0x61, 0xff]), type))).toMatchObject({
    status: 400,
    code: "PGRST102",
  });
});

test.each<[type: string, text: string]>([
  ["text/plain", "häl\nlo"],
  ["text/xml; charset=utf-8", "<a>é</a>"],
  ["application/octet-stream", "\u0000\u0001"],
])("functions receive a body of type %s unchanged", (type, text) => {
  const bytes = Buffer.from(text);
  expect(bodyOf("rpc/f", bytes, type)).toEqual({ kind: "text", type: type.split(";")[0], bytes });
  expect(problemOf(() => bodyOf("t", bytes, type))).toMatchObject({ status: 415, code: "PGRST102" });
});

test.each([
  "text/html",
  "json",
  "",
  "application/json; charset=latin1",
  "text/csv; charset=utf-16",
  "constructor",
  "a/b",
])("a body of type %j is refused", (type) => {
  for (const url of ["t", "rpc/f"])
    expect(problemOf(() => bodyOf(url, "{}", type))).toMatchObject({
      status: 415,
      message: `Content-Type not acceptable: ${type}`,
    });
});

test("100,000 rows are parsed", () => {
  const rows = Array.from({ length: 100_000 }, (_, i) => ({ id: i, name: `name ${i}` }));
  expect(bodyOf("t", JSON.stringify(rows))).toMatchObject({ rows: 100_000, keys: ["id", "name"] });
});
