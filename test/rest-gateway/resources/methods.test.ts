import { describe, expect, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { type PlainReply, sendPlain } from "./plain-http.ts";

const { api, service } = useResources();
const plain = (method: string, path: string) => sendPlain(service().url, { method, path });

const LIST = "GET, HEAD, POST, OPTIONS";
const RECORD = "GET, HEAD, PUT, PATCH, DELETE, OPTIONS";
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "QUERY"];

test.each([
  ["/users", LIST],
  ["/users?limit=nonsense", LIST],
  ["/users/1", RECORD],
  ["/users/999", RECORD],
  ["/users/1/articles", "GET, HEAD, OPTIONS"],
  ["/users/1/articles/1", RECORD],
  ["/articles", LIST],
  ["/articles/1", RECORD],
  ["/articles/1/publish", "POST, OPTIONS"],
  ["/articles/1/comments", LIST],
  ["/articles/1/comments/1", RECORD],
])("%s has the methods %s: OPTIONS is 204 and every other method 405, with Allow", async (path, allow) => {
  const options = await plain("OPTIONS", path);
  expect([options.status, options.headers.allow, options.text]).toEqual([204, allow, ""]);
  for (const method of METHODS.filter((each) => !allow.split(", ").includes(each))) {
    const { status, headers, text } = await plain(method, path);
    expect([method, status, headers.allow]).toEqual([method, 405, allow]);
    if (method === "HEAD") expect(text).toBe("");
    else expect(JSON.parse(text).error.message).toBe(`${method} is not allowed here: use ${allow}`);
  }
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
