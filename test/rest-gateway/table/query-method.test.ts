import { beforeAll, describe, expect, test } from "vitest";
import { cookieOf, csrfOf, makeSession } from "../../identity/support.ts";
import { openRaw } from "../../support/raw-socket.ts";
import { type RestSent, useRest } from "../../support/rest-client.ts";

const ROWS = 50_000;

const { rest, rows, failure, service, sql } = useRest(
  { DB_SCHEMAS: "stock", DB_MAX_ROWS: "0", restBodyLimit: 1_000_000 },
  `create schema stock;
   create table stock.makers (id int primary key, name text);
   create table stock.items (id int primary key, maker_id int references stock.makers, name text, body text, tags text[]);
   insert into stock.makers values (1, 'Ada'), (2, 'Bob');
   insert into stock.items select n, 1 + n % 2, 'item ' || n, 'b' || n % 3, array['t' || n % 5] from generate_series(1, ${ROWS}) as n;
   create function stock.add(a int, b int default 10) returns int language sql immutable return a + b;
   create function stock.method() returns text language sql stable return current_setting('request.method');
   create function stock.write() returns void language sql volatile as 'insert into stock.makers values (99)';
   create table stock.methods (method text default current_setting('request.method'), id int);
   grant usage on schema stock to anon, authenticated;
   grant all on all tables in schema stock to anon, authenticated;
   grant execute on all functions in schema stock to anon, authenticated;`,
);

const FORM = { "content-type": "application/x-www-form-urlencoded" };
const query = (body: string, headers: Readonly<Record<string, string>> = {}): RestSent => ({
  method: "QUERY",
  body,
  headers: { ...FORM, ...headers },
});
const override = (method: string, body: string, headers: Readonly<Record<string, string>> = {}): RestSent => ({
  method: "POST",
  body,
  headers: { ...FORM, "x-http-method-override": method, ...headers },
});
/** The first ids, as a list of `in`. */
const ids = (count: number, first = 1) => `(${Array.from({ length: count }, (_, i) => first + i).join()})`;

describe("QUERY with a query string as its body", () => {
  test.each<[string, Record<string, string>?]>([
    ["id=in.(1,2,3)&order=id"],
    ["select=id,maker:makers(name)&id=lte.3&order=id.desc"],
    ["select=id&makers.name=eq.Ada&makers=not.is.null&select=id,makers()&limit=2&order=id"],
    ["or=(id.eq.1,and(id.gt.2,id.lt.5))&select=id&order=id"],
    ["select=maker_id,count()&order=maker_id"],
    ["name=eq.item%207&tags=cs.%7Bt2%7D"],
    ["name=eq.item+7"],
    ["id=lt.10&order=id&limit=3", { prefer: "count=exact" }],
    ["order=id", { range: "5-7", prefer: "count=exact" }],
    ["id=eq.1", { accept: "application/vnd.pgrst.object+json" }],
    ["id=lt.4&order=id", { accept: "text/csv" }],
    [""],
    ["id=eqq.1"],
    ["nothing=eq.1"],
    ["limit=-1"],
    ["id=in.(1,2)", { accept: "application/vnd.pgrst.object+json" }],
  ])("returns what GET returns: %s", async (text, headers = {}) => {
    const path = text === "" ? "makers" : "items";
    const expected = await rest(`${path}?${text}`, { headers });
    const reply = await rest(path, query(text, headers));
    expect([reply.status, reply.text]).toEqual([expected.status, expected.text]);
    for (const name of ["content-type", "content-range", "content-location", "preference-applied", "etag"])
      expect([name, reply.headers.get(name)]).toEqual([name, expected.headers.get(name)]);
  });

  test("combines it with the query string of the URL", async () => {
    expect(await rows("items?select=id&order=id", query("id=in.(2,1)"))).toEqual([{ id: 1 }, { id: 2 }]);
    expect(await rows("items?id=gt.1&select=id", query("id=lt.3"))).toEqual([{ id: 2 }]);
  });

  test(`finds ${ROWS} ids, which GET finds in many parts`, async () => {
    const all = await rows("items?select=id,name&order=id", query(`id=in.${ids(ROWS)}`));
    const parts: object[] = [];
    for (let first = 1; first <= ROWS; first += 2000)
      parts.push(...(await rows(`items?select=id,name&order=id&id=in.${ids(2000, first)}`)));
    expect(all).toHaveLength(ROWS);
    expect(all).toEqual(parts);
  });

  test("calls functions that only read, with arguments and filters", async () => {
    expect(await rows("rpc/add", query("a=1"))).toBe(11);
    expect(await rows("rpc/add?a=1", query("b=2"))).toBe(3);
    expect(await failure("rpc/write", query(""))).toEqual([405, "25006"]);
  });

  test("reads the schema from Accept-Profile, and SQL reads the method QUERY", async () => {
    expect(await failure("items", query("id=eq.1", { "accept-profile": "other" }))).toEqual([406, "PGRST106"]);
    expect(await rows("rpc/method", query(""))).toBe("QUERY");
  });

  test("is 304 if the client has the body", async () => {
    const { headers } = await rest("items", query("id=eq.1"));
    const again = await rest("items", query("id=eq.1", { "if-none-match": headers.get("etag")! }));
    expect([again.status, again.text]).toEqual([304, ""]);
  });

  test("without a body is a GET", async () => {
    expect(await rows("makers?select=id&order=id", { method: "QUERY" })).toEqual([{ id: 1 }, { id: 2 }]);
  });

  test.each<[string, RestSent, number]>([
    ["of another type", { method: "QUERY", body: "{}", headers: { "content-type": "application/json" } }, 415],
    ["without a type", { method: "QUERY", body: "id=eq.1", headers: { "content-type": "" } }, 415],
    ["in another charset", query("id=eq.1", { "content-type": `${FORM["content-type"]}; charset=latin1` }), 415],
    ["that is not UTF-8", { method: "QUERY", body: Buffer.from("name=eq.\xff", "latin1"), headers: FORM }, 400],
    ["that is too large", query(`id=in.${ids(200_000)}`), 413],
  ])("%s is refused, and Accept-Query names the type", async (_what, sent, status) => {
    const reply = await rest("items", sent);
    expect([reply.status, reply.json.code]).toEqual([status, "PGRST102"]);
    if (status === 415) expect(reply.headers.get("accept-query")).toBe(FORM["content-type"]);
  });

  test.each([
    ["QUERY", ""],
    ["POST", "X-HTTP-Method-Override: QUERY"],
    ["POST", "X-HTTP-Method-Override: get"],
  ])(
    "for a stream of changes has at most 65,536 bytes; a longer one is refused before it is read (%s %s)",
    async (method, header) => {
      const { url } = service();
      const raw = await openRaw(url);
      const head = [
        `${method} /rest/v1/items HTTP/1.1`,
        `Host: ${new URL(url).host}`,
        `apikey: ${service().service.tokens.issueKey("anon")}`,
        "Accept: text/event-stream",
        `Content-Type: ${FORM["content-type"]}`,
        "Content-Length: 65537",
        ...(header ? [header] : []),
      ];
      raw.write(`${head.join("\r\n")}\r\n\r\nid=in.(1`);
      expect((await raw.head()).status).toBe(413);
    },
  );

  test("with a session needs no CSRF token, because it only reads; POST needs one", async () => {
    const session = await makeSession(service(), 1);
    const cookie = cookieOf(session).cookie!;
    expect((await rest("makers", query("id=eq.1", { cookie }))).json).toEqual([{ id: 1, name: "Ada" }]);
    expect((await rest("makers", override("GET", "id=eq.1", { cookie }))).status).toBe(403);
    const allowed = override("GET", "id=eq.1", { cookie, ...csrfOf(session) });
    expect(await rows("makers", allowed)).toEqual([{ id: 1, name: "Ada" }]);
  });
});

describe("OPTIONS", () => {
  test.each([
    ["items", "OPTIONS,GET,HEAD,QUERY,POST,PUT,PATCH,DELETE"],
    ["rpc/add", "OPTIONS,GET,HEAD,QUERY,POST"],
    ["rpc/write", "OPTIONS,POST"],
  ])("lists QUERY for %s", async (path, allow) => {
    const { headers } = await rest(path, { method: "OPTIONS" });
    expect(headers.get("allow")).toBe(allow);
    expect(headers.get("accept-query")).toBe(allow.includes("QUERY") ? FORM["content-type"] : null);
  });
});

describe("POST with X-HTTP-Method-Override and a query string as its body", () => {
  beforeAll(() =>
    sql("insert into stock.items select n, 1, 'extra', null, null from generate_series(100001, 150000) as n"),
  );

  test("DELETE deletes the rows that match", async () => {
    const list = ids(20_000, 100_001);
    expect((await rest("items", override("DELETE", `id=in.${list}`))).status).toBe(204);
    expect(await rows("items?select=count()&id=gt.100000")).toEqual([{ count: 30_000 }]);
    const sent = override("DELETE", "id=eq.120001&select=id", { prefer: "return=representation" });
    expect(await rows("items", sent)).toEqual([{ id: 120_001 }]);
  });

  test("PATCH changes the rows that match, to the object in the parameter body", async () => {
    const changes = encodeURIComponent(JSON.stringify({ name: "a & b = 100%", body: "+" }));
    const sent = override("PATCH", `id=in.${ids(25_000, 120_002)}&body=${changes}&body=is.null`, {
      prefer: "count=exact",
    });
    const { status, headers } = await rest("items", sent);
    expect([status, headers.get("content-range")]).toEqual([204, "0-24999/25000"]);
    expect(await rows("items?select=name,body&id=eq.130000")).toEqual([{ name: "a & b = 100%", body: "+" }]);
    const shown = override("PATCH", `${'body={"name":"x"}'}&id=eq.1&select=name`, { prefer: "return=representation" });
    expect(await rows("items", shown)).toEqual([{ name: "x" }]);
  });

  test("GET and QUERY read, for clients that cannot send QUERY", async () => {
    for (const method of ["GET", "query"])
      expect(await rows("items", override(method, "id=in.(2,3)&select=id&order=id"))).toEqual([{ id: 2 }, { id: 3 }]);
    expect(await rows("rpc/add", override("GET", "a=5"))).toBe(15);
    expect(await failure("rpc/write", override("GET", ""))).toEqual([405, "25006"]);
  });

  test("SQL reads the method that is executed", async () => {
    expect(await rows("rpc/method", override("GET", ""))).toBe("GET");
    await sql("insert into stock.methods (method, id) values ('', 1)");
    await sql(`create function stock.keep_method() returns trigger language plpgsql as $$
      begin new.method := current_setting('request.method'); return new; end $$;
      create trigger keep before update on stock.methods for each row execute function stock.keep_method()`);
    const body = `id=eq.1&body=${encodeURIComponent('{"id":2}')}&select=method`;
    expect(await rows("methods", override("PATCH", body, { prefer: "return=representation" }))).toEqual([
      { method: "PATCH" },
    ]);
  });

  test.each<[string, string, RestSent, [number, string]]>([
    ["PATCH without the parameter body", "items", override("PATCH", "id=eq.1"), [400, "PGRST102"]],
    ["PATCH with invalid JSON", "items", override("PATCH", "id=eq.1&body={a}"), [400, "PGRST102"]],
    ["DELETE without a filter", "items", override("DELETE", "select=id"), [400, "21000"]],
    ["PUT", "items", override("PUT", "id=eq.1"), [405, "PGRST117"]],
    ["an unknown method", "items", override("PURGE", "id=eq.1"), [405, "PGRST117"]],
    ["a function", "rpc/add", override("DELETE", "a=1"), [405, "PGRST101"]],
    [
      "another type of body",
      "items",
      override("DELETE", "{}", { "content-type": "application/json" }),
      [415, "PGRST102"],
    ],
  ])("is refused for %s", async (_what, path, sent, expected) => {
    expect(await failure(path, sent)).toEqual(expected);
  });

  test("the header has no effect with other methods", async () => {
    const headers = { "x-http-method-override": "DELETE" };
    expect((await rest("makers?id=eq.2", { headers })).json).toEqual([{ id: 2, name: "Bob" }]);
    expect(await rows("makers?select=id", { ...query("id=eq.2"), headers: { ...FORM, ...headers } })).toEqual([
      { id: 2 },
    ]);
    expect(await rows("makers?select=id&id=eq.2")).toEqual([{ id: 2 }]);
  });
});
