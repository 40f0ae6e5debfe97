import { afterAll, beforeAll, expect, test } from "vitest";
import { upgrade } from "../support/raw-socket.ts";
import { startTestService, type TestService } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ PARTS: "+console" });
});
afterAll(() => service.stop());

const GARBAGE = { authorization: "Bearer garbage" };
const INVALID = "the access token is not valid: sign in again";
const CHANNELS = "/realtime/v1/websocket?vsn=1.0.0";

const challengeFor = (message: string | null) =>
  message === null ? "Bearer" : `Bearer error="invalid_token", error_description="${message}"`;

/** `message` is that of the body; null if no credential was sent, or one that is no token and no key. */
test.each<[path: string, sent: Readonly<Record<string, string>>, message: string | null]>([
  ["/users", GARBAGE, INVALID],
  ["/users", { "x-api-key": "garbage" }, "the API key is not valid"],
  ["/users", { cookie: "SESSION=garbage" }, null],
  ["/auth/keys", {}, null],
  ["/auth/keys", GARBAGE, INVALID],
  ["/rest/v1/users", {}, null],
  ["/rest/v1/users", { apikey: "garbage" }, "Invalid API key"],
  ["/auth/v1/user", {}, null],
  ["/auth/v1/user", { apikey: "garbage" }, "Invalid API key"],
  ["/realtime/v1/api/broadcast", {}, null],
  ["/config", {}, null],
])("401 of %s for %j has the challenge of every interface", async (path, headers, message) => {
  const response = await fetch(service.url + path, { headers });
  expect([response.status, response.headers.get("www-authenticate")]).toEqual([401, challengeFor(message)]);
  if (message !== null) expect(await response.text()).toContain(message);
});

test.each([
  [CHANNELS, null],
  [`${CHANNELS}&apikey=garbage`, "the API key is not valid"],
])("401 of a WebSocket at %s has it, too", async (path, message) => {
  const raw = await upgrade(service.url, { path, protocol: null });
  const { status, headers } = await raw.head();
  expect([status, headers.split("\r\n").at(-1)]).toEqual([401, `WWW-Authenticate: ${challengeFor(message)}`]);
});

test("401 of the sign-in to the console has it, too", async () => {
  const body = new URLSearchParams({ credential: "garbage" });
  const sent = { method: "POST", body, headers: { origin: service.url } };
  const response = await fetch(`${service.url}/console/sign-in`, sent);
  expect([response.status, response.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
});
