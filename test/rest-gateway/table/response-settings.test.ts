import { describe, expect, test } from "vitest";
import { useRest } from "../../support/rest-client.ts";

const { rest, rows, failure, sql } = useRest(
  { DB_SCHEMAS: "replies", DB_POOL: "1" },
  `create schema replies;
   create function replies.reply(status text default '', headers text default '', is_local boolean default true)
   returns text language plpgsql stable as $$
   begin
     perform set_config('response.status', status, is_local), set_config('response.headers', headers, is_local);
     return 'said';
   end $$;
   create function replies.rows(headers text) returns table (n int) language plpgsql stable as $$
   begin
     perform set_config('response.headers', headers, true);
     return query select 1;
   end $$;
   create function replies.silent(status text) returns void language plpgsql stable as $$
   begin
     perform set_config('response.status', status, true), set_config('response.headers', '[{"X-Silent": "yes"}]', true);
   end $$;

   create table replies.orders (id int primary key, what text);
   create function replies.on_order() returns trigger language plpgsql as $$
   begin
     perform set_config('response.status', '202', true);
     perform set_config('response.headers', '[{"Location": "/queue/7"}, {"Retry-After": "3"}]', true);
     return new;
   end $$;
   create trigger answer before insert or update on replies.orders for each row execute function replies.on_order();

   grant usage on schema replies to anon;
   grant all on replies.orders to anon;
   grant execute on all functions in schema replies to anon;`,
);

const reply = (body: { status?: string; headers?: unknown; is_local?: boolean }) => {
  const headers = typeof body.headers === "string" ? body.headers : JSON.stringify(body.headers ?? []);
  return rest("rpc/reply", { body: { ...body, headers } });
};

describe("response.status", () => {
  test.each([200, 201, 302, 404, 418, 503])("sets the status %i and does not change the body", async (status) => {
    const answer = await reply({ status: String(status) });
    expect([answer.status, answer.text]).toEqual([status, '"said"']);
  });

  test("of 204 and 304 removes the body", async () => {
    const empty = await reply({ status: "204" });
    expect([empty.status, empty.text, empty.headers.get("content-length")]).toEqual([204, "", null]);
    const unchanged = await reply({ status: "304" });
    expect([unchanged.status, unchanged.text]).toEqual([304, ""]);
  });

  test("applies to void functions and HEAD too", async () => {
    expect((await rest("rpc/silent?status=202")).status).toBe(202);
    expect((await rest("rpc/reply?status=404", { method: "HEAD" })).status).toBe(404);
  });

  test.each(["abc", "99", "100", "199", "600", "2000", "200.5", "-200", " 200"])(
    "of %j is an error",
    async (status) => {
      const { status: returned, json } = await reply({ status });
      expect([returned, json]).toEqual([
        500,
        { code: "PGRST112", message: "response.status guc must be a valid status code", details: null, hint: null },
      ]);
    },
  );
});

describe("response.headers", () => {
  test("sets headers, even several with the same name", async () => {
    const cookies = ["session=1; HttpOnly; Path=/", "id=2; Expires=Wed, 21 Oct 2015 07:28:00 GMT"];
    const { headers } = await reply({
      headers: [{ "X-First": "a, b" }, { "Set-Cookie": cookies[0] }, { "x-second": "" }, { "Set-Cookie": cookies[1] }],
    });
    expect([headers.get("x-first"), headers.get("x-second")]).toEqual(["a, b", ""]);
    expect(headers.getSetCookie()).toEqual(cookies);
  });

  test("replaces the service's headers, whatever their case", async () => {
    const { headers } = await reply({
      headers: [{ "cache-control": "public, max-age=60" }, { "CONTENT-TYPE": "text/x-said" }, { Vary: "Accept" }],
    });
    expect(headers.get("cache-control")).toBe("public, max-age=60");
    expect(headers.get("content-type")).toBe("text/x-said");
    expect(headers.get("vary")).toBe("Accept");
  });

  test.each(["X-Title", "Content-Disposition"])("sends %s as UTF-8", async (name) => {
    const { headers } = await reply({ headers: [{ [name]: 'filename="Übung €.pdf"' }] });
    expect(Buffer.from(headers.get(name)!, "latin1").toString()).toBe('filename="Übung €.pdf"');
  });

  test("works in functions that return rows or void", async () => {
    const { headers, json } = await rest('rpc/rows?headers=[{"X-Rows":"1"}]', { prefer: "count=exact" });
    expect([headers.get("x-rows"), json]).toEqual(["1", [{ n: 1 }]]);
    expect((await rest("rpc/silent?status=")).headers.get("x-silent")).toBe("yes");
  });

  test.each<[what: string, headers: unknown]>([
    ["invalid JSON", "none"],
    ["an object instead of an array", { "X-A": "1" }],
    ["a string instead of an array", "text"],
    ["an item that is not an object", ["X-A"]],
    ["an empty item", [{}]],
    ["two headers in one item", [{ "X-A": "1", "X-B": "2" }]],
    ["a number as a value", [{ "X-A": 1 }]],
    ["null as a value", [{ "X-A": null }]],
    ["a name with a space", [{ "X A": "1" }]],
    ["a name with characters that header names cannot contain", [{ ä: "1" }]],
    ["an empty name", [{ "": "1" }]],
    ["a line break", [{ "X-A": "1\r\nX-B: 2" }]],
    ["a control character", [{ "X-A": "1\u0001" }]],
    ["Content-Length", [{ "Content-Length": "3" }]],
    ["Transfer-Encoding", [{ "transfer-encoding": "chunked" }]],
    ["Connection", [{ Connection: "close" }]],
  ])("is refused if it contains %s", async (_what, headers) => {
    const { status, json } = await reply({ headers });
    expect([status, json.code]).toEqual([500, "PGRST111"]);
    expect(json.message).toBe(
      "response.headers guc must be a JSON array composed of objects with a single key and a string value",
    );
  });
});

test("triggers can set response.status and response.headers too", async () => {
  const { status, headers } = await rest("orders", { body: { id: 1, what: "tea" } });
  expect([status, headers.get("location"), headers.get("retry-after")]).toEqual([202, "/queue/7", "3"]);
  const changed = await rest("orders?id=eq.1", {
    method: "PATCH",
    body: { what: "milk" },
    prefer: "return=representation",
  });
  expect([changed.status, changed.json]).toEqual([202, [{ id: 1, what: "milk" }]]);
});

test("a write with an invalid value is 500", async () => {
  await sql(`create or replace function replies.on_order() returns trigger language plpgsql as
    $$ begin perform set_config('response.status', 'none', true); return new; end $$`);
  expect(await failure("orders", { body: { id: 2 } })).toEqual([500, "PGRST112"]);
});

test.each([true, false])(
  "the settings do not affect the next request on the connection, with is_local %s",
  async (is_local) => {
    const first = await reply({ status: "418", headers: [{ "X-Said": "before" }], is_local });
    expect([first.status, first.headers.get("x-said")]).toEqual([418, "before"]);
    for (const path of ["orders?limit=0", 'rpc/rows?headers=[{"X-Own":"1"}]']) {
      const { status, headers } = await rest(path);
      expect([status, headers.get("x-said")]).toEqual([200, null]);
    }
    expect(await rows("rpc/reply")).toBe("said");
  },
);
