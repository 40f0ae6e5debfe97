import { beforeEach, describe, expect, test } from "vitest";
import { MAX_TAGGED_BYTES } from "../../../rest-gateway/table/send.ts";
import { useRest } from "../../support/rest-client.ts";

const NOTES = `
  create table public.notes (id int primary key, title text not null);
  alter table public.notes enable row level security;
  create policy "all may do all" on public.notes using (true) with check (true);
  grant select, insert, update, delete on public.notes to anon, authenticated;
  create function public.one() returns int stable language sql return 1;
  create function public.nothing() returns void stable language sql as '';
  create function public.tagged() returns int stable language plpgsql as $$
  begin
    perform set_config('response.headers',
      '[{"ETag": "\\"own-7\\""}, {"Cache-Control": "max-age=60"}, {"Content-Language": "en"}, {"X-Own": "yes"}]', true);
    return 1;
  end $$;
  create function public.teapot() returns int stable language plpgsql as $$
  begin
    perform set_config('response.status', '418', true);
    return 1;
  end $$;
  grant execute on function public.one, public.nothing, public.tagged, public.teapot to anon;`;

const { rest, sql } = useRest({}, NOTES);

beforeEach(async () => {
  await sql("truncate notes");
  await sql("insert into notes values (1, 'First'), (2, 'Second'), (3, 'Third')");
});

const tagOf = async (path: string, headers = {}) => (await rest(path, { headers })).headers.get("etag");
const ifNot = (etag: string | null) => ({ headers: { "if-none-match": etag! } });

describe("the response to a read has an entity tag", () => {
  test("that is the same for the same rows and changes with a row", async () => {
    const tag = await tagOf("notes?order=id");
    expect(tag).toMatch(/^"[\w-]{16}"$/);
    expect(await tagOf("notes?order=id")).toBe(tag);
    await sql("update notes set title = 'Changed' where id = 2");
    expect(await tagOf("notes?order=id")).not.toBe(tag);
  });

  test("that differs for each format", async () => {
    const types = ["application/json", "text/csv", "application/vnd.pgrst.array+json;nulls=stripped"];
    const tags = await Promise.all(types.slice(0, 2).map((accept) => tagOf("notes", { accept })));
    expect(new Set(tags).size).toBe(2);
  });

  test.each(["rpc/one", "", "types.ts", "notes?id=eq.1&select=id"])("even for /rest/v1/%s", async (path) => {
    const tag = await tagOf(path);
    expect(tag).toMatch(/^"[\w-]{16}(-gzip)?"$/);
    expect((await rest(path, ifNot(tag))).status).toBe(304);
  });

  test("for a part of the rows too", async () => {
    const headers = { range: "0-0", prefer: "count=exact" };
    const { status, headers: returned } = await rest("notes?order=id", { headers });
    expect([status, returned.get("etag")]).toEqual([206, expect.stringMatching(/^"[\w-]{16}\.3"$/)]);
  });

  test("that changes with the total if rows are counted", async () => {
    const page = "notes?order=id&limit=1";
    const headers = { prefer: "count=exact" };
    const tag = await tagOf(page, headers);
    await sql("insert into notes values (4, 'Fourth')");
    expect((await rest(page, { headers: { ...headers, "if-none-match": tag! } })).status).toBe(206);
    expect(await tagOf(page, headers)).not.toBe(tag);
  });
});

describe("a request with If-None-Match", () => {
  test("is 304 with the current tag, without a body and its headers, but with the headers for caches", async () => {
    const fresh = await rest("notes?order=id", { prefer: "count=exact" });
    const etag = fresh.headers.get("etag")!;
    const { status, text, headers } = await rest("notes?order=id", { ...ifNot(etag), prefer: "count=exact" });
    expect([status, text, headers.get("etag")]).toEqual([304, "", etag]);
    for (const name of ["cache-control", "vary", "content-location", "preference-applied"])
      expect([name, headers.get(name)]).toEqual([name, fresh.headers.get(name)]);
    for (const name of ["content-type", "content-length", "content-range"]) expect(headers.has(name)).toBe(false);
  });

  test.each([
    ["a list with the tag", (tag: string) => `"other", ${tag}`, 304],
    ["the weak form of the tag", (tag: string) => `W/${tag}`, 304],
    ["any tag", () => "*", 304],
    ["another tag", () => '"other"', 200],
    ["the tag without quotes", (tag: string) => tag.slice(1, -1), 200],
  ])("and %s is %s", async (_what, header, status) => {
    const tag = await tagOf("notes");
    expect((await rest("notes", ifNot(header(tag!)))).status).toBe(status);
  });

  test("keeps the connection open", async () => {
    const tag = await tagOf("notes");
    for (let i = 0; i < 3; i++) {
      expect((await rest("notes", ifNot(tag))).status).toBe(304);
      expect((await rest("notes")).json).toHaveLength(3);
    }
  });
});

describe("a function that sets ETag", () => {
  test("replaces the service's tag", async () => {
    const { headers } = await rest("rpc/tagged");
    expect([headers.get("etag"), headers.get("content-language")]).toEqual(['"own-7"', "en"]);
  });

  test("is compared with If-None-Match, and its other headers are on the 304", async () => {
    const { status, headers, text } = await rest("rpc/tagged", ifNot('"own-7"'));
    expect([status, text, headers.get("etag")]).toEqual([304, "", '"own-7"']);
    expect([headers.get("cache-control"), headers.get("x-own")]).toEqual(["max-age=60", "yes"]);
    expect(headers.has("content-language")).toBe(false);
  });
});

describe("a response has no entity tag", () => {
  test.each([
    ["a request that fails", "nowhere", {}],
    ["a call without content", "rpc/nothing", {}],
    ["a call that sets another status", "rpc/teapot", {}],
    ["HEAD, because its body is not computed", "notes", { method: "HEAD" }],
    ["a call with POST", "rpc/one", { body: {} }],
    ["OPTIONS", "notes", { method: "OPTIONS" }],
    ["an insert", "notes", { body: { id: 9, title: "Ninth" }, prefer: "return=representation" }],
    ["an update", "notes?id=eq.1", { method: "PATCH", body: { title: "New" }, prefer: "return=representation" }],
  ])("if it is the response to %s", async (_what, path, sent) => {
    const { headers } = await rest(path, { ...sent, headers: { "if-none-match": "*" } });
    expect(headers.has("etag")).toBe(false);
  });

  test(`if it has more than ${MAX_TAGGED_BYTES} bytes, so it is always sent`, async () => {
    await sql("update notes set title = repeat('x', $1) where id = 1", MAX_TAGGED_BYTES);
    const { status, headers } = await rest("notes?id=eq.1", ifNot("*"));
    expect([status, headers.has("etag")]).toEqual([200, false]);
    await sql("update notes set title = repeat('x', 1000) where id = 1");
    expect((await rest("notes?id=eq.1", ifNot("*"))).status).toBe(304);
  });
});
