import { beforeEach, describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { type SessionClient, signedIn } from "./session-client.ts";

let now = Date.now();
const wait = (seconds: number) => {
  now += seconds * 1000;
};

const MINUTE = 60;
const HOUR = 3600;

const client = useService({}, () => now);
const short = useService({ SESSION_MAX_AGE: "60" }, () => now);

let browser: SessionClient;
beforeEach(async () => {
  browser = await signedIn(client, "ada");
});

const status = async () => (await browser.me()).status;
const seenAt = async () => (await client.sql("select seen_at from auth_private.sessions"))[0]!.seen_at.getTime();

describe("the idle timeout of a session", () => {
  test("ends it after 30:00, not after 29:59", async () => {
    wait(30 * MINUTE - 1);
    expect(await status()).toBe(200);
    wait(30 * MINUTE);
    const { status: ended, headers } = await browser.me();
    expect([ended, headers.getSetCookie()]).toEqual([
      401,
      ["SESSION=; Path=/; HttpOnly; Secure; SameSite=Strict; Max-Age=0"],
    ]);
    expect(await client.sql("select from auth_private.sessions")).toEqual([]);
  });

  test.each([
    ["/api/auth/me", {}],
    ["/csrf-token", {}],
    ["/users/1", {}],
    ["/rest/v1/users?limit=1", { apikey: true }],
    ["/graphql?query={__typename}", {}],
  ])("is postponed by every request: %s", async (path, { apikey }: { apikey?: boolean }) => {
    const headers: Record<string, string> = apikey ? { apikey: client.service().service.tokens.issueKey("anon") } : {};
    for (let i = 0; i < 3; i++) {
      wait(30 * MINUTE - 1);
      expect((await browser.send(path, undefined, headers)).status).toBe(200);
    }
    wait(30 * MINUTE - 1);
    expect(await status()).toBe(200);
  });

  test("ends it for good", async () => {
    const { cookie } = browser;
    wait(30 * MINUTE);
    for (let i = 0; i < 3; i++) {
      expect((await client.send("/users/1", { headers: { cookie } })).status).toBe(401);
      wait(-10 * MINUTE);
    }
  });

  test("is stored at most every 30 seconds, which is its precision", async () => {
    await status();
    const first = await seenAt();
    wait(29);
    for (let i = 0; i < 3; i++) await status();
    expect(await seenAt()).toBe(first);
    wait(1);
    await status();
    expect(await seenAt()).toBe(first + 30_000);

    wait(29);
    await status();
    wait(30 * MINUTE - 29 - 1);
    expect(await status()).toBe(200);
  });
});

describe("a session that is in use ends", () => {
  test("12 hours after the login", async () => {
    for (let i = 0; i < 25; i++) {
      expect(await status()).toBe(200);
      wait(28.75 * MINUTE);
    }
    wait(12 * HOUR - 25 * 28.75 * MINUTE - 1);
    expect(await status()).toBe(200);
    wait(1);
    expect(await status()).toBe(401);
  });

  test("SESSION_MAX_AGE seconds after the login, to the second", async () => {
    const { cookie } = await signedIn(short, "ada");
    const apikey = short.service().service.tokens.issueKey("anon");
    const statuses = async () => [
      (await short.send("/api/auth/me", { headers: { cookie } })).status,
      (await short.send("/users/1", { headers: { cookie } })).status,
      (await short.send("/rest/v1/users?limit=1", { headers: { cookie, apikey } })).status,
    ];
    wait(40);
    expect(await statuses()).toEqual([200, 200, 200]);
    wait(19);
    expect(await statuses()).toEqual([200, 200, 200]);
    wait(1);
    expect(await statuses()).toEqual([401, 401, 401]);
  });
});
