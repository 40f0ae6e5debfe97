import { describe, expect, test } from "vitest";
import { useLibrary } from "./library.ts";

const { rest, failure } = useLibrary();

/** Headers that differ for each response or connection, or depend on the body. */
const OWN = "change-position date x-request-id server-timing connection keep-alive content-length etag".split(" ");
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

  test("table names in paths are percent-decoded", async () => {
    expect((await rest("odd%20names?the%20id=eq.1&select=and")).json).toEqual([{ and: 7 }]);
    expect((await rest("%62ooks?select=id&id=eq.1")).json).toEqual([{ id: 1 }]);
  });
});

test("the header Proxy-Status has the code of an error", async () => {
  expect((await rest("books?nope=eq.1")).headers.get("proxy-status")).toBe("content-service; error=42703");
});
