import { once } from "node:events";
import { createServer, get, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { defineRoute } from "../../../app/index.ts";
import { DEMO } from "../../support/demo.ts";
import { openRaw } from "../../support/raw-socket.ts";
import { startTestService, type TestService } from "../../support/service.ts";

type Got = { readonly method: string; readonly url: string; readonly headers: IncomingMessage["headers"] };

/** Stands in for a storage server: keeps files, answers as Supabase Storage does, and remembers what it has got. */
const files = new Map<string, { readonly bytes: Buffer; readonly type: string }>();
const got: Got[] = [];
const storage: Server = createServer(async (request, response): Promise<unknown> => {
  const { method, url, headers } = request;
  got.push({ method: method!, url: url!, headers });
  if (url!.endsWith("/too-large")) {
    response.writeHead(413, { "Content-Type": "application/json" });
    return response.end(JSON.stringify({ statusCode: "413", error: "too_large", message: "The object is too large" }));
  }
  if (url!.endsWith("/slow")) return;
  if (url!.endsWith("/breaks")) {
    response.writeHead(200, { "Content-Length": 100 }).write("half");
    return setTimeout(() => request.socket.destroy(), 50);
  }
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const path = url!.replace(/^\/files/, "").split("?", 1)[0]!;
  const send = (status: number, body: object) => {
    response.writeHead(status, {
      "Content-Type": "application/json",
      "Access-Control-Allow-Origin": "https://storage.example",
    });
    response.end(JSON.stringify(body));
  };
  if (path === "/object/list/notes")
    return send(
      200,
      [...files.keys()].map((name) => ({ name })),
    );
  if (method === "POST" || method === "PUT") {
    files.set(path, { bytes: Buffer.concat(chunks), type: headers["content-type"]! });
    return send(200, { Key: path.slice("/object/".length), Id: "5d3f" });
  }
  const found = files.get(path.replace("/object/public/", "/object/"));
  if (!found) return send(400, { statusCode: "404", error: "not_found", message: "Object not found" });
  response.writeHead(200, {
    ...{ "Content-Type": found.type, "Content-Length": found.bytes.length, ETag: '"5d3f"' },
    ...{ "Set-Cookie": "SESSION=stolen", "Content-Security-Policy": "default-src *", "X-Powered-By": "storage" },
  });
  return response.end(found.bytes);
});
storage.on("upgrade", (_request, socket) => socket.end("HTTP/1.1 101 Switching Protocols\r\n\r\n"));

const hello = defineRoute({
  path: "/functions/v1/hello",
  methods: { POST: ({ body }, _response, { caller }) => ({ hello: body.name, role: caller.role }) },
});

let service: TestService;
const client = () => createClient(service.url, service.service.tokens.issueKey("anon"));
const bucket = () => client().storage.from("notes");

beforeAll(async () => {
  await new Promise<void>((resolve) => storage.listen(0, "127.0.0.1", resolve));
  const STORAGE_URL = `http://127.0.0.1:${(storage.address() as AddressInfo).port}/files/`;
  const settings = { STORAGE_URL, BODY_LIMIT: "1024" };
  service = await startTestService(settings, undefined, undefined, undefined, {
    definition: { ...DEMO, config: { ...DEMO.config, routes: [hello] } },
  });
  return () => service.stop();
});
afterAll(() => storage.close());
beforeEach(() => void got.splice(0));

test("supabase.storage writes, reads and lists files", async () => {
  const bytes = Buffer.alloc(3_000_000, "content ");
  expect(await bucket().upload("a/b.txt", bytes, { contentType: "text/plain" })).toMatchObject({ error: null });
  const read = await bucket().download("a/b.txt");
  expect(Buffer.from(await read.data!.arrayBuffer()).equals(bytes)).toBe(true);
  expect((await bucket().list()).data).toEqual([{ name: "/object/notes/a/b.txt" }]);
  expect((await bucket().download("none")).error).toMatchObject({ message: "Object not found" });
  expect(got.map(({ method, url }) => `${method} ${url}`)).toEqual([
    "POST /files/object/notes/a/b.txt",
    "GET /files/object/notes/a/b.txt",
    "POST /files/object/list/notes",
    "GET /files/object/notes/none",
  ]);
});

test("the storage server gets the token and who asks, and no cookie", async () => {
  const token = service.service.tokens.issueKey("anon");
  await fetch(`${service.url}/storage/v1/object/notes/a?token=x&w=1`, {
    headers: { authorization: `Bearer ${token}`, cookie: "SESSION_OTHER=1", "x-forwarded-host": "elsewhere.example" },
  });
  expect(got).toHaveLength(1);
  expect(got[0]!.url).toBe("/files/object/notes/a?token=x&w=1");
  expect(got[0]!.headers).toMatchObject({
    authorization: `Bearer ${token}`,
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-host": new URL(service.url).host,
    "x-forwarded-prefix": "/storage/v1",
    "x-forwarded-proto": "http",
  });
  expect(got[0]!.headers.cookie).toBeUndefined();
});

test("a file is no page of the service, and sites with its URL may show it", async () => {
  const page = Buffer.from("<script>document.title = document.cookie</script>");
  await bucket().upload("page.html", page, { contentType: "text/html" });
  const { headers } = await fetch(bucket().getPublicUrl("page.html").data.publicUrl);
  expect(Object.fromEntries(headers)).toMatchObject({
    "content-type": "text/html",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "cross-origin-resource-policy": "cross-origin",
    "x-content-type-options": "nosniff",
    etag: '"5d3f"',
  });
  expect(headers.get("set-cookie")).toBeNull();
  expect(headers.get("x-powered-by")).toBeNull();
  expect(headers.get("x-request-id")).not.toBeNull();
});

test("a token that is not valid here, and a path outside the storage server, do not reach it", async () => {
  const refused = await createClient(service.url, "eyJhbGciOiJIUzI1NiJ9.e30.c2ln").storage.from("notes").download("a");
  expect(refused.error).toMatchObject({ name: "StorageApiError", status: 401 });
  const [outside] = (await once(get(`${service.url}`, { path: "/storage/v1/%2e%2e/admin" }), "response")) as [
    IncomingMessage,
  ];
  expect([outside.statusCode, JSON.parse(await text(outside))]).toEqual([
    404,
    { statusCode: "404", error: "RESOURCE_NOT_FOUND", message: "there is no resource at this path" },
  ]);
  expect(got).toEqual([]);
});

test("what is not for a storage server does not reach it", async () => {
  const statusOf = async (path: string, init?: RequestInit) =>
    (await fetch(`${service.url}/storage/v1${path}`, init)).status;
  expect(await statusOf("/s3/notes/a?X-Amz-Credential=a")).toBe(404);
  expect(await statusOf("/%73%33/notes/a")).toBe(404);
  expect(await statusOf("/object/..%2f..%2fadmin")).toBe(404);
  expect(await statusOf("//[")).toBe(404);
  expect(await statusOf("//elsewhere.example/object/a")).toBe(404);
  expect(await statusOf("/object/notes/a", { method: "PURGE" })).toBe(405);
  const page = { "sec-fetch-site": "same-origin", "sec-fetch-dest": "script" };
  const [script] = (await once(
    get(service.url, { path: "/storage/v1/object/public/notes/a.js", headers: page }),
    "response",
  )) as [IncomingMessage];
  script.resume();
  expect(script.statusCode).toBe(403);
  expect(got).toEqual([]);

  // The body of a DELETE is no second request.
  const second = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
  const raw = await openRaw(service.url);
  raw.write("DELETE /storage/v1/object/notes/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  raw.write(`${second.length.toString(16)}\r\n${second}\r\n0\r\n\r\n`);
  await expect.poll(() => got.length, { timeout: 10_000 }).toBe(1);
  expect(got[0]).toMatchObject({ method: "DELETE", headers: { "transfer-encoding": "chunked" } });
  await statusOf("/object/notes/a", { headers: { "x-real-ip": "203.0.113.9", "x-forwarded-port": "1" } });
  expect(got.map(({ url, headers }) => [url, headers["x-real-ip"], headers["x-forwarded-port"]])).toEqual([
    ["/files/object/notes/a", undefined, undefined],
    ["/files/object/notes/a", undefined, undefined],
  ]);
});

test("an early refusal of the storage server reaches the client, and one that breaks off is no whole file", async () => {
  const big = Buffer.alloc(20_000_000);
  expect((await bucket().upload("too-large", big)).error).toMatchObject({
    status: 413,
    message: "The object is too large",
  });
  await expect(bucket().download("breaks")).rejects.toThrow("terminated");
  const upgraded = await fetch(`${service.url}/storage/v1/object/notes/none`);
  expect(upgraded.headers.get("vary")).toBe("Origin");
});

test("a network has at most 50 requests open at the storage server, and they end with their clients", async () => {
  const end = new AbortController();
  const slow = (signal?: AbortSignal) => fetch(`${service.url}/storage/v1/object/notes/slow`, signal ? { signal } : {});
  const open = Array.from({ length: 50 }, () => slow(end.signal).catch(() => "ended"));
  await expect.poll(() => got.length, { timeout: 10_000 }).toBe(50);
  const refused = await slow();
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
  end.abort();
  expect(new Set(await Promise.all(open))).toEqual(new Set(["ended"]));
  await expect.poll(async () => (await bucket().list()).error, { timeout: 10_000 }).toBeNull();
});

test("functions.invoke calls a route of the application", async () => {
  const { data } = await client().functions.invoke("hello", { body: { name: "Ann" } });
  expect(data).toEqual({ hello: "Ann", role: "anon" });
  expect((await client().functions.invoke("none")).error).toMatchObject({ name: "FunctionsHttpError" });
});

test("GraphQL of Supabase is elsewhere", async () => {
  const answered = await fetch(`${service.url}/graphql/v1`, { method: "POST", body: "{}" });
  expect([answered.status, await answered.json()]).toEqual([
    404,
    {
      errors: [
        {
          message: "This service has no pg_graphql: its GraphQL is at /graphql, with names of its own.",
          extensions: { code: "RESOURCE_NOT_FOUND" },
        },
      ],
    },
  ]);
});

test("a storage server that does not respond is 503, and without one there are no files", async () => {
  const dead = await startTestService({ STORAGE_URL: "http://127.0.0.1:9" });
  const none = await startTestService({});
  const readOf = async ({ url, service: { tokens } }: TestService) =>
    (await createClient(url, tokens.issueKey("anon")).storage.from("notes").download("a")).error;
  expect(await readOf(dead)).toMatchObject({ status: 503, message: "the storage server does not respond: try again" });
  expect(await readOf(none)).toMatchObject({ status: 404, message: expect.stringContaining("STORAGE_URL") });
  await Promise.all([dead.stop(), none.stop()]);
});
