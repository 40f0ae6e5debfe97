import { describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const { rest, rows, failure } = useRest(
  { DB_SCHEMAS: "calls" },
  `create schema calls;
   create schema hidden;
   create type calls.color as enum ('red', 'green');
   create type calls.point as (x int, y int);
   create domain calls.positive as int check (value > 0);

   create function calls.add(a int, b int default 10) returns int language sql immutable return a + b;
   create function calls.greet(name text) returns text language sql stable return 'Hello ' || name;
   create function calls.one() returns int language sql stable return 1;
   create function calls.tick() returns int language sql volatile return 1;
   create function calls.optional(a int default 1, b int default 2) returns int[] language sql stable return array[a, b];
   create function calls."odd name"("odd arg" int, "select" text default 's', "Ünï" text default 'u') returns json
     language sql stable return json_build_array($1, $2, $3);

   create function calls.area(side int) returns text language sql stable return 'square';
   create function calls.area(width int, height int) returns text language sql stable return 'rectangle';
   create function calls.area(radius numeric) returns text language sql stable return 'circle';
   create function calls.twice(n int) returns int language sql stable return n * 2;
   create function calls.twice(n text) returns text language sql stable return n || n;

   create function calls.joined(separator text, variadic words text[]) returns text
     language sql stable return array_to_string(words, separator);
   create function calls.counted(variadic words text[] default '{}') returns int language sql stable return cardinality(words);
   create function calls.wrapped(mark text, repeat int default 1, variadic words text[] default '{}') returns text
     language sql stable return repeat(mark, repeat) || array_to_string(words, '');
   create function calls.total(numbers int[]) returns bigint language sql stable as 'select sum(n) from unnest(numbers) as n';
   create function calls.typed(c calls.color, p calls.positive, d date, j json) returns json
     language sql stable return json_build_array(c, p, d, json_typeof(j));
   create function calls.product(p calls.point) returns int language sql stable return p.x * p.y;
   create function calls.count_points(p calls.point[]) returns int language sql stable return cardinality(p);

   create function calls.take_json(json) returns json language sql stable return json_build_object('given', $1);
   create function calls.take_jsonb(jsonb) returns text language sql stable return jsonb_typeof($1);
   create function calls.take_text(text) returns text language sql stable return upper($1);
   create function calls.take_xml(xml) returns text language sql stable return (xpath('/a/text()', $1))[1]::text;
   create function calls.take_bytes(bytea) returns int language sql stable return length($1);
   create function calls.take_int(int) returns int language sql stable return $1;
   create function calls.twice(n bigint) returns bigint language sql stable return n * 2;
   create function calls.json_or_jsonb(jsonb) returns text language sql stable return 'jsonb';
   create function calls.json_or_jsonb(json) returns text language sql stable return 'json';
   create function calls.either(json) returns text language sql stable return 'json';
   create function calls.either(text) returns text language sql stable return 'text';
   create function calls.either(a int) returns text language sql stable return 'a';

   create function calls.secret() returns int language sql stable return 1;
   create function calls.on_change() returns trigger language plpgsql as 'begin return new; end';
   create procedure calls.proceed() language sql as 'select 1';
   create function hidden.hidden() returns int language sql stable return 1;

   grant usage on schema calls to anon, authenticated;
   grant execute on all functions in schema calls to anon, authenticated;
   revoke execute on function calls.secret() from anon, authenticated, public;`,
);

const GET = { method: "GET" };
const typed = (type: string, body: unknown) => ({ body, headers: { "content-type": type } });

describe("arguments:", () => {
  test.each<[path: string, body: unknown, result: unknown]>([
    ["add?a=1&b=2", { a: 1, b: 2 }, 3],
    ["add?b=2&a=1", { b: 2, a: 1 }, 3],
    ["add?a=1", { a: 1 }, 11],
    ["one", {}, 1],
    ["optional?b=5", { b: 5 }, [1, 5]],
    ["greet?name=", { name: "" }, "Hello "],
    ["greet?name=a%26b%3D%C3%A9+c", { name: "a&b=é c" }, "Hello a&b=é c"],
    ["total?numbers={1,2,3}", { numbers: [1, 2, 3] }, 6],
    ["total?numbers={}", { numbers: [] }, null],
    ["joined?separator=-&words=a&words=b,c", { separator: "-", words: ["a", "b,c"] }, "a-b,c"],
    ["joined?separator=-&words=a", { separator: "-", words: ["a"] }, "a"],
    ["counted", {}, 0],
    ["wrapped?mark=*", { mark: "*" }, "*"],
    ["wrapped?mark=*&repeat=1&words=a", { mark: "*", repeat: 1, words: ["a"] }, "*a"],
    ["wrapped?mark=*&repeat=2", { repeat: 2, mark: "*" }, "**"],
    ["wrapped?mark=*&words=a", { mark: "*", words: ["a"] }, "*a"],
    [
      'typed?c=red&p=5&d=2024-02-29&j={"a":1}',
      { c: "red", p: 5, d: "2024-02-29", j: { a: 1 } },
      ["red", 5, "2024-02-29", "object"],
    ],
    ["product?p=(2,3)", { p: { x: 2, y: 3 } }, 6],
    ['count_points?p={"(1,2)","(3,4)"}', { p: [{ x: 1, y: 2 }, { x: 3 }] }, 2],
    ["odd%20name?odd%20arg=5&%C3%9Cn%C3%AF=z", { "odd arg": 5, Ünï: "z" }, [5, "s", "z"]],
    ['odd%20name?odd%20arg=5&"select"=x', { "odd arg": 5, select: "x" }, [5, "x", "u"]],
  ])("GET rpc/%s and POST with %j return %j", async (path, body, result) => {
    expect(await rows(`rpc/${path}`)).toEqual(result);
    expect(await rows(`rpc/${path.split("?")[0]}`, { body })).toEqual(result);
  });

  test("null in a body is null and not the default", async () => {
    expect(await rows("rpc/add", { body: { a: 1, b: null } })).toBeNull();
  });

  test("in a query string, the last value of a repeated name applies", async () => {
    expect(await rows("rpc/add?a=1&a=5&b=2")).toBe(7);
  });

  test.each<[string, object]>([
    ["an empty body", { method: "POST" }],
    ["an empty body with Content-Type: application/json", { method: "POST", ...typed("application/json", "") }],
  ])("%s passes no arguments", async (_what, sent) => expect(await rows("rpc/one", sent)).toBe(1));

  test("a form passes text, and a repeated name as an array", async () => {
    const form = (text: string) => typed("application/x-www-form-urlencoded", text);
    expect(await rows("rpc/add", form("a=1&b=2"))).toBe(3);
    expect(await rows("rpc/joined", form("separator=%2B&words=a&words=b"))).toBe("a+b");
    expect(await rows("rpc/joined", form("separator=%2B&words={a,b}"))).toBe("{a,b}");
    expect(await rows("rpc/counted", form("words="))).toBe(1);
    expect(await rows("rpc/counted", form(""))).toBe(0);
  });

  test("CSV passes the values of its first row", async () => {
    expect(await rows("rpc/add", typed("text/csv", "a,b\n1,2\n5,6"))).toBe(3);
    expect(await failure("rpc/add", typed("text/csv", "a,b"))).toEqual([404, "PGRST202"]);
  });

  test("the first object of an array of objects applies", async () => {
    expect(
      await rows("rpc/add", {
        body: [
          { a: 1, b: 2 },
          { a: 5, b: 6 },
        ],
      }),
    ).toBe(3);
    expect(await failure("rpc/add", { body: [] })).toEqual([404, "PGRST202"]);
    expect(await failure("rpc/add", { body: [{ a: 1 }, { b: 2 }] })).toEqual([404, "PGRST202"]);
  });

  test("columns= selects the keys that are arguments", async () => {
    expect(await rows("rpc/add?columns=a", { body: { a: 1, other: 2 } })).toBe(11);
  });

  test.each<[string, unknown, status: number, code: string]>([
    ["add", { a: "x" }, 400, "22P02"],
    ["add", { a: 1.5 }, 400, "22P02"],
    ["typed", { c: "blue", p: 1, d: "2024-01-01", j: {} }, 400, "22P02"],
    ["typed", { c: "red", p: -1, d: "2024-01-01", j: {} }, 400, "23514"],
    ["typed", { c: "red", p: 1, d: "2024-02-30", j: {} }, 400, "22008"],
    ["add", "{bad", 400, "PGRST102"],
    ["add", "5", 404, "PGRST202"],
    ["add?a=1", { a: 1 }, 400, "PGRST100"],
  ])("POST rpc/%s with %j is refused: %i %s", async (path, body, status, code) => {
    expect(await failure(`rpc/${path}`, { body })).toEqual([status, code]);
  });

  test("for GET, an array is a Postgres literal and not a repeated name", async () => {
    expect(await failure("rpc/total?numbers=1&numbers=2")).toEqual([400, "22P02"]);
  });
});

describe("with overloaded functions", () => {
  test.each<[name: string, body: object, candidates: string]>([
    ["either", { "": "x" }, "calls.either(json), calls.either(text)"],
    ["json_or_jsonb", { b: 1 }, "calls.json_or_jsonb(json), calls.json_or_jsonb(jsonb)"],
    ["json_or_jsonb", [1], "calls.json_or_jsonb(json), calls.json_or_jsonb(jsonb)"],
    ["twice", { n: 1 }, "calls.twice(n => bigint), calls.twice(n => integer), calls.twice(n => text)"],
  ])("%s with the body %j is ambiguous, and the candidates are sorted by types", async (name, body, candidates) => {
    const { status, json } = await rest(`rpc/${name}`, { body });
    const message = `Could not choose the best candidate function between: ${candidates}`;
    expect([status, json.code, json.message]).toEqual([300, "PGRST203", message]);
  });

  test.each<[query: string, body: unknown, result: string]>([
    ["side=1", { side: 1 }, "square"],
    ["width=1&height=2", { height: 2, width: 1 }, "rectangle"],
    ["radius=1", { radius: 1 }, "circle"],
  ])("the argument names select the function, as for %s", async (query, body, result) => {
    expect(await rows(`rpc/area?${query}`)).toBe(result);
    expect(await rows("rpc/area", { body })).toBe(result);
  });

  test("a call of functions that differ only in types is ambiguous and returns 300", async () => {
    for (const sent of [GET, { body: { n: 1 } }]) {
      const { status, json } = await rest(sent === GET ? "rpc/twice?n=1" : "rpc/twice", sent);
      expect([status, json]).toEqual([
        300,
        {
          code: "PGRST203",
          message:
            "Could not choose the best candidate function between: calls.twice(n => bigint), calls.twice(n => integer), calls.twice(n => text)",
          details: null,
          hint: "Try renaming the parameters or the function itself in the database so function overloading can be resolved",
        },
      ]);
    }
  });

  test.each<[string, object, string]>([
    ["an object with the argument names", { body: { a: 1 } }, "a"],
    ["any other object", { body: { b: 1 } }, "json"],
    ["an array", { body: [1, 2] }, "json"],
    ["plain text", typed("text/plain", "x"), "text"],
  ])("the body selects the function by its named or unnamed argument, as for %s", async (_what, sent, result) => {
    expect(await rows("rpc/either", sent)).toBe(result);
  });
});

describe("a function with a single unnamed argument", () => {
  test.each<[name: string, type: string, body: string | Uint8Array, result: unknown]>([
    ["take_json", "application/json", '{"a": [1]}', { given: { a: [1] } }],
    ["take_json", "application/json", "[1, 2]", { given: [1, 2] }],
    ["take_json", "application/json", '[{"a":1},{"b":2}]', { given: [{ a: 1 }, { b: 2 }] }],
    ["take_json", "application/json", '"text"', { given: "text" }],
    ["take_json", "application/json", "null", { given: null }],
    ["take_json", "application/json", '{"": 1}', { given: { "": 1 } }],
    ["take_text", "application/json", '{"":"a"}', '{"":"A"}'],
    ["take_bytes", "application/json", '{"":"\\\\ü"}', 11],
    ["take_jsonb", "application/json", "5", "number"],
    ["take_text", "text/plain", "häl\nlo", "HÄL\nLO"],
    ["take_text", "text/plain", "", ""],
    ["take_xml", "text/xml", "<a>1</a>", "1"],
    ["take_bytes", "application/octet-stream", new Uint8Array([0, 255, 13]), 3],
  ])("such as %s accepts the whole body of type %s: %j", async (name, type, body, result) => {
    expect(await rows(`rpc/${name}`, { method: "POST", ...typed(type, body) })).toEqual(result);
  });

  test.each([
    ["take_text", "application/json", "{}"],
    ["take_json", "text/plain", "{}"],
    ["take_json", "text/csv", "a\n1\n"],
    ["take_json", "application/x-www-form-urlencoded", "a=1"],
    ["take_int", "application/json", '{"":5}'],
    ["take_bytes", "text/xml", "<a/>"],
    ["take_int", "application/json", "5"],
    ["add", "text/plain", "1"],
  ])("such as %s does not accept the type %s", async (name, type, body) => {
    expect(await failure(`rpc/${name}`, typed(type, body))).toEqual([404, "PGRST202"]);
  });

  test("cannot be called with GET", async () => expect(await failure("rpc/take_json")).toEqual([404, "PGRST202"]));

  test("refuses text that is not valid UTF-8", async () => {
    const sent = typed("text/plain", new Uint8Array([0x61, 0xff]));
    expect(await failure("rpc/take_text", { method: "POST", ...sent })).toEqual([400, "PGRST102"]);
  });

  test("refuses an unsupported type with 415", async () => {
    expect(await failure("rpc/take_text", typed("image/png", "x"))).toEqual([415, "PGRST102"]);
  });
});

describe("a function that does not exist or is not allowed:", () => {
  test.each<[path: string, body: unknown, message: string, details: string, hint: string | null]>([
    [
      "ad?a=1",
      undefined,
      "Could not find the function calls.ad(a) in the schema cache",
      "Searched for the function calls.ad with parameters a, but no matches were found in the schema cache.",
      "Perhaps you meant to call the function calls.add",
    ],
    [
      "greeet",
      {},
      "Could not find the function calls.greeet without parameters in the schema cache",
      "Searched for the function calls.greeet without parameters or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache.",
      "Perhaps you meant to call the function calls.greet",
    ],
    [
      "add",
      { c: 1, a: 1 },
      "Could not find the function calls.add(a, c) in the schema cache",
      "Searched for the function calls.add with parameters a, c or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache.",
      "It exists as calls.add(a => integer, b => integer)",
    ],
    [
      "take_int",
      [1],
      "Could not find the function calls.take_int in the schema cache",
      "Searched for the function calls.take_int with a single unnamed json/jsonb parameter, but no matches were found in the schema cache.",
      "It exists as calls.take_int(integer)",
    ],
  ])("rpc/%s with %j is 404 with a suggestion", async (path, body, message, details, hint) => {
    const { status, json } = await rest(`rpc/${path}`, body === undefined ? {} : { body });
    expect([status, json]).toEqual([404, { code: "PGRST202", message, details, hint }]);
  });

  test.each([
    "pg_sleep?seconds=0",
    "set_config?setting_name=role&new_value=postgres&is_local=true",
    "query_to_xml",
    "pg_read_file?filename=x",
    "hidden",
    "hidden.hidden",
    "on_change",
    "proceed",
    "constructor",
    "__proto__",
    "add;drop",
    "%22add%22",
  ])("rpc/%s, which is built in, in another schema or not a function, is 404", async (path) => {
    expect(await failure(`rpc/${path}`)).toEqual([404, "PGRST202"]);
    expect(await failure(`rpc/${path.split("?")[0]}`, { body: {} })).toEqual([404, "PGRST202"]);
  });

  test("a function without the execute privilege is 401 for anonymous callers and 403 for signed-in callers", async () => {
    expect(await failure("rpc/secret")).toEqual([401, "42501"]);
    expect(await failure("rpc/secret", { as: "ada" })).toEqual([403, "42501"]);
  });
});

describe("the methods of functions:", () => {
  test.each([
    ["one", "OPTIONS,GET,HEAD,QUERY,POST"],
    ["tick", "OPTIONS,POST"],
  ])("OPTIONS rpc/%s returns %s", async (name, allow) => {
    const { status, headers } = await rest(`rpc/${name}`, { method: "OPTIONS" });
    expect([status, headers.get("allow")]).toEqual([200, allow]);
  });

  test.each(["PUT", "PATCH", "DELETE"])("%s on a function is 405", async (method) => {
    const { status, json, headers } = await rest("rpc/one", { method });
    expect([status, json.code, headers.get("allow")]).toEqual([405, "PGRST101", "OPTIONS,GET,HEAD,QUERY,POST"]);
  });

  test("HEAD returns the headers of GET and no body", async () => {
    const get = await rest("rpc/add?a=1");
    const head = await rest("rpc/add?a=1", { method: "HEAD" });
    expect([head.status, head.text]).toEqual([200, ""]);
    for (const name of ["content-type", "content-range", "cache-control", "vary"])
      expect(head.headers.get(name)).toBe(get.headers.get(name));
  });
});
