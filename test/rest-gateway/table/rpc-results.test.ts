import { describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const { rest, rows, failure, service, sql } = useRest(
  { DB_SCHEMAS: "results", DB_MAX_ROWS: "100" },
  `create schema results;
   create type results.point as (x int, y int);
   create domain results.money as numeric(8, 2);
   create table results.tools (id int primary key, name text not null, kind text);
   create table results.parts (id int primary key, tool_id int references results.tools, label text);
   insert into results.tools values (1, 'anvil', 'heavy'), (2, 'bolt', null), (3, 'clamp', null);
   insert into results.parts values (1, 1, 'head'), (2, 1, 'base'), (3, 2, 'thread');
   create domain results.tool as results.tools;
   create table results.log (id int generated always as identity primary key, what text);
   create sequence results.calls;
   create domain results."text/html" as text;
   create domain results."text/plain" as text;
   create domain results."image/png" as bytea;
   create domain results."*/*" as bytea;

   create function results.label(results.tools) returns text language sql stable return $1.name || '!';

   create function results.number() returns int language sql stable return 7;
   create function results.no_number() returns int language sql stable return null::int;
   create function results.words() returns text language sql stable return 'häl"lo';
   create function results.no_words() returns text language sql stable return null::text;
   create function results.amount() returns results.money language sql stable return 1.5;
   create function results.array() returns int[] language sql stable return array[1, 2];
   create function results.document() returns json language sql stable return '{"a": 1, "b": null}'::json;
   create function results.no_document() returns json language sql stable return null::json;
   create function results.markup() returns xml language sql stable return '<a>1</a>'::xml;
   create function results.bytes() returns bytea language sql stable return '\\x00ff'::bytea;
   create function results.nothing() returns void language sql stable as 'select';
   create function results.numbers(upto int) returns setof int language sql stable as 'select generate_series(1, upto)';
   create function results.texts() returns setof text language sql stable as $$ values ('a'), (null), ('b') $$;

   create function results.point() returns results.point language sql stable return row(1, 2)::results.point;
   create function results.no_point() returns results.point language sql stable return null::results.point;
   create function results.points() returns setof results.point language sql stable
     as 'select (n, n * n)::results.point from generate_series(1, 4) as n';
   create function results.divided(a int, b int, out quotient int, out remainder int) language sql stable
     as 'select a / b, a % b';
   create function results.swapped(inout a int, inout b text) language sql stable as $$ select b::int, a::text $$;
   create function results.one_out(out total int) language sql stable as 'select 5';
   create function results.squares(upto int) returns table (n int, square int) language sql stable
     as 'select n, n * n from generate_series(1, upto) as n';
   create function results.loose() returns record language sql stable as $$ select 1 as a, 'x'::text as b $$;
   create function results.loose_set() returns setof record language sql stable as 'select id, name from results.tools';

   create function results.tool(id int) returns results.tools language sql stable
     as 'select t.* from results.tools as t where t.id = tool.id';
   create function results.tools_from(first int default 1) returns setof results.tools language sql stable
     as 'select * from results.tools where id >= first';
   create function results.domain_tools() returns setof results.tool language sql stable
     as 'select t::results.tool from results.tools as t';

   create function results.next() returns bigint language sql volatile return nextval('results.calls');
   create function results.next_rows() returns table (n bigint) language sql volatile as $$ select nextval('results.calls') $$;
   create function results.next_values() returns setof bigint language sql volatile as $$ select nextval('results.calls') $$;
   create function results.write(what text) returns results.log language sql volatile
     as 'insert into results.log (what) values (what) returning *';
   create function results.write_many(count int) returns setof results.log language sql volatile
     as $$ insert into results.log (what) select 'many' from generate_series(1, count) returning * $$;
   create function results.write_values(count int) returns setof int language sql volatile
     as $$ insert into results.log (what) select 'value' from generate_series(1, count) returning id $$;
   create function results.write_quietly() returns void language sql volatile
     as $$ insert into results.log (what) values ('quietly') $$;
   create function results.sly_write() returns int language plpgsql stable
     as $$ begin execute 'insert into results.log (what) values (''sly'')'; return 1; end $$;
   create function results.access() returns text language sql stable return current_setting('transaction_read_only');
   create function results.access_volatile() returns text language sql volatile return current_setting('transaction_read_only');
   create function results.refuse() returns void language plpgsql stable as $$ begin raise 'refused'; end $$;
   create function results.refuse_number() returns int language plpgsql stable as $$ begin raise 'refused'; end $$;
   create function results.refuse_record() returns record language plpgsql stable as $$ begin raise 'refused'; end $$;

   create function results.page() returns results."text/html" language sql stable return '<b>hé</b>';
   create function results.plain() returns results."text/plain" language sql stable return 'hé';
   create function results.picture() returns results."image/png" language sql stable return '\\x89504e'::bytea;
   create function results.anything() returns results."*/*" language sql stable return '\\x616e79'::bytea;

   grant usage on schema results to anon;
   grant all on all tables in schema results to anon;
   grant usage on all sequences in schema results to anon;
   grant execute on all functions in schema results to anon;`,
);

const OBJECT = "application/vnd.pgrst.object+json";
const accept = (type: string) => ({ headers: { accept: type } });
const log = () => sql("select what from results.log order by id");

describe("a value", () => {
  test.each<[call: string, text: string]>([
    ["number", "7"],
    ["words", '"häl\\"lo"'],
    ["amount", "1.50"],
    ["array", "[1,2]"],
    ["document", '{"a": 1, "b": null}'],
    ["markup", '"<a>1</a>"'],
    ["bytes", '"\\\\x00ff"'],
    ["no_number", "null"],
    ["no_words", "null"],
    ["no_document", "null"],
  ])("of rpc/%s is bare JSON: %s", async (call, text) => {
    for (const method of ["GET", "POST"]) {
      const answer = await rest(`rpc/${call}`, { method });
      expect([answer.status, answer.text]).toEqual([200, text]);
      expect(answer.headers.get("content-type")).toBe("application/json; charset=utf-8");
      expect(answer.headers.get("content-range")).toBe("0-0/*");
    }
  });

  test("is the same as a single object, and nulls are stripped inside it", async () => {
    expect((await rest("rpc/number", accept(OBJECT))).text).toBe("7");
    expect((await rest("rpc/document", accept(`${OBJECT};nulls=stripped`))).text).toBe('{"a":1}');
  });

  test("counts as one row, whatever limit and offset are", async () => {
    const answer = await rest("rpc/number?limit=0&offset=5", { prefer: "count=exact" });
    expect([answer.status, answer.text, answer.headers.get("content-range")]).toEqual([200, "7", "0-0/1"]);
  });

  test.each([
    "number?select=a",
    "number?select=count()",
    "number?a=eq.1",
    "number?order=a",
    "number?pgrst_scalar=eq.1",
  ])("has no columns to select, filter or order by, so rpc/%s is 400", async (call) =>
    expect(await failure(`rpc/${call}`)).toEqual([400, "42703"]),
  );

  test("has no relations", async () => {
    expect(await failure("rpc/number?select=parts(*)")).toEqual([400, "PGRST200"]);
  });
});

describe("the response of a void function", () => {
  test.each(["GET", "POST", "HEAD"])("to %s is 204 without Content-Type for every Accept", async (method) => {
    for (const type of ["*/*", "text/csv", OBJECT, "image/png"]) {
      const { status, text, headers } = await rest("rpc/nothing", { method, ...accept(type) });
      expect([status, text, headers.get("content-type"), headers.get("content-length")]).toEqual([204, "", null, null]);
    }
  });

  test("has no columns to filter by", async () => {
    expect(await failure("rpc/nothing?a=eq.1")).toEqual([400, "42703"]);
    expect(await failure("rpc/nothing?select=a")).toEqual([400, "42703"]);
  });
});

test.each(["refuse", "refuse_number", "refuse_record"])(
  "the function %s runs although the response contains nothing of its result",
  async (name) => {
    expect((await rest(`rpc/${name}`, { method: "HEAD" })).status).toBe(400);
    expect(await failure(`rpc/${name}`)).toEqual([400, "P0001"]);
    expect(await failure(`rpc/${name}`, { method: "POST" })).toEqual([400, "P0001"]);
  },
);

describe("a set of values", () => {
  test("is an array", async () => {
    expect(await rows("rpc/numbers?upto=3")).toEqual([1, 2, 3]);
    expect(await rows("rpc/numbers", { body: { upto: 3 } })).toEqual([1, 2, 3]);
    expect(await rows("rpc/numbers?upto=0")).toEqual([]);
    expect(await rows("rpc/texts")).toEqual(["a", null, "b"]);
    expect(await rows("rpc/numbers?upto=2&select=*")).toEqual([1, 2]);
  });

  test("has pages and counts", async () => {
    const { status, json, headers } = await rest("rpc/numbers?upto=5&limit=2&offset=1", { prefer: "count=exact" });
    expect([status, json, headers.get("content-range")]).toEqual([206, [2, 3], "1-2/5"]);
    const ranged = await rest("rpc/numbers?upto=5", { headers: { range: "3-9" } });
    expect([ranged.status, ranged.json, ranged.headers.get("content-range")]).toEqual([200, [4, 5], "3-4/*"]);
    expect(await failure("rpc/numbers?upto=5&offset=9", { prefer: "count=exact" })).toEqual([416, "PGRST103"]);
  });

  test("stops at DB_MAX_ROWS without computing the rest", async () => {
    expect(await rows("rpc/numbers?upto=2000000000")).toHaveLength(100);
  });

  test("is filtered and ordered by the name pgrst_scalar", async () => {
    expect(await rows("rpc/numbers?upto=5&pgrst_scalar=gt.2&order=pgrst_scalar.desc")).toEqual([5, 4, 3]);
  });

  test.each(["select=a", "select=count()", "a=eq.1", "order=a"])(
    "has no other column, so ?%s is 400",
    async (query) => {
      expect(await failure(`rpc/numbers?upto=5&${query}`)).toEqual([400, "42703"]);
    },
  );

  test("must have one value for a single object", async () => {
    expect(await rows("rpc/numbers?upto=1", accept(OBJECT))).toEqual({ pgrst_scalar: 1 });
    expect(await failure("rpc/numbers?upto=2", accept(OBJECT))).toEqual([406, "PGRST116"]);
  });
});

describe("a row", () => {
  test.each<[call: string, row: unknown]>([
    ["point", { x: 1, y: 2 }],
    ["point?select=y", { y: 2 }],
    ["point?select=sum:x::text", { sum: "1" }],
    ["divided?a=7&b=2", { quotient: 3, remainder: 1 }],
    ["divided?a=7&b=2&select=remainder", { remainder: 1 }],
    ["swapped?a=1&b=2", { a: 2, b: "1" }],
    ["one_out", { total: 5 }],
    ["loose", { a: 1, b: "x" }],
    ["tool?id=1", { id: 1, name: "anvil", kind: "heavy" }],
    [
      "tool?id=1&select=name,label,parts(label)&parts.order=label",
      { name: "anvil", label: "anvil!", parts: [{ label: "base" }, { label: "head" }] },
    ],
  ])("of rpc/%s is an object", async (call, row) => {
    expect(await rows(`rpc/${call}`)).toEqual(row);
    expect(await rows(`rpc/${call}`, accept(OBJECT))).toEqual(row);
  });

  test.each(["no_point", "tool?id=9", "tool?id=1&name=eq.bolt"])(
    "that is missing, as of rpc/%s, is null, and 406 as a single object",
    async (call) => {
      expect(await rows(`rpc/${call}`)).toBeNull();
      expect(await failure(`rpc/${call}`, accept(OBJECT))).toEqual([406, "PGRST116"]);
    },
  );

  test("counts as one row", async () => {
    expect((await rest("rpc/point", { prefer: "count=exact" })).headers.get("content-range")).toBe("0-0/1");
  });

  test("has its columns, and a record has no known columns", async () => {
    expect(await failure("rpc/point?select=z")).toEqual([400, "42703"]);
    expect(await failure("rpc/divided?a=7&b=2&a=eq.7")).toEqual([400, "42703"]);
    expect(await failure("rpc/loose?select=a")).toEqual([400, "42703"]);
  });
});

describe("rows", () => {
  test.each<[call: string, result: unknown]>([
    [
      "points?x=gt.2",
      [
        { x: 3, y: 9 },
        { x: 4, y: 16 },
      ],
    ],
    ["points?select=y&order=y.desc&limit=2", [{ y: 16 }, { y: 9 }]],
    [
      "squares?upto=3&n=in.(1,3)&order=square.desc",
      [
        { n: 3, square: 9 },
        { n: 1, square: 1 },
      ],
    ],
    ["squares?upto=3&or=(n.eq.1,square.eq.9)&select=n", [{ n: 1 }, { n: 3 }]],
    ["squares?upto=4&select=square.sum()", [{ sum: 30 }]],
    [
      "tools_from?first=2&select=id,label",
      [
        { id: 2, label: "bolt!" },
        { id: 3, label: "clamp!" },
      ],
    ],
    [
      "tools_from?select=id,parts(id)&id=lt.3&parts.id=gt.1",
      [
        { id: 1, parts: [{ id: 2 }] },
        { id: 2, parts: [{ id: 3 }] },
      ],
    ],
    ["tools_from?select=id,parts!inner(id)&parts.label=eq.thread", [{ id: 2, parts: [{ id: 3 }] }]],
    ["tools_from?first=9", []],
    [
      "domain_tools?id=eq.1&select=name,parts(label)",
      [{ name: "anvil", parts: [{ label: "head" }, { label: "base" }] }],
    ],
    ["loose_set?limit=1", [{ id: 1, name: "anvil" }]],
  ])("are filtered, ordered and embedded by rpc/%s", async (call, result) => {
    expect(await rows(`rpc/${call}`)).toEqual(result);
  });

  test("of POST are filtered in the URL too", async () => {
    expect(await rows("rpc/tools_from?select=id&id=lt.3&order=id.desc", { body: { first: 1 } })).toEqual([
      { id: 2 },
      { id: 1 },
    ]);
  });

  test("may have a column with the name of an argument", async () => {
    expect(await rows("rpc/tool?id=1&id=eq.1&select=id")).toEqual({ id: 1 });
    expect(await rows("rpc/tool?id=1&id=eq.2&select=id")).toBeNull();
  });

  test("have counts and pages, and HEAD returns their headers", async () => {
    const path = "rpc/tools_from?select=id,parts!inner(id)&limit=1&order=id";
    for (const method of ["GET", "HEAD"]) {
      const { status, text, headers } = await rest(path, { method, prefer: "count=exact" });
      expect([status, headers.get("content-range")]).toEqual([206, "0-0/2"]);
      expect(text).toBe(method === "GET" ? '[{"id":1,"parts":[{"id":1}, \n {"id":2}]}]' : "");
    }
    expect(await failure("rpc/tools_from?offset=9", { prefer: "count=exact" })).toEqual([416, "PGRST103"]);
    expect((await rest("rpc/tools_from?limit=1", { prefer: "count=estimated" })).headers.get("content-range")).toBe(
      "0-0/3",
    );
  });

  test("accept Range only for GET", async () => {
    const headers = { range: "1-1" };
    expect(await rows("rpc/tools_from?select=id", { headers })).toEqual([{ id: 2 }]);
    expect(await rows("rpc/tools_from?select=id", { headers, body: {} })).toHaveLength(3);
    expect((await rest("rpc/tools_from", { headers, method: "HEAD" })).headers.get("content-range")).toBe("0-2/*");
  });

  test.each([
    ["tools_from?id=eq.1&select=id", OBJECT, '{"id":1}'],
    ["tools_from?id=eq.2", `${OBJECT};nulls=stripped`, '{"id":2,"name":"bolt"}'],
    ["tools_from?id=eq.2", "application/vnd.pgrst.array+json;nulls=stripped", '[{"id":2,"name":"bolt"}]'],
    ["tools_from?id=lt.3&select=id,kind", "text/csv", "id,kind\n1,heavy\n2,"],
    ["squares?upto=2", "text/csv", "n,square\n1,1\n2,4"],
    ["numbers?upto=2", "text/csv", "pgrst_scalar\n1\n2"],
    ["number", "text/csv", "pgrst_scalar\n7"],
    ["point", "text/csv", "x,y\n1,2"],
  ])("of rpc/%s are returned as %s", async (call, type, text) => {
    const answer = await rest(`rpc/${call}`, accept(type));
    expect([answer.status, answer.text]).toEqual([200, text]);
    expect(answer.headers.get("content-type")).toBe(`${type}; charset=utf-8`);
  });

  test.each<[string, status: number, code: string]>([
    ["tools_from?nope=eq.1", 400, "42703"],
    ["tools_from?select=nope", 400, "42703"],
    ["tools_from?select=nope(*)", 400, "PGRST200"],
    ["squares?upto=1&select=parts(*)", 400, "PGRST200"],
    ["loose_set?select=id", 400, "42703"],
    ["loose_set?id=eq.1", 400, "42703"],
    ["tools_from?limit=-1", 416, "PGRST103"],
  ])("are refused for rpc/%s with %i %s", async (call, status, code) => {
    expect(await failure(`rpc/${call}`)).toEqual([status, code]);
  });
});

describe("a raw value", () => {
  const raw = async (path: string, type: string) => {
    const { url, service: running } = service();
    const headers = { apikey: running.tokens.issueKey("anon"), accept: type };
    const response = await fetch(`${url}/rest/v1/rpc/${path}`, { headers });
    const bytes = Buffer.from(await response.arrayBuffer()).toString("latin1");
    return [response.status, response.headers.get("content-type"), bytes];
  };
  /** The UTF-8 bytes of the text, with each byte as one character. */
  const utf8 = (text: string) => Buffer.from(text).toString("latin1");

  test.each<[call: string, accept: string, type: string, bytes: string]>([
    ["words", "text/plain", "text/plain; charset=utf-8", utf8('häl"lo')],
    ["no_words", "text/plain", "text/plain; charset=utf-8", ""],
    ["markup", "text/xml", "text/xml; charset=utf-8", "<a>1</a>"],
    ["bytes", "application/octet-stream", "application/octet-stream", "\u0000\u00ff"],
    ["page", "text/html", "text/html", utf8("<b>hé</b>")],
    ["page", "text/html,application/xhtml+xml,*/*;q=0.8", "text/html", utf8("<b>hé</b>")],
    ["plain", "text/plain", "text/plain; charset=utf-8", utf8("hé")],
    ["picture", "image/png", "image/png", "\u0089PN"],
    ["picture", "image/avif,image/*,*/*;q=0.8", "image/png", "\u0089PN"],
    ["anything", "*/*", "application/octet-stream", "any"],
    ["anything", "application/json", "application/octet-stream", "any"],
    ["anything", "video/mp4", "application/octet-stream", "any"],
  ])("of rpc/%s is returned for Accept: %s", async (call, accept, type, bytes) => {
    expect(await raw(call, accept)).toEqual([200, type, bytes]);
  });

  test.each([
    ["page", '"<b>hé</b>"'],
    ["picture", '"\\\\x89504e"'],
  ])("of rpc/%s is JSON for a client that accepts anything", async (call, text) => {
    const { headers, ...answer } = await rest(`rpc/${call}`, accept("*/*"));
    expect([headers.get("content-type"), answer.text]).toEqual(["application/json; charset=utf-8", text]);
  });

  test.each([
    ["words", "text/xml"],
    ["words", "image/png"],
    ["page", "text/plain"],
    ["number", "text/plain"],
    ["texts", "text/plain"],
    ["loose", "text/csv"],
    ["tools_from", "application/octet-stream"],
  ])("of rpc/%s is not available as %s", async (call, type) => {
    expect(await failure(`rpc/${call}`, accept(type))).toEqual([406, "PGRST107"]);
  });
});

describe("writing", () => {
  test.each(["next", "next_rows", "next_values", "write?what=x", "write_quietly"])(
    "is allowed only for POST, so GET rpc/%s is 405",
    async (call) => {
      expect(await failure(`rpc/${call}`)).toEqual([405, "25006"]);
      expect((await rest(`rpc/${call}`, { method: "HEAD" })).status).toBe(405);
    },
  );

  test("is refused in a function that is not volatile, even for POST", async () => {
    expect(await rows("rpc/access", { method: "POST" })).toBe("on");
    expect(await rows("rpc/access_volatile", { method: "POST" })).toBe("off");
    expect(await rows("rpc/access_volatile")).toBe("on");
    expect((await rest("rpc/sly_write", { method: "POST" })).status).toBeGreaterThanOrEqual(400);
    expect(await log()).toEqual([]);
  });

  test.each(["next", "next_rows", "next_values"])(
    "happens once for each request of rpc/%s, whatever it counts",
    async (name) => {
      await sql("alter sequence results.calls restart");
      await rest(`rpc/${name}`, { method: "POST", prefer: "count=exact" });
      await rest(`rpc/${name}`, { method: "POST", prefer: "count=estimated" });
      await rest(`rpc/${name}`, { method: "POST", prefer: "count=planned" });
      expect(await sql("select last_value::int as calls from results.calls")).toEqual([{ calls: 3 }]);
    },
  );

  test("returns the written rows, or no rows for a void function", async () => {
    await sql("truncate results.log restart identity");
    expect(await rows("rpc/write", { body: { what: "one" } })).toEqual({ id: 1, what: "one" });
    expect((await rest("rpc/write_quietly", { method: "POST" })).status).toBe(204);
    expect(await rows("rpc/write_many?select=what&limit=1", { body: { count: 2 } })).toEqual([{ what: "many" }]);
    expect(await log()).toEqual([{ what: "one" }, { what: "quietly" }, { what: "many" }, { what: "many" }]);
  });

  test.each(["write_many", "write_values"])(
    "with rpc/%s is rolled back if a single object is required",
    async (name) => {
      await sql("truncate results.log");
      expect(await failure(`rpc/${name}`, { body: { count: 2 }, ...accept(OBJECT) })).toEqual([406, "PGRST116"]);
      expect(await log()).toEqual([]);
    },
  );

  test.each(["write_many", "write_values"])("with rpc/%s is rolled back above max-affected", async (name) => {
    await sql("truncate results.log");
    const { status, json } = await rest(`rpc/${name}`, {
      body: { count: 3 },
      prefer: "handling=strict, max-affected=2",
    });
    expect([status, json]).toEqual([
      400,
      {
        code: "PGRST124",
        message: "Query result exceeds max-affected preference constraint",
        details: "The query affects 3 rows",
        hint: null,
      },
    ]);
    expect(await log()).toEqual([]);
    const allowed = await rest(`rpc/${name}`, { body: { count: 2 }, prefer: "handling=strict, max-affected=2" });
    expect([allowed.status, allowed.headers.get("preference-applied")]).toEqual([
      200,
      "handling=strict, max-affected=2",
    ]);
    expect((await rest(`rpc/${name}`, { body: { count: 3 }, prefer: "max-affected=2" })).status).toBe(200);
  });

  test.each(["write", "write_quietly", "next"])(
    "with rpc/%s, which does not return a set, is refused with max-affected",
    async (name) => {
      const sent = { body: name === "write" ? { what: "x" } : {}, prefer: "handling=strict, max-affected=2" };
      expect(await failure(`rpc/${name}`, sent)).toEqual([400, "PGRST128"]);
    },
  );
});
