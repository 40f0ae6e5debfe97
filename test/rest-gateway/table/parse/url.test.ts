import { expect, test } from "vitest";
import { parse, problemOf } from "./parse.ts";

test.each([
  ["users", { kind: "table", name: "users" }],
  ["rpc", { kind: "table", name: "rpc" }],
  ["rpc/add", { kind: "function", name: "add" }],
  ["f%C3%BC%20nf%2Fb", { kind: "table", name: "fü nf/b" }],
  ["rpc/a%22b", { kind: "function", name: 'a"b' }],
  ["a+b", { kind: "table", name: "a+b" }], // + is a space only in the query string
])("the path %s is a table or a function", (path, target) => {
  expect(parse(path).target).toEqual(target);
});

test.each(["", "users/", "users/1", "rpc/", "rpc/add/1", "/users"])("%j is not a valid path", (path) => {
  expect(problemOf(() => parse(path))).toMatchObject({ status: 404, code: "PGRST125" });
});

test.each([
  ["a%zz", 2], // not hexadecimal digits
  ["abc%ff", 4], // invalid UTF-8
  ["%ED%A0%80", 1], // a surrogate
  ["a%00", 2],
])("%s is refused with the position of the error", (path, character) => {
  const details = expect.stringMatching(new RegExp(`^at character ${character}: expected `));
  expect(problemOf(() => parse(path))).toMatchObject({ status: 400, code: "PGRST100", details });
});

test("every method of a table is accepted", () => {
  for (const method of ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"])
    expect(parse("users", { method, body: "{}" }).method).toBe(method);
});

test("other methods are refused with the allowed methods", () => {
  expect(problemOf(() => parse("users", { method: "TRACE" }))).toMatchObject({
    status: 405,
    code: "PGRST117",
    headers: { Allow: "OPTIONS,GET,HEAD,QUERY,POST,PUT,PATCH,DELETE" },
  });
});

test.each(["PUT", "PATCH", "DELETE"])("%s on a function is refused", (method) => {
  expect(problemOf(() => parse("rpc/add", { method }))).toMatchObject({ status: 405, code: "PGRST101" });
});

test("reads use Accept-Profile, and writes Content-Profile", () => {
  const headers = { "accept-profile": "a", "content-profile": "b" };
  for (const method of ["GET", "HEAD", "OPTIONS"]) expect(parse("users", { method, headers }).schema).toBe("a");
  for (const method of ["POST", "PATCH", "PUT", "DELETE"])
    expect(parse("users", { method, headers, body: "{}" }).schema).toBe("b");
  expect(parse("users").schema).toBeNull();
});

test("a profile is UTF-8, which Node returns as one character per byte", () => {
  expect(parse("users", { headers: { "accept-profile": "schÃ¼tz" } }).schema).toBe("schütz");
});

test("OPTIONS depends only on the target", () => {
  const headers = { prefer: "handling=strict, nonsense", accept: "text/csv", range: "9-1" };
  const parsed = parse("users?select=((&limit=-1", { method: "OPTIONS", headers });
  expect(parsed).toMatchObject({ method: "OPTIONS", target: { name: "users" }, body: null, range: null });
});
