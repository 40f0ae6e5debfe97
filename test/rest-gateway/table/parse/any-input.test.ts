import fc from "fast-check";
import { expect, test } from "vitest";
import { Problem } from "../../../../problems/problem.ts";
import { samples } from "../../../support/samples.ts";
import { parse } from "./parse.ts";

/** Any code units, including lone surrogates and NUL. */
const anything = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
);

/** Tokens of the grammars in any order. */
const words = fc
  .array(
    fc.constantFrom(
      ...[
        "a",
        "b c",
        "count",
        "count()",
        "1",
        "-1",
        "0-",
        "*",
        " ",
        "\t",
        "ü",
        "🙂",
        "%",
        "%2",
        "%00",
        "%ff",
        "+",
        "&",
        "=",
      ],
      ...["(", ")", ",", ".", ":", "::", "!", "...", "->", "->>", "-", '"', "\\", "{", "}", "[", "]", ";", "/", "\n"],
      ..."not. and or and( or( eq. in.( is. null like(any). fts(x). (all) isdistinct.".split(" "),
      ...["sum()", ".sum()", "inner", ".desc", ".nullsfirst", "limit", "q=0.5", "handling=strict", "__proto__", "rpc/"],
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(""));

const input = fc.oneof(anything, words, words);
const encode = (text: string) => encodeURIComponent(text.toWellFormed());

/** All parts of a request that contain text of the client. */
const PLACES: Readonly<Record<string, (text: string) => Parameters<typeof parse>>> = {
  method: (text) => ["t", { method: text }],
  path: (text) => [text],
  table: (text) => [encode(text)],
  "query string": (text) => [`t?${text}`],
  "query string of a function": (text) => [`rpc/f?${text}`],
  "name of a parameter": (text) => [`t?${encode(text)}=eq.1`],
  "name of an argument": (text) => [`rpc/f?${encode(text)}=1`],
  argument: (text) => [`rpc/f?a=${encode(text)}`],
  filter: (text) => [`t?a=${encode(text)}`],
  list: (text) => [`t?a=in.(${encode(text)}`],
  "logic tree": (text) => [`t?or=${encode(text)}`],
  condition: (text) => [`t?not.and=(a.${encode(text)})`],
  select: (text) => [`t?select=${encode(text)}`],
  embed: (text) => [`t?select=a(${encode(text)})`],
  order: (text) => [`t?order=${encode(text)}`],
  limit: (text) => [`t?limit=${encode(text)}`],
  offset: (text) => [`t?a.offset=${encode(text)}`],
  columns: (text) => [`t?columns=${encode(text)}`],
  on_conflict: (text) => [`t?on_conflict=${encode(text)}`],
  Accept: (text) => ["t", { headers: { accept: text } }],
  Prefer: (text) => ["t", { headers: { prefer: text } }],
  Range: (text) => ["t", { headers: { range: text } }],
  "Accept-Profile": (text) => ["t", { headers: { "accept-profile": text } }],
  "Content-Type": (text) => ["rpc/f", { method: "POST", headers: { "content-type": text } }],
  JSON: (text) => ["t", { method: "POST", body: text }],
  CSV: (text) => ["t", { method: "PATCH", body: text, headers: { "content-type": "text/csv" } }],
  form: (text) => [
    "t",
    { method: "PUT", body: text, headers: { "content-type": "application/x-www-form-urlencoded" } },
  ],
};

test.each(Object.keys(PLACES))("any text as %s is parsed, or refused with a 4xx", (place) => {
  fc.assert(
    fc.property(input, (text) => {
      try {
        expect(parse(...PLACES[place]!(text)).shape).toBeTypeOf("string");
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        expect(error.status).toBeGreaterThanOrEqual(400);
        expect(error.status).toBeLessThan(500);
      }
    }),
    { numRuns: samples(2000) },
  );
});

test("parsed texts are valid in Postgres, without NUL and lone surrogates", () => {
  fc.assert(
    fc.property(input, (text) => {
      try {
        const { query, values } = parse(`rpc/f?${text}&x=_${text}`);
        for (const each of [...values, ...query.arguments.keys()])
          expect(each.isWellFormed() && !each.includes("\0")).toBe(true);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
      }
    }),
    { numRuns: samples(5000) },
  );
});
