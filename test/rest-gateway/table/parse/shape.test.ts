import fc from "fast-check";
import { expect, test } from "vitest";
import { Planner } from "../../../../rest-gateway/table/planner.ts";
import { samples } from "../../../support/samples.ts";
import { parse, problemOf } from "./parse.ts";

const shapeOf = (...args: Parameters<typeof parse>) => parse(...args).shape;

test.each([
  ["t?id=eq.1", "t?id=eq.2"],
  ["t?id=in.(1,2)", "t?id=in.(3)"],
  ["t?or=(a.eq.1,and(b.like.*x*,c.is.null))", "t?or=(a.eq.2,and(b.like.y,c.is.null))"],
  ["t?select=id,name", "t?select=+id+,+name"],
  ["t?select=*", "t"],
  ["t?select=", "t"],
  ["t?a=is.NULL", "t?a=is.null"],
  ["t?a=not.eq.1", "t?%61=not.eq.2"],
  ["rpc/f?a=1&b=2", "rpc/f?a=3&b=4"],
  ['t?"a"=eq.1', "t?a=eq.1"],
])("%s and %s have the same shape", (one, other) => {
  expect(shapeOf(one)).toBe(shapeOf(other));
});

test.each([
  ["t", "u"],
  ["t", "rpc/t"],
  ["t?a=eq.1", "t?b=eq.1"],
  ["t?a=eq.1", "t?a=gt.1"],
  ["t?a=eq.1", "t?a=not.eq.1"],
  ["t?a=eq.1", "t?a=eq(any).1"],
  ["t?a=eq(all).1", "t?a=eq(any).1"],
  ["t?a=fts.x", "t?a=fts(simple).x"],
  ["t?a=fts(english).x", "t?a=fts(simple).x"],
  ["t?a=is.null", "t?a=is.true"],
  ["t?a=eq.1", "t?a=eq.1&a=eq.1"],
  ["t?a=eq.1", "t?b.a=eq.1"],
  ["t?a->b=eq.1", "t?a->>b=eq.1"],
  ["t?a->1=eq.1", 't?a->"1"=eq.1'],
  ["t?and=(a.eq.1)", "t?or=(a.eq.1)"],
  ["t?and=(a.eq.1)", "t?not.and=(a.eq.1)"],
  ["t?and=(a.eq.1)", "t?a=eq.1"],
  ["t?and=(a.eq.1,b.eq.1)", "t?and=(a.eq.1)&and=(b.eq.1)"],
  ["t?limit=1", "t?limit=2"],
  ["t?offset=1", "t?limit=1"],
  ["t?a.limit=1", "t?limit=1"],
  ["t?order=a", "t?order=a.asc"],
  ["t?select=a", "t?select=b:a"],
  ["t?select=a()", "t?select=a"],
  ["t?columns=a", "t?columns=a,b"],
  ["t?columns=a", "t?on_conflict=a"],
  ["t?columns=a,b", 't?columns="a,b"'],
  ["rpc/f?a=1", "rpc/f?a=1&a=2"],
  ["rpc/f?a=1", "rpc/f?b=1"],
  ["rpc/f?a=1&b=1&a=1", "rpc/f?a=1&a=1&b=1"],
  ["rpc/f?a=1&b=eq.1", "rpc/f?b=eq.1&a=1"],
])("%s and %s have different shapes", (one, other) => {
  expect(shapeOf(one) === shapeOf(other)).toBe(false);
});

test.each([
  ["method", { method: "HEAD" }],
  ["profile", { headers: { "accept-profile": "s" } }],
  ["accept", { headers: { accept: "text/csv" } }],
  ["parameters of accept", { headers: { accept: "*/*;a=b" } }],
  ["preferences", { headers: { prefer: "count=exact" } }],
  ["range", { headers: { range: "0-9" } }],
])("the %s is part of the shape", (_, more) => {
  expect(shapeOf("t", more) === shapeOf("t")).toBe(false);
});

test("the columns of a body are part of the shape, but not its rows", () => {
  const ofBody = (body: string) => shapeOf("t", { method: "POST", body });
  expect(ofBody('[{"a":1,"b":2}]')).toBe(ofBody('[{"b":3,"a":"x"},{"a":null,"b":4}]'));
  const bodies = [
    "{}",
    "[]",
    '{"a":1}',
    '{"b":1}',
    '[{"a":1}]',
    '[{"a":1},{}]',
    "[1]",
    "1",
    '{"a\\",\\"b":1}',
    '{"a":1,"b":1}',
  ];
  expect(new Set(bodies.map(ofBody)).size).toBe(bodies.length);
});

/** Query strings of a few parameters, so that two of them often have the same shape. */
const search = fc
  .array(
    fc.constantFrom(
      "a=eq.1",
      "a=eq.2",
      '"a"=eq.1',
      "a=not.eq.1",
      "b.a=eq.1",
      "b.a=is.null",
      "or=(a.eq.1,b.eq.2)",
      "or=(a.eq.x)&or=(b.eq.y)",
      "and=(a.eq.1,b.eq.2)",
      "a=in.(1)",
      "a=in.(2,3)",
      "limit=1",
      "limit=2",
      "b.limit=1",
      "order=a",
      "order=%22a%22",
      "order=b(a)",
      "select=a",
      "select= a",
      "select=a,b(c)",
      "select=%22a,b(c)%22",
      "columns=a,b",
      "columns=%22a,b%22",
      "x=1",
      "x=2",
      "%22x%22=3",
      "y=1",
    ),
    { maxLength: 3 },
  )
  .map((pairs) => pairs.join("&"));

/** A request without its values. */
const withoutValues = ({ values, shape, ...rest }: ReturnType<typeof parse>) =>
  JSON.stringify(rest, (_, value) => (value instanceof Map ? [...value] : value));

test("two requests have the same shape if and only if they differ only in values", () => {
  let alike = 0;
  fc.assert(
    fc.property(search, search, (one, other) => {
      const [first, second] = [parse(`rpc/f?${one}`), parse(`rpc/f?${other}`)];
      const areAlike = withoutValues(first) === withoutValues(second);
      if (areAlike) alike++;
      expect(first.shape === second.shape).toBe(areAlike);
    }),
    { numRuns: samples(10_000) },
  );
  expect(alike).toBeGreaterThan(samples(10_000) / 100);
});

test("the shape contains no value", () => {
  const ofValues = (a: string, b: string) => {
    const [text, quoted] = [a, `"${b.replace(/["\\]/g, "\\$&")}"`].map(encodeURIComponent);
    const filters = `id=eq.${text}&b.name=not.like(any).${text}&c=in.(${quoted},1)&or=(d.gt.${quoted},e.is.null)`;
    return shapeOf(`rpc/f?${filters}&x=_${text}&x=_${quoted}`);
  };
  const value = fc.string({ unit: "grapheme" });
  fc.assert(
    fc.property(value, value, (a, b) => {
      expect(ofValues(a, b)).toBe(ofValues("", ""));
    }),
    { numRuns: samples(3000) },
  );
});

test("a request that is refused again and again is not planned again", () => {
  let lookups = 0;
  const schema = {
    name: "public",
    get tables() {
      lookups++;
      return new Map();
    },
  };
  const current = { schemas: new Map([["public", schema]]) } as never;
  const planner = new Planner({ catalog: { current }, planning: {} as never });
  for (let i = 0; i < 4; i++) expect(problemOf(() => planner.plan(parse("t"))).code).toBe("PGRST205");
  expect(lookups).toBe(2);
});
