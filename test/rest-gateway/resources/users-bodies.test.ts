import http from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { useResources } from "../../support/resource-client.ts";
import { sendPlain } from "./plain-http.ts";
import { newEmail } from "./users.ts";

const { api, failure, service } = useResources();

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
