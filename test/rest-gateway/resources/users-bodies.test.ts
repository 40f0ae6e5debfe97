import http from "node:http";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { sendPlain } from "./plain-http.ts";
import { allUsers, newEmail } from "./users.ts";

const client = useResources();
const { api, failure, service } = client;
const GRACE = { name: "Grace", email: "grace@test.example" };

describe("an invalid body is rejected, and nothing is written", () => {
  let before: string;
  beforeEach(async () => {
    before = await allUsers(client);
  });
  afterEach(async () => {
    expect(await allUsers(client)).toBe(before);
  });

  describe.each(["POST /users", "PUT /users/1", "PATCH /users/1"])("%s", (request) => {
    test.each([
      ["nothing", ""],
      ["blanks", " \r\n\t"],
      ["half an object", '{"name":'],
      ["a trailing comma", '{"name":"Grace",}'],
      ["text after it", '{"name":"Grace"} x'],
      ["two of them", '{"name":"Grace"}{"name":"Grace"}'],
      ["single quotes", "{'name':'Grace'}"],
      ["a comment", '{"name":"Grace"/**/}'],
      ["NaN", '{"age":NaN}'],
      ["a number with a plus", '{"age":+1}'],
      ["a number that begins with 0", '{"age":01}'],
      ["a line break in a text", '{"name":"Gra\nce"}'],
      ["a form", "name=Grace&email=grace%40test.example"],
      ["XML", "<user><name>Grace</name></user>"],
      ["a byte order mark", '\ufeff{"name":"Grace"}'],
      ["bytes that are not UTF-8", Buffer.from('{"name":"Gr\xe4ce"}', "latin1")],
      ["UTF-16", Buffer.from('{"name":"Grace"}', "utf16le")],
      ["brackets in 65 levels", `{"name":${"[".repeat(64)}${"]".repeat(64)}}`],
      ["brackets in 100,000 levels", "[".repeat(100_000)],
    ])("%s is 400 INVALID_JSON", async (_, body) => {
      const [status, code, message] = await failure(request, { body });
      expect([status, code]).toEqual([400, "INVALID_JSON"]);
      expect(message).toMatch(/^the body is not valid JSON: ./);
    });

    test.each(["null", "true", "7", '"Grace"', "-0", "1e999"])(
      "%s is not an object: 400 VALIDATION_ERROR",
      async (body) => {
        const [status, code, message] = await failure(request, { body });
        expect([status, code]).toEqual([400, "VALIDATION_ERROR"]);
        expect(message).toMatch(/^the body must be a JSON object, not (null|a boolean|a number|a string)$/);
      },
    );

    test.each([
      ["application/x-www-form-urlencoded"],
      ["text/plain"],
      ["text/json"],
      ["multipart/form-data; boundary=x"],
      ["application/xml"],
      ["application/jsonx"],
      ["application/json-patch+json"],
      ["application/problem+json"],
      ["application/vnd.api+json"],
      ["application/vnd.content.v3+json"],
      ["application/json; charset=latin1"],
      ["application/json; charset=utf-16"],
      ["application/json, text/plain"],
      ["json"],
      [""],
    ])("Content-Type: %s is 415", async (type) => {
      const sent = { body: GRACE, headers: { "content-type": type } };
      const message = "the body must be sent as Content-Type: application/json";
      expect(await failure(request, sent)).toEqual([415, "VALIDATION_ERROR", message]);
    });

    test("without a Content-Type it is 415", async () => {
      const [method, path = ""] = request.split(" ");
      const { status, text } = await sendPlain(service().url, { method, path, body: JSON.stringify(GRACE) });
      const message = "the request has no Content-Type: send Content-Type: application/json";
      expect([status, JSON.parse(text).error.message]).toEqual([415, message]);
    });

    test("an empty body is 400 INVALID_JSON", async () => {
      const [method, path = ""] = request.split(" ");
      const { status, text } = await sendPlain(service().url, { method, path });
      expect([status, JSON.parse(text).error.code]).toEqual([400, "INVALID_JSON"]);
    });

    test.each(["gzip", "br", "deflate", "identity"])("Content-Encoding: %s is 415", async (encoding) => {
      const sent = { body: GRACE, headers: { "content-encoding": encoding } };
      expect((await failure(request, sent)).slice(0, 2)).toEqual([415, "VALIDATION_ERROR"]);
    });

    test("of more than 1 MiB is 413, announced or not", async () => {
      const body = JSON.stringify({ ...GRACE, nickname: "x".repeat(1_048_576) }).slice(0, 1_048_577);
      const message = "the body must not be larger than 1048576 bytes";
      expect(await failure(request, { body })).toEqual([413, "VALIDATION_ERROR", message]);
      const [method, path = ""] = request.split(" ");
      const headers = { "content-type": "application/json", "transfer-encoding": "chunked" };
      const { status, text } = await sendPlain(service().url, { method, path, headers, body });
      expect([status, JSON.parse(text).error.message]).toEqual([413, message]);
    });
  });

  test.each(["PUT /users/1", "PATCH /users/1"])("%s of an array is 400 VALIDATION_ERROR", async (request) => {
    const message = "the body must be a JSON object, not an array";
    for (const body of [[], [GRACE]])
      expect(await failure(request, { body })).toEqual([400, "VALIDATION_ERROR", message]);
  });
});

test.each([
  "application/json",
  "application/json;charset=utf-8",
  'Application/JSON; Charset="UTF-8"',
  "application/vnd.content.v1+json",
  "application/vnd.content.v2+json",
])("Content-Type: %s is JSON", async (type) => {
  const sent = { body: { name: "Grace", email: newEmail() }, headers: { "content-type": type } };
  expect((await api("POST /users", sent)).status).toBe(201);
});

test("Content-Type: application/merge-patch+json is allowed only for PATCH", async () => {
  const headers = { "content-type": "application/merge-patch+json" };
  expect((await api("PATCH /users/4", { body: { age: 5 }, headers })).json.age).toBe(5);
  for (const request of ["POST /users", "PUT /users/4"])
    expect((await api(request, { body: { name: "Grace", email: newEmail() }, headers })).status).toBe(415);
});

test("a body of 1 MiB is read", async () => {
  const start = `{"name":"Grace","email":"${newEmail()}","nickname":"`;
  const body = `${start}${"x".repeat(1_048_576 - start.length - 2)}"}`;
  expect((await api("POST /users", { body })).status).toBe(201);
});

test("of a duplicate key the last value is used", async () => {
  const email = newEmail();
  const body = `{"name":"First","email":"grace","email":"${email}","name":"Last"}`;
  expect((await api("POST /users", { body })).json).toMatchObject({ name: "Last", email });
});

test("names with a meaning in JavaScript are ordinary names", async () => {
  const email = newEmail();
  const body = `{"__proto__":{"name":"Eve"},"constructor":{"prototype":{"age":1}},"toString":1,"email":"${email}","name":"Grace"}`;
  expect((await api("POST /users", { body })).json).toMatchObject({ name: "Grace", email, age: null });
  expect(await failure("POST /users", { body: `{"__proto__":{"name":"Eve"},"email":"${newEmail()}"}` })).toEqual([
    400,
    "MISSING_FIELD",
    "name is required",
  ]);
});

test.each([
  ["GET", 200],
  ["HEAD", 200],
  ["OPTIONS", 204],
])("a body of %s is ignored", async (method, expected) => {
  const body = "x".repeat(2_000_000);
  const headers = { "content-length": "2000000", "content-type": "text/plain" };
  expect((await sendPlain(service().url, { method, path: "/users/1", headers, body })).status).toBe(expected);
});

test("a body of DELETE is ignored", async () => {
  expect((await api("DELETE /users/999", { body: "{" })).json.error.code).toBe("USER_NOT_FOUND");
});

test("after a rejected body the connection serves the next request", async () => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const { url } = service();
  const headers = { "content-type": "application/json" };
  const large = "x".repeat(1_500_000);
  expect((await sendPlain(url, { method: "POST", path: "/users", headers, body: large }, agent)).status).toBe(413);
  expect((await sendPlain(url, { method: "POST", path: "/users/1", headers, body: large }, agent)).status).toBe(405);
  expect((await sendPlain(url, { method: "PATCH", path: "/users/x", headers, body: large }, agent)).status).toBe(400);
  expect((await sendPlain(url, { path: "/users/1" }, agent)).status).toBe(200);
});
