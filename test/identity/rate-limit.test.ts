import { beforeAll, describe, expect, test } from "vitest";
import { useService } from "../support/http-client.ts";
import { basic, cookieOf, credentialsOf, KINDS, makeKey, makeSession } from "./support.ts";

type Headers = Readonly<Record<string, string>>;

describe.each(["/users", "/graphql?query={__typename}"])("RATE_LIMIT on %s", (path) => {
  const { send, service } = useService({ RATE_LIMIT: "12", LOGIN_ATTEMPTS: "1000", TRUST_PROXY: "loopback" });
  const left = async (headers: Headers = {}) => {
    const answer = await send(path, { headers });
    expect(answer.headers.get("x-ratelimit-limit")).toBe("12");
    return answer.status === 429 ? "over" : Number(answer.headers.get("x-ratelimit-remaining"));
  };

  // The GraphQL schema is built before, by a request of another address.
  beforeAll(async () => void (await send(path, { headers: { "x-forwarded-for": "203.0.113.1" } })));

  test("counts users and keys separately from their IP address", async () => {
    const ada = await credentialsOf("Bearer", service(), 1);
    const bob = await credentialsOf("X-API-Key", service(), 2);
    const job = { "x-api-key": await makeKey(service(), null) };
    // The first request of each counts for the IP address, because the caller is not known yet.
    expect([await left(ada), await left(bob), await left(job)]).toEqual([11, 10, 9]);
    expect([await left(ada), await left(ada), await left(bob), await left(job)]).toEqual([11, 10, 11, 11]);

    // Invalid and missing credentials count for the IP address.
    for (let i = 0; i < 20; i++) await left(i % 2 ? {} : { "x-api-key": "garbage" });
    expect(await left({ authorization: "Bearer garbage" })).toBe("over");
    expect(await left({ authorization: basic("ada", "garbage") })).toBe("over");
    expect(await left({ apikey: service().service.tokens.issueKey("anon") })).toBe("over");
    expect(await left(ada)).not.toBe("over");
    expect(await left(bob)).not.toBe("over");

    for (let i = 0; i < 12; i++) await left(ada);
    expect(await left(ada)).toBe("over");
    expect(await left(bob)).not.toBe("over");
  });
});

describe("a user", () => {
  let now = Date.now();
  const { send, service, sql } = useService({ RATE_LIMIT: "60", LOGIN_ATTEMPTS: "1000" }, () => now);
  const left = async (headers: Headers) =>
    Number((await send("/users", { headers })).headers.get("x-ratelimit-remaining"));

  test("is one caller, whatever the credential", async () => {
    const all: Headers[] = [];
    for (const kind of KINDS) all.push(await credentialsOf(kind, service(), 1));
    for (const headers of all) await left(headers);
    const counts: number[] = [];
    for (const headers of all) counts.push(await left(headers));
    // Some requests may have been refilled in between.
    expect(counts.at(-1)).toBeLessThan(57);
  });

  test("is unknown as soon as the key has expired", async () => {
    const key = { "x-api-key": await makeKey(service(), 1, new Date(now + 60_000)) };
    const bearer = await credentialsOf("Bearer", service(), 1);
    for (const headers of [key, bearer]) await left(headers);
    const before = await left(bearer);
    expect(await left(key)).toBeLessThanOrEqual(before);
    now += 60_000;
    for (let i = 0; i < 20; i++) expect((await send("/users", { headers: key })).status).toBe(401);
    expect(await left(bearer)).toBeGreaterThanOrEqual(before - 2);
  });

  test("is unknown as soon as the credential has ended", async () => {
    const session = cookieOf(await makeSession(service(), 2));
    await left(session);
    expect(await left(session)).toBe(59);
    await sql("delete from auth_private.sessions");
    await expect.poll(async () => (await send("/users", { headers: session })).status).toBe(401);
    const before = await left({});
    // A request may have been refilled in between.
    expect(await left(session)).toBeLessThanOrEqual(before);
  });
});
