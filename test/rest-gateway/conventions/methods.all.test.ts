import { describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { openRaw } from "../../support/raw-socket.ts";

const { send, service } = useService({ PARTS: "+site,+reference,+explorer" });

const READ = "GET, HEAD, OPTIONS";
/** Paths and the methods that they allow. */
const PATHS: readonly (readonly [path: string, allow: string])[] = [
  ["/live", READ],
  ["/health", READ],
  ["/docs", READ],
  ["/docs/scalar-1.72.1.js", READ],
  ["/docs/errors", READ],
  ["/graphiql", READ],
  ["/assets/graphiql.js", READ],
  ["/auth/login", "POST, OPTIONS"],
  ["/api/auth/login", "POST, OPTIONS"],
  ["/api/auth/logout", "POST, OPTIONS"],
  ["/.well-known/jwks.json", READ],
];
const METHODS = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "PROPFIND"];

describe.each(PATHS)("%s", (path, allow) => {
  const allowed = allow.split(", ");

  test("returns 204 with Allow for OPTIONS", async () => {
    const { status, headers, text } = await send(path, { method: "OPTIONS" });
    expect([status, headers.get("allow"), text]).toEqual([204, allow, ""]);
  });

  test.each(METHODS.filter((method) => !allowed.includes(method)))(
    "returns 405 with Allow in JSON for %s",
    async (method) => {
      const { status, headers, text, json } = await send(path, { method });
      expect([status, headers.get("allow")]).toEqual([405, allow]);
      expect(headers.get("content-type")).toBe("application/json; charset=utf-8");
      if (method === "HEAD") return expect(text).toBe("");
      expect(json).toMatchObject({
        error: {
          code: "VALIDATION_ERROR",
          message: `${method} is not allowed here: use ${allow}`,
          requestId: headers.get("x-request-id"),
          documentation: "/docs/errors",
        },
        status: 405,
      });
    },
  );
});

/** Headers that differ for each response or connection. */
const OWN = new Set(["date", "x-request-id", "connection", "keep-alive"]);
/** A page with styles of its own has a new nonce each time. */
const shared = (headers: Headers) =>
  [...headers].flatMap(([name, value]) => (OWN.has(name) ? [] : [[name, value.replace(/'nonce-[^']+'/, "'nonce'")]]));

test.each(PATHS.filter(([, allow]) => allow === READ).map(([path]) => path))(
  "HEAD %s has the headers of GET and no body",
  async (path) => {
    const responses = async () => [await send(path), await send(path, { method: "HEAD" }), await send(path)] as const;
    const lengthOf = ({ headers }: { headers: Headers }) => headers.get("content-length");
    let [get, head, again] = await responses();
    // What /health reports may change in between.
    while (lengthOf(get) !== lengthOf(again)) [get, head, again] = await responses();
    expect([head.status, head.text]).toEqual([200, ""]);
    expect(shared(head.headers)).toEqual(shared(get.headers));
  },
);

const UNKNOWN = [
  ...["/nothing", "/live/", "/docs/", "/docs/errors/", "/auth/login/", "/graphiql/", "/LIVE", "/Auth/Login"],
  ...["/graphqlx", "/healthz", "/nowhere/1/../2", "/%00", "/%zz"],
];

test.each(UNKNOWN)("the unknown path %s is 404 in JSON for every method, without a body for HEAD", async (path) => {
  for (const method of METHODS) {
    const { status, headers, text, json } = await send(path, { method });
    expect([status, headers.get("content-type")]).toEqual([404, "application/json; charset=utf-8"]);
    if (method === "HEAD") expect(text).toBe("");
    else expect(json).toMatchObject({ error: { code: "RESOURCE_NOT_FOUND" }, status: 404 });
  }
});

test("an unknown file of a page is 404", async () => {
  expect(await send("/assets/nothing.js")).toMatchObject({
    status: 404,
    json: { error: { code: "RESOURCE_NOT_FOUND" } },
  });
});

test("OPTIONS * is 404", async () => {
  const raw = await openRaw(service().url);
  raw.write("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n");
  expect((await raw.head()).status).toBe(404);
});

test("a static document has an entity tag, and a request with it in If-None-Match is 304", async () => {
  for (const path of ["/docs", "/docs/errors", "/.well-known/jwks.json"]) {
    const etag = (await send(path)).headers.get("etag")!;
    expect(etag).toMatch(/^"[\w-]{16}(-gzip)?"$/);
    const again = await send(path, { headers: { "if-none-match": `"other", W/${etag}` } });
    expect([again.status, again.text, again.headers.get("etag")]).toEqual([304, "", etag]);
    expect((await send(path, { headers: { "if-none-match": '"other"' } })).status).toBe(200);
  }
});

describe("/docs/errors", () => {
  test("explains the codes in plain text", async () => {
    const { status, headers, text } = await send("/docs/errors");
    expect([status, headers.get("content-type"), headers.get("cache-control")]).toEqual([
      200,
      "text/plain; charset=utf-8",
      "public, max-age=300",
    ]);
    expect(text).toMatch(/^# Errors\n/);
    expect(text).toContain("USER_NOT_FOUND");
  });
});
