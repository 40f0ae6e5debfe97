import { once } from "node:events";
import { type IncomingMessage, request as requestHttp } from "node:http";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { type RestReply, useRest } from "../../support/rest-client.ts";
import { POLL } from "../../support/until.ts";

const LINES = "application/x-ndjson";

const FETCH_MILLISECONDS = 5000;

/** 30,000 entries of 200 bytes: 6 MB, more than a transaction may return here. Two streams at once. */
const { rest, rows, sql, service } = useRest(
  {
    ...{ DB_POOL: "4", dbPoolShare: 100, dbPoolTimeout: 2000, streamConnections: 2 },
    ...{ dbMaxResultBytes: 1_000_000, DB_STATEMENT_TIMEOUT: `${FETCH_MILLISECONDS}` },
  },
  `create table public.entries (id int primary key, text text, data json, at date);
   insert into public.entries
     select n, repeat('x', 200), case when n = 1 then E'{\\n"a": 1}'::json end, date '2024-02-29' from generate_series(1, 30000) as n;
   create table public.notes (id int primary key, entry int references public.entries, text text);
   insert into public.notes values (1, 1, 'a, "b"'), (2, 1, E'c\\nd'), (3, 2, null);
   create view public.broken as
     select id, repeat('x', 200) as text, 1 / (id - 20000) as quotient from generate_series(1, 30000) as id;
   create view public.wide as select id, repeat('x', case when id = 3 then 2000000 else 10 end) as text from public.notes;
   create view public.growing as select id, repeat('x', case when id > 5000 then 20000 else 10 end) as text
     from public.entries where id <= 5200 order by id;
   create table public.letters (id int primary key, owner bigint, text text);
   insert into public.letters select n, 1 + n % 2, repeat('x', 200) from generate_series(1, 12000) as n;
   alter table public.letters enable row level security;
   create policy "own" on public.letters using (owner = (select auth.uid()));
   create function public.numbers(n int) returns setof int language sql stable as 'select * from generate_series(1, n)';
   create function public.listed() returns setof public.entries language plpgsql stable as $$ begin
     perform set_config('response.headers', '[{"Content-Disposition": "attachment"}]', true);
     return query select * from public.entries order by id;
   end $$;
   create function public.added(n int) returns setof public.notes language sql volatile as
     'insert into public.notes values (n, 1, null) returning *';
   create function public.one() returns int language sql stable as 'select 1';
   grant select on all tables in schema public to anon, authenticated;
   grant insert on public.notes to anon;
   grant execute on all functions in schema public to anon, authenticated`,
);

const get = (path: string, accept: string, prefer?: string): Promise<RestReply> =>
  rest(path, { headers: { accept }, ...(prefer && { prefer }) });
const linesOf = ({ text }: RestReply) =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

/** Opens a response and does not read its body. */
async function open(
  path: string,
  accept = LINES,
  { service: { tokens }, url } = service(),
  more: Readonly<Record<string, string>> = {},
): Promise<IncomingMessage> {
  const apikey = tokens.issueKey("anon");
  const sent = requestHttp(`${url}/rest/v1/${path}`, { headers: { apikey, accept, ...more }, agent: false });
  sent.end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  response.on("error", () => {});
  onTestFinished(() => void response.destroy());
  return response;
}

/** The open transactions of callers. */
const transactions = async (): Promise<number> =>
  (
    await sql(
      `select from pg_stat_activity where usename like '%_data' and datname = current_database() and xact_start is not null`,
    )
  ).length;

afterEach(() => expect.poll(transactions, POLL).toBe(0));

describe("Accept: application/x-ndjson", () => {
  test("gives one row per line, with the range, the length and the entity tag of a small result", async () => {
    const reply = await get("notes?select=id,text,entries(data)&order=id", LINES);
    expect(reply.text).toBe(
      '{"id":1,"text":"a, \\"b\\"","entries":{"data":{ "a": 1}}}\n' +
        '{"id":2,"text":"c\\nd","entries":{"data":{ "a": 1}}}\n' +
        '{"id":3,"text":null,"entries":{"data":null}}\n',
    );
    expect(reply.headers.get("content-type")).toBe("application/x-ndjson; charset=utf-8");
    expect(reply.headers.get("content-range")).toBe("0-2/*");
    expect(Number(reply.headers.get("content-length"))).toBe(reply.text.length);
    const known = await rest("notes?select=id,text,entries(data)&order=id", {
      headers: { accept: LINES, "if-none-match": reply.headers.get("etag")! },
    });
    expect([known.status, known.text]).toEqual([304, ""]);
  });

  test.each([
    ["no rows", "notes?id=eq.0", ""],
    ["values of a function", "rpc/numbers?n=3", "1\n2\n3\n"],
    ["the value of a function", "rpc/one", "1\n"],
    ["one page", "notes?select=id&order=id&limit=1&offset=1", '{"id":2}\n'],
  ])("gives %s", async (_, path, text) => expect((await get(path, LINES)).text).toBe(text));

  test("gives the rows that a change returns", async () => {
    const sent = { body: [{ id: 10 }, { id: 11 }], prefer: "return=representation", headers: { accept: LINES } };
    expect((await rest("notes?select=id", sent)).text).toBe('{"id":10}\n{"id":11}\n');
    expect((await rest("rpc/added?select=id", { body: { n: 12 }, headers: { accept: LINES } })).text).toBe(
      '{"id":12}\n',
    );
    await sql("delete from notes where id >= 10");
  });

  test("an error before the first row has its status", async () => {
    expect((await get("entries?id=eq.a", LINES)).status).toBe(400);
    expect((await get("entries?select=missing", LINES)).json).toMatchObject({ code: "42703" });
    expect((await get("entries?select=id&offset=40000", LINES, "count=exact")).status).toBe(416);
  });
});

describe("a result that is larger than the limits", () => {
  test.each([
    ["a table", "entries?select=id,text&order=id"],
    ["a query of a table", "entries?select=id,text&order=id&id=gt.0"],
    ["a function", "rpc/listed?select=id,text"],
  ])("is streamed from %s, with every row once, in JSON lines and CSV", async (_, path) => {
    const lines = await get(path, LINES);
    expect(lines.headers.get("transfer-encoding")).toBe("chunked");
    const read = linesOf(lines);
    expect(read.map(({ id }) => id)).toEqual(Array.from({ length: 30_000 }, (_, i) => i + 1));
    const csv = (await get(path, "text/csv")).text.split("\n");
    expect(csv).toEqual(["id,text", ...read.map(({ id, text }) => `${id},${text}`)]);
  });

  test("has DB_MAX_ROWS rows in JSON, and is an error if these are too large", async () => {
    expect(await rows("entries?select=id&limit=9000")).toHaveLength(1000);
    expect((await rest("growing?offset=5000")).json).toMatchObject({ code: "54000" });
  });

  test("has the headers that a function has set", async () => {
    const { headers } = await get("rpc/listed", LINES);
    expect(headers.get("content-disposition")).toBe("attachment");
  });

  test("has the rows that the policies of the table let the caller see", async () => {
    const read = (as?: "ada") => rest("letters?select=owner", { headers: { accept: LINES }, ...(as && { as }) });
    expect(new Set(linesOf(await read("ada")).map(({ owner }) => owner))).toEqual(new Set([1]));
    expect(linesOf(await read("ada"))).toHaveLength(6000);
    expect((await read()).text).toBe("");
  });

  test("has its range only with an exact count, which is of the same snapshot", async () => {
    const counted = await get("entries?offset=10&limit=20000&order=id", LINES, "count=exact");
    expect([counted.status, counted.headers.get("content-range")]).toEqual([206, "10-20009/30000"]);
    expect(linesOf(counted)).toHaveLength(20_000);
    const all = await get("entries", LINES, "count=exact");
    expect([all.status, all.headers.get("content-range")]).toEqual([200, "0-29999/30000"]);
    expect((await get("entries", LINES, "count=planned")).headers.get("content-range")).toBeNull();
  });

  test("may have rows of very different sizes", async () => {
    const read = linesOf(await get("growing", LINES));
    expect(read.map(({ text }) => text.length)).toEqual(
      Array.from({ length: 5200 }, (_, i) => (i < 5000 ? 10 : 20_000)),
    );
  });

  test("may not have a single row of more than dbMaxResultBytes", async () => {
    expect((await get("wide?id=eq.3", LINES)).json).toMatchObject({ code: "54000" });
  });

  test("sees one state of the database, and is sent by QUERY too", async () => {
    const response = await open("entries?select=id&order=id");
    await sql("delete from entries where id = 30000");
    const chunks: Buffer[] = await response.toArray();
    await sql("insert into entries values (30000, repeat('x', 200), null, '2024-02-29')");
    expect(Buffer.concat(chunks).toString().endsWith('{"id":30000}\n')).toBe(true);
    const headers = { accept: LINES, "content-type": "application/x-www-form-urlencoded" };
    expect(linesOf(await rest("entries", { method: "QUERY", body: "select=id", headers }))).toHaveLength(30_000);
  });
});

describe("a stream that is compressed", () => {
  const compressed = (path: string, coding: string) => open(path, LINES, service(), { "accept-encoding": coding });

  test.each([
    ["gzip", gunzipSync],
    ["br", brotliDecompressSync],
  ] as const)("with %s has the same rows", async (coding, decompress) => {
    const response = await compressed("entries?select=id,text,data,at&order=id", coding);
    expect(response.headers).toMatchObject({ "content-encoding": coding, "transfer-encoding": "chunked" });
    const bytes = Buffer.concat(await response.toArray());
    expect(bytes.length).toBeLessThan(1_000_000);
    expect(decompress(bytes).toString()).toBe((await get("entries?select=id,text,data,at&order=id", LINES)).text);
  });

  test("is broken off if it fails, so that no client takes it as complete", async () => {
    const response = await compressed("broken?select=id,text,quotient", "gzip");
    await expect(response.toArray()).rejects.toThrow("aborted");
  });

  test("ends its transaction when the client has gone", async () => {
    const response = await compressed("entries?select=id,text,data,at&order=id", "gzip");
    response.destroy();
    await expect.poll(transactions, POLL).toBe(0);
  });
});

describe("a stream that fails", () => {
  test("is broken off, so that no client takes it as complete", async () => {
    await expect(get("broken?select=id,text,quotient", LINES)).rejects.toThrow("aborted");
    await expect(get("broken?select=id,text,quotient", "text/csv")).rejects.toThrow("aborted");
  });

  test("because its connection to the database is lost, is broken off", async () => {
    const response = await open("entries");
    await sql(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and usename like '%_data' and xact_start is not null`,
    );
    await expect(response.toArray()).rejects.toThrow("aborted");
    expect((await get("notes?limit=1", LINES)).status).toBe(200);
  });
});

describe("clients that read slowly", () => {
  test("hold the rest in the database: the service keeps little of it", async () => {
    const response = await open("entries");
    await expect.poll(() => service().service.clientMemory(), POLL).toBeGreaterThan(0);
    expect(await transactions()).toBe(1);
    expect(service().service.clientMemory()).toBeLessThan(3_000_000);
    const chunks: Buffer[] = await response.toArray();
    expect(Buffer.concat(chunks).toString().split("\n")).toHaveLength(30_001);
    await expect.poll(() => service().service.clientMemory(), POLL).toBe(0);
  });

  test("use only streamConnections; further streams are refused, and other requests are served", async () => {
    const streams = await Promise.all([open("entries"), open("entries")]);
    const refused = await get("entries", LINES);
    expect([refused.status, refused.json.code, refused.headers.get("retry-after")]).toEqual([503, "53000", "5"]);
    expect((await rest("notes")).status).toBe(200);
    for (const response of streams) response.destroy();
    await expect.poll(transactions, POLL).toBe(0);
    expect((await get("entries?select=id", LINES)).status).toBe(200);
  });

  describe("in time", () => {
    const { service: impatient } = useRest(
      { streamTimeout: 2000, dbMaxResultBytes: 1_000_000 },
      `create view public.entries as select id, repeat('x', 200) as text from generate_series(1, 30000) as id;
       grant select on public.entries to anon`,
    );

    test("have streamTimeout to read everything", async () => {
      const response = await open("entries", LINES, impatient());
      await sql("select pg_sleep(2)");
      await expect(response.toArray()).rejects.toThrow("aborted");
    });
  });

  test("may take longer than DB_STATEMENT_TIMEOUT, which applies to each fetch", async () => {
    const response = await open("entries?select=id,text&limit=25000");
    await sql("select pg_sleep($1)", FETCH_MILLISECONDS / 1000 + 0.1);
    const chunks: Buffer[] = await response.toArray();
    expect(Buffer.concat(chunks).toString().split("\n")).toHaveLength(25_001);
  });
});
