import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { RoundTrips } from "../../support/round-trips.ts";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";

const trips = new RoundTrips();
const { api, codeOf, enrol } = useFactors({}, trips);
const LOGINS = ["/auth/login", "/api/auth/login"];

/** Sends a login and returns its status and how often it waited for the database. */
async function send(path: string, body: object, headers: Record<string, string> = {}) {
  const id = randomUUID();
  const sent = { body, headers: { ...headers, "x-request-id": id } };
  const { status, json, headers: received } = await api(`POST ${path}`, sent);
  return { status, json, waits: trips.of(id), cookie: received.get("set-cookie") };
}

describe.each(LOGINS)("a login at %s", (path) => {
  test("waits for the database twice, whether the password is right, wrong or of an unknown name", async () => {
    for (const [username, password, expected] of [
      ["ada", PASSWORD, 200],
      ["ada", "Wrong-Horse-7!!!", 401],
      ["unknown", PASSWORD, 401],
      ["carol", PASSWORD, 403],
      ["carol", "Wrong-Horse-7!!!", 401],
    ] as const) {
      const { status, waits } = await send(path, { username, password });
      expect([username, status, waits]).toEqual([username, expected, 2]);
    }
  });

  test("over the limit waits once", async () => {
    for (let i = 0; i < 5; i++) await send(path, { username: "ada", password: "Wrong-Horse-7!!!" });
    expect(await send(path, { username: "ada", password: PASSWORD })).toMatchObject({ status: 429, waits: 1 });
  });

  test("with the code of a second factor waits three times, also when a challenge completes it", async () => {
    const { secret, backupCodes } = await enrol("ada");
    const credentials = { username: "ada", password: PASSWORD };
    expect(await send(path, { ...credentials, code: codeOf(secret) })).toMatchObject({ status: 200, waits: 3 });
    expect(await send(path, { ...credentials, code: backupCodes[0] })).toMatchObject({ status: 200, waits: 3 });
    expect(await send(path, { ...credentials, code: "000000" })).toMatchObject({ status: 401, waits: 3 });
    const { status, waits, json } = await send(path, credentials);
    expect([status, waits]).toEqual([401, 2]);
    const completed = await send(path, { challenge: json.challenge, code: backupCodes[1] });
    expect([completed.status, completed.waits]).toEqual([200, 3]);
  });
});

test("a login that replaces the session of the browser waits twice", async () => {
  const body = { username: "ada", password: PASSWORD };
  const { cookie } = await send("/api/auth/login", body);
  const again = await send("/api/auth/login", body, { cookie: cookie!.split(";")[0]! });
  expect([again.status, again.waits]).toEqual([200, 2]);
});

test("at /auth/v1, a sign-in waits twice, and a refresh once, as at /auth/refresh", async () => {
  const own = await send("/auth/login", { username: "bob", password: PASSWORD });
  expect(await send("/auth/refresh", { refreshToken: own.json.refreshToken })).toMatchObject({ status: 200, waits: 1 });
  const sent = { email: "bob@example.com", password: PASSWORD };
  const { status, waits, json } = await send("/auth/v1/token?grant_type=password", sent);
  expect([status, waits]).toEqual([200, 2]);
  const refreshed = await send("/auth/v1/token?grant_type=refresh_token", { refresh_token: json.refresh_token });
  expect([refreshed.status, refreshed.waits]).toEqual([200, 1]);
});

test.each(["otp", "recover"])("at /auth/v1/%s, an unknown address waits as one with an account does", async (path) => {
  const of = async (email: string) => {
    const { status, waits } = await send(`/auth/v1/${path}`, { email, create_user: false });
    return [status, waits];
  };
  expect(await of("unknown@example.com")).toEqual(await of("bob@example.com"));
});
