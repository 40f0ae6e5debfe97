import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { type PlainReply, sendPlain } from "./plain-http.ts";

const { api, service } = useResources();

/** As it stands in the address, whatever a browser would make of it. */
async function plain(method: string, path: string): Promise<PlainReply & { readonly code: string | undefined }> {
  const reply = await sendPlain(service().url, { method, path });
  return { ...reply, code: reply.text === "" ? undefined : JSON.parse(reply.text).error?.code };
}

describe("an id that is not an integer is 400 INVALID_ID for every method", () => {
  test.each([
    "abc",
    "1.0",
    "1.5",
    "+1",
    "%2B1",
    "007",
    "00",
    "1e3",
    "0x1",
    "1,2",
    "1;2",
    "%20",
    "1%20",
    "%201",
    "1%00",
    "%00",
    "%2F",
    "1%2F2",
    "..%2F1",
    "%EF%BC%91",
    "%D9%A1",
    "-",
    "--1",
    "null",
    "me",
    "1'--",
    "1)%20or%201=1",
    "a".repeat(8000),
    `${"%F0%9F%91%A9".repeat(60)}`,
  ])("/users/%s", async (id) => {
    for (const method of ["GET", "PUT", "PATCH", "DELETE"]) {
      const { status, code } = await plain(method, `/users/${id}`);
      expect([method, status, code]).toEqual([method, 400, "INVALID_ID"]);
    }
  });

  test("and the message quotes a part of it", async () => {
    const { status, json } = await api(`/users/${"x".repeat(5000)}`);
    expect(status).toBe(400);
    expect(json.error.message).toBe(`"${"x".repeat(50)}" is not a valid id of users: it must be a whole number`);
    expect(json.error.fields).toEqual({ id: "must be a valid id" });
  });
});

test.each([
  "0",
  "-0",
  "-1",
  "999",
  "9223372036854775807",
  "9223372036854775808",
  "-9223372036854775809",
  "9".repeat(8000),
])("/users/%s is an unknown integer: 404", async (id) => {
  const { status, code } = await plain("GET", `/users/${id}`);
  expect([status, code]).toEqual([404, "USER_NOT_FOUND"]);
});

test.each(["%31", "1?", "1?fields=id"])("/users/%s is user 1", async (path) => {
  const { status, text } = await plain("GET", `/users/${path}`);
  expect([status, JSON.parse(text).id]).toEqual([200, 1]);
});

test.each([
  "/users/",
  "/users/1/",
  "/users//",
  "/users//1",
  "//users",
  "/users/1/articles/",
  "/users/1/nothing",
  "/users/1/articles/1/comments",
  "/Users",
  "/USERS/1",
  "/user",
  "/users.json",
  "/users/1/__proto__",
  "/__proto__",
  "/constructor",
  "/users/1/constructor",
  "/api/v1/users/",
  "/api/v1",
  "/api/v1/",
  "/api/v1/__proto__",
  "/api/users",
  "/users%2F1",
])("%s is 404 RESOURCE_NOT_FOUND", async (path) => {
  const { status, code } = await plain("GET", path);
  expect([status, code]).toEqual([404, "RESOURCE_NOT_FOUND"]);
});

test.each(["/users/%", "/users/%zz", "/users/%FF", "/users/%C0%AF", "/users/%ED%A0%80"])(
  "%s is not UTF-8: 400 BAD_REQUEST",
  async (path) => {
    const { status, code } = await plain("GET", path);
    expect([status, code]).toEqual([400, "BAD_REQUEST"]);
  },
);

describe("methods", () => {
  const LIST = "GET, HEAD, POST, OPTIONS";
  const RECORD = "GET, HEAD, PUT, PATCH, DELETE, OPTIONS";

  test.each([
    ["PUT", "/users", LIST],
    ["PATCH", "/users", LIST],
    ["DELETE", "/users", LIST],
    ["POST", "/users/1", RECORD],
    ["POST", "/users/999", RECORD],
    ["TRACE", "/users", LIST],
    ["PROPFIND", "/users/1", RECORD],
    ["QUERY", "/users", LIST],
    ["POST", "/users/1/articles", "GET, HEAD, OPTIONS"],
  ])("%s %s is 405 with the supported methods in Allow", async (method, path, allow) => {
    const { status, headers, text } = await plain(method, path);
    expect([status, headers.allow]).toEqual([405, allow]);
    expect(JSON.parse(text).error.message).toBe(`${method} is not allowed here: use ${allow}`);
  });

  test.each([
    ["/users", LIST],
    ["/users?limit=nonsense", LIST],
    ["/users/1", RECORD],
    ["/users/999", RECORD],
    ["/users/1/articles", "GET, HEAD, OPTIONS"],
  ])("OPTIONS %s is 204 with Allow for every caller", async (path, allow) => {
    const { status, headers, text } = await plain("OPTIONS", path);
    expect([status, headers.allow, text]).toEqual([204, allow, ""]);
  });

  test("OPTIONS of an unknown path is 404", async () => {
    expect((await plain("OPTIONS", "/users/1/nothing")).status).toBe(404);
    expect((await plain("OPTIONS", "/users/abc")).status).toBe(400);
  });

  test("a preflight request of a browser gets the methods", async () => {
    const headers = { origin: "https://app.example", "access-control-request-method": "PATCH" };
    const answer = await api("OPTIONS /users/1", { headers });
    expect(answer.status).toBe(204);
    expect(answer.headers.get("access-control-allow-methods")).toMatch(/PATCH/);
  });
});

describe("HEAD returns the headers of GET and no body", () => {
  const OWN = new Set(["change-position", "date", "x-request-id", "connection", "keep-alive"]);
  const received = ({ status, headers }: PlainReply) => [
    status,
    Object.fromEntries(Object.entries(headers).filter(([name]) => !OWN.has(name))),
  ];

  test.each([
    "/users/1",
    "/users",
    "/users?limit=2&skip=1",
    "/users?page=1&limit=2",
    "/users?page=0",
    "/users/1/articles",
    "/users/999",
    "/users/abc",
    "/users?limit=x",
    "/users/",
    "/users/1/nothing",
  ])("%s", async (path) => {
    const [get, head] = [await plain("GET", path), await plain("HEAD", path)];
    expect(received(head)).toEqual(received(get));
    expect([head.text, get.headers["content-length"]]).toEqual(["", String(Buffer.byteLength(get.text))]);
  });
});
