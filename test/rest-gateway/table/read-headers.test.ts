import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

const FIELDS = `
  create function library.noon(library.genres) returns timestamptz stable language sql
    return timestamptz '2024-06-01 12:00:00Z';
  create function library.scratch(library.genres) returns int language sql
  begin atomic; update library.genres set name = 'scratched' where id = $1.id returning 1; end;
  grant execute on function library.noon, library.scratch to anon;`;

const { rest, failure, service } = useLibrary({ CORS_ORIGINS: "https://app.example" }, FIELDS);

/** Headers that differ for each response or connection, or depend on the body. */
const OWN = [
  "change-position",
  "date",
  "x-request-id",
  "server-timing",
  "connection",
  "keep-alive",
  "content-length",
  "etag",
];
const sharedHeaders = (headers: Headers) => [...headers].filter(([name]) => !OWN.includes(name));

describe("the response to a read has", () => {
  test("Content-Location with sorted parameters", async () => {
    const { headers } = await rest("books?select=id&order=id&id=eq.1&title=like.*a%20b*");
    expect(headers.get("content-location")).toBe("/rest/v1/books?id=eq.1&order=id&select=id&title=like.*a%20b*");
    expect((await rest("books")).headers.get("content-location")).toBe("/rest/v1/books");
  });

  test("Cache-Control and Vary", async () => {
    const { headers } = await rest("books?limit=1");
    expect(headers.get("cache-control")).toBe("private, no-cache");
    expect(headers.get("vary")).toContain("Accept, Prefer, Range, Authorization, apikey, Accept-Profile");
  });

  test("Content-Length and Server-Timing", async () => {
    const { headers } = await rest("genres?select=id&id=eq.1");
    expect(headers.get("content-length")).toBe(String('[{"id":1}]'.length));
    expect(headers.get("server-timing")).toMatch(
      /^jwt;dur=[\d.]+, parse;dur=[\d.]+, plan;dur=[\d.]+, wait;dur=[\d.]+, transaction;dur=[\d.]+, response;dur=[\d.]+$/,
    );
  });

  test.each([
    ["count=exact", "count=exact"],
    ["handling=lenient, count=planned", "count=planned, handling=lenient"],
    ["timezone=Europe/Paris, count=exact", "count=exact, timezone=Europe/Paris"],
    ["return=representation, resolution=merge-duplicates, missing=default", null], // only for writes
    ["max-affected=1, handling=strict", "handling=strict"], // only for writes
    ["tx=rollback", null], // not allowed
    ["nonsense=1", null],
  ])("for Prefer: %s the header Preference-Applied: %s", async (prefer, applied) => {
    const { headers } = await rest("books?select=id", { prefer });
    expect(headers.get("preference-applied")).toBe(applied);
  });
});

test("with one schema, responses have no Content-Profile", async () => {
  const reading = (profile: string) => ({ headers: { "accept-profile": profile } });
  expect((await rest("books?limit=1", reading("library"))).headers.get("content-profile")).toBeNull();
  expect(await failure("books", reading("public"))).toEqual([406, "PGRST106"]);
});

test("handling=strict refuses unknown preferences", async () => {
  const { status, json } = await rest("books", { prefer: "handling=strict, nonsense=1, count=all" });
  expect(status).toBe(400);
  expect(json).toEqual({
    code: "PGRST122",
    message: "Invalid preferences given with handling=strict",
    details: "Invalid preferences: nonsense=1, count=all",
    hint: null,
  });
});

test("times are in the preferred time zone, and an unknown time zone is refused", async () => {
  const noon = async (prefer: string) => (await rest("genres?select=noon&id=eq.1", { prefer })).json;
  expect(await noon("timezone=Europe/Paris")).toEqual([{ noon: "2024-06-01T14:00:00+02:00" }]);
  expect(await noon("timezone=America/Lima")).toEqual([{ noon: "2024-06-01T07:00:00-05:00" }]);
  expect(await failure("books", { prefer: "timezone=Nowhere/Else" })).toEqual([400, "22023"]);
});

describe("HEAD has the headers of GET and no body", () => {
  test.each([
    ["books?limit=2", {}],
    ["books?limit=2", { prefer: "count=exact" }],
    ["books?select=id", { accept: "text/csv" }],
    ["books?id=eq.1", { accept: "application/vnd.pgrst.object+json" }],
    ["books?select=id,b:authors!author_id(name)&authors.name=eq.x", {}],
    ["rpc/books_by?writer=2", {}],
    ["books?id=eq.x", {}],
    ["books?offset=9", { prefer: "count=exact" }],
    ["nothing", {}],
  ])("for %s with the headers %j", async (path, headers) => {
    const get = await rest(path, { headers });
    const head = await rest(path, { headers, method: "HEAD" });
    expect([head.status, head.text]).toEqual([get.status, ""]);
    expect(sharedHeaders(head.headers)).toEqual(sharedHeaders(get.headers));
  });
});

describe("OPTIONS returns the allowed methods", () => {
  test.each([
    ["books", "OPTIONS,GET,HEAD,QUERY,POST,PUT,PATCH,DELETE"],
    ["loans", "OPTIONS,GET,HEAD,QUERY,POST,PUT,PATCH,DELETE"],
    ["novels", "OPTIONS,GET,HEAD,QUERY,POST,PUT,PATCH,DELETE"], // a view that is updatable in Postgres
    ["shelves", "OPTIONS,GET,HEAD,QUERY"], // a view that is not updatable
    ["rpc/books_by", "OPTIONS,GET,HEAD,QUERY,POST"],
  ])("of %s: %s", async (path, allow) => {
    const { status, text, headers } = await rest(path, { method: "OPTIONS" });
    expect([status, text, headers.get("allow")]).toEqual([200, "", allow]);
  });

  test("and ignores the rest of the request", async () => {
    const { status } = await rest("books?select=nothing&x", { method: "OPTIONS", headers: { accept: "x/y" } });
    expect(status).toBe(200);
  });

  test("only for existing tables and functions", async () => {
    expect(await failure("nothing", { method: "OPTIONS" })).toEqual([404, "PGRST205"]);
    expect(await failure("rpc/nothing", { method: "OPTIONS" })).toEqual([404, "PGRST202"]);
  });

  test("unless it is a CORS preflight request", async () => {
    const { status, headers } = await fetch(`${service().url}/rest/v1/books`, {
      method: "OPTIONS",
      headers: {
        origin: "https://app.example",
        "access-control-request-method": "PATCH",
        "access-control-request-headers": "apikey,prefer",
      },
    });
    expect(status).toBe(204);
    expect(headers.get("allow")).toBeNull();
    expect(headers.get("access-control-allow-origin")).toBe("https://app.example");
    expect(headers.get("access-control-allow-methods")).toContain("PATCH");
    expect(headers.get("access-control-allow-headers")).toBe("apikey,prefer");
  });

  test("and browsers may read the headers of other responses", async () => {
    const { headers } = await rest("books?limit=1", { headers: { origin: "https://app.example" } });
    expect(headers.get("access-control-allow-origin")).toBe("https://app.example");
    expect(headers.get("access-control-expose-headers")).toContain("Content-Range");
    expect(headers.get("vary")).toContain("Origin");
  });
});

describe("on the table interface", () => {
  test.each(["POST", "PATCH", "DELETE"])("%s on a read-only view is 405 with Allow", async (method) => {
    const { status, json, headers } = await rest("shelves?shelf=eq.poetry", {
      method,
      ...(method !== "DELETE" && { body: { shelf: "poetry" } }),
    });
    expect([status, json.code, headers.get("allow")]).toEqual([405, "PGRST117", "OPTIONS,GET,HEAD,QUERY"]);
  });

  test("an unknown method is 405", async () => {
    expect(await failure("books", { method: "PROPFIND" })).toEqual([405, "PGRST117"]);
    expect(await failure("rpc/books_by", { method: "DELETE" })).toEqual([405, "PGRST101"]);
  });

  test.each(["books/1", "books/", "rpc/a/b", "a/b/c"])("the path %s is 404", async (path) => {
    expect(await failure(path)).toEqual([404, "PGRST125"]);
  });

  test("table names in paths are percent-decoded", async () => {
    expect((await rest("odd%20names?the%20id=eq.1&select=and")).json).toEqual([{ and: 7 }]);
    expect((await rest("%62ooks?select=id&id=eq.1")).json).toEqual([{ id: 1 }]);
  });
});

test("reading a table without permission is 401 for anonymous callers and 403 for signed-in callers", async () => {
  expect(await failure("hidden")).toEqual([401, "42501"]);
  expect(await failure("hidden", { as: "ada" })).toEqual([403, "42501"]);
  expect((await rest("hidden")).headers.get("www-authenticate")).toBe("Bearer");
});

test("the header Proxy-Status has the code of an error", async () => {
  expect((await rest("books?nope=eq.1")).headers.get("proxy-status")).toBe("content-service; error=42703");
});

test("a read cannot write, not even through a function, and returns 405", async () => {
  expect(await failure("genres?select=scratch")).toEqual([405, "25006"]);
  expect((await rest("genres?name=eq.scratched")).json).toEqual([]);
});
