import { describe, expect, test } from "vitest";
import { parse, problemOf } from "./parse.ts";

describe("Prefer", () => {
  const preferencesOf = (prefer: string) => parse("t", { headers: { prefer } }).preferences;
  const none = {
    resolution: null,
    missing: null,
    return: null,
    count: null,
    tx: null,
    handling: null,
    timezone: null,
    maxAffected: null,
    read: null,
    respondsAsync: false,
    invalid: [],
  };

  test.each([
    ["", {}],
    ["return=minimal", { return: "minimal" }],
    ["return=headers-only", { return: "headers-only" }],
    [
      "resolution=merge-duplicates, return=representation",
      { resolution: "merge-duplicates", return: "representation" },
    ],
    ["resolution=ignore-duplicates,missing=default", { resolution: "ignore-duplicates", missing: "default" }],
    ["missing=null;q=1, count=planned", { missing: "null", count: "planned" }],
    ["count=exact,tx=rollback,handling=lenient", { count: "exact", tx: "rollback", handling: "lenient" }],
    ["tx=commit , count = estimated", { tx: "commit", count: "estimated" }],
    ['timezone="America/New, York", max-affected=10', { timezone: "America/New, York", maxAffected: 10 }],
    ["read=primary", { read: "primary" }],
    ['Return="minimal", MAX-AFFECTED=0', { return: "minimal", maxAffected: 0 }],
    ["count=exact, count=planned", { count: "exact" }],
    ["count=all, count=exact", { count: "exact", invalid: ["count=all"] }],
    [
      "return=Minimal, max-affected=-1, timezone=, wait=10",
      {
        invalid: ["return=Minimal", "max-affected=-1", "timezone=", "wait=10"],
      },
    ],
    ["Respond-Async, count=exact", { respondsAsync: true, count: "exact" }],
    ["respond-async=yes", { invalid: ["respond-async=yes"] }],
    ['return="minimal, count=exact', { invalid: ['return="minimal, count=exact'] }],
    ["constructor=x, invalid=y", { invalid: ["constructor=x", "invalid=y"] }],
    [", ,handling=strict,", { handling: "strict" }],
  ] as [string, object][])("%j is parsed into its preferences", (text, preferences) => {
    expect(preferencesOf(text)).toEqual({ ...none, ...preferences });
  });

  test("handling=strict refuses unknown preferences", () => {
    expect(problemOf(() => preferencesOf("handling=strict, a=b, count=all"))).toMatchObject({
      status: 400,
      code: "PGRST122",
      details: "Invalid preferences: a=b, count=all",
    });
  });

  test("is empty without the header", () => {
    expect(parse("t").preferences).toEqual(none);
  });
});

describe("Accept", () => {
  const acceptOf = (accept: string) =>
    parse("t", { headers: { accept } }).accept.map(({ type, parameters }) =>
      [type, ...[...parameters].map(([name, value]) => `${name}=${value}`)].join(";"),
    );

  test.each([
    ["application/json", ["application/json"]],
    ["Text/CSV", ["text/csv"]],
    ["text/csv, application/json", ["text/csv", "application/json"]],
    ["text/csv;q=0.5, application/json", ["application/json", "text/csv"]],
    ["a/a;q=0.1,b/b;q=0.9,c/c;q=1.000,d/d;q=0", ["c/c", "b/b", "a/a"]],
    ["*/*, text/*, text/csv", ["text/csv", "text/*", "*/*"]], // more specific types come first
    ["application/vnd.pgrst.object+json;nulls=stripped", ["application/vnd.pgrst.object+json;nulls=stripped"]],
    [
      'application/vnd.pgrst.plan+json; for="text/csv"; options=analyze|buffers;',
      ["application/vnd.pgrst.plan+json;for=text/csv;options=analyze|buffers"],
    ],
    ['a/b; Z="x, \\"y\\"; z"; a=;q=0.3', ['a/b;a=;z=x, "y"; z']],
    ['nonsense, text/csv, a/b;c, d/e;q=2, f/g;h="', ["text/csv", "a/b", "f/g"]],
    ["", ["*/*"]],
    ["nonsense", ["nonsense"]],
    ["text/csv;q=0", ["*/*"]],
  ])("%j is parsed into media types in the order of preference", (text, types) => {
    expect(acceptOf(text)).toEqual(types);
  });

  test("is */* without the header", () => {
    expect(parse("t").accept).toEqual([{ type: "*/*", parameters: new Map() }]);
  });
});

describe("Range", () => {
  const rangeOf = (range: string, more: Readonly<Record<string, string>> = {}, method = "GET") =>
    parse("t", { method, headers: { range, ...more } }).range;

  test.each([
    ["0-9", { first: 0, last: 9 }],
    ["5-5", { first: 5, last: 5 }],
    ["10-", { first: 10, last: null }],
    ["items=0-9", { first: 0, last: 9 }],
    ["0-99999999999999999999", { first: 0, last: 999_999_999_999_999 }],
    ["bytes=0-9", null],
    ["0-9,20-29", null],
    ["-5", null],
    ["a-b", null],
    ["1.5-2", null],
    ["", null],
  ])("%j is parsed, or ignored if it is invalid", (text, range) => {
    expect(rangeOf(text)).toEqual(range);
  });

  test("has the unit items, and other units are ignored", () => {
    expect(rangeOf("0-9", { "range-unit": "items" })).toEqual({ first: 0, last: 9 });
    expect(rangeOf("0-9", { "range-unit": "bytes" })).toBeNull();
  });

  test("that ends before it begins is refused", () => {
    expect(problemOf(() => rangeOf("9-8"))).toMatchObject({ status: 416, code: "PGRST103" });
  });

  test("is ignored for other methods than GET", () => {
    for (const method of ["HEAD", "DELETE"]) expect(rangeOf("0-9", {}, method)).toBeNull();
    expect(parse("t").range).toBeNull();
  });
});
