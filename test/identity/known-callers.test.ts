import type { IncomingMessage } from "node:http";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Caller } from "../../db/caller.ts";
import type { AccountState, FoundKey } from "../../identity/account.ts";
import { CallerResolver } from "../../identity/caller-resolver.ts";
import type { IdentityStore } from "../../identity/identity-store.ts";
import { LookupCache } from "../../identity/lookup-cache.ts";
import { hexHashOf, newKey } from "../../identity/secrets.ts";
import { Tokens } from "../../identity/tokens.ts";
import { isRefusal } from "../../problems/problem.ts";

const options = { privateKey: "", audience: "", anonymousRole: "anon", accessSeconds: 3600, userId: "bigint" } as const;
const tokens = new Tokens({ ...options, secret: "a secret of the tests, long enough for HS256" });
const ADA = { id: "1", name: "Ada", role: "authenticated", permissions: [] };
const [anonKey, serviceKey] = [tokens.issueKey("anon"), tokens.issueKey("service_role")];
const bearerOf = (user: typeof ADA) => `Bearer ${tokens.issuePair(user).accessToken}`;

/** The rows of the database, and how often they were read. */
let account: AccountState | null;
let key: FoundKey | null;
let lookups: number;
let uses: string[];
let resolver: CallerResolver;
let store: IdentityStore;

beforeEach(() => {
  account = { epoch: 0, role: "authenticated", revoked: new Set(), kept: new Set() };
  key = { id: "7", kind: "service", expiresAt: null, account: null };
  [lookups, uses] = [0, []];
  const clock = () => Date.now();
  const noted = <Value>(value: Value) => {
    lookups++;
    return value;
  };
  const cacheOf = <Value>(read: () => Value) =>
    new LookupCache<Value>({ clock, maxAge: () => Number.POSITIVE_INFINITY, lookUp: async () => noted(read()) });
  const onKeyUsed = (id: string) => void uses.push(id);
  store = {
    accounts: cacheOf(() => account),
    keys: cacheOf(() => key),
    clock,
    onKeyUsed,
  } as Partial<IdentityStore> as IdentityStore;
  resolver = new CallerResolver({
    ...{ tokens, store, anonymousRole: "anon", showsCredentials: false },
    addressOf: () => "203.0.113.7",
  });
});

afterEach(() => void vi.useRealTimers());

const identify = (headers: object) => resolver.identify({ method: "GET", url: "/", headers } as IncomingMessage);

/** `"authenticated 1"`, or the reason of the refusal. `needsKey` as for the tables. */
async function outcome(headers: object, needsKey = false): Promise<string> {
  try {
    const { role, claims } = await identify(headers).caller({ needsKey });
    return [role, claims.sub].filter(Boolean).join(" ");
  } catch (error) {
    if (!isRefusal(error)) throw error;
    return error.reason;
  }
}

/** Sends the credentials until they are known. */
async function warm(headers: object, expected: string): Promise<void> {
  for (let i = 0; i < 3; i++) expect(await outcome(headers)).toBe(expected);
}

test("a known caller is the same object, found without a promise, with its name", async () => {
  const headers = { apikey: anonKey, authorization: bearerOf(ADA) };
  await warm(headers, "authenticated 1");
  const caller = identify(headers).caller() as Caller;
  expect(identify(headers).caller()).toBe(caller);
  expect([identify(headers).knownName, identify(headers).nameOf(caller), lookups]).toEqual(["user 1", "user 1", 1]);
});

test.each<[string, () => void]>([
  ["has another epoch", () => (account = { ...account!, epoch: 1 })],
  ["is disabled", () => (account = null)],
  ["has another role", () => (account = { ...account!, role: "admin" })],
])("a known token is refused when its account %s", async (_what, change) => {
  const headers = { authorization: bearerOf(ADA) };
  await warm(headers, "authenticated 1");
  change();
  store.accounts.delete("1");
  expect(await outcome(headers)).toBe("revoked token");
  expect([identify(headers).knownName, await outcome(headers)]).toEqual([null, "revoked token"]);
});

test("a request whose body is complete after a revocation is refused", async () => {
  const headers = { authorization: bearerOf(ADA) };
  await warm(headers, "authenticated 1");
  const identity = identify(headers);
  await identity.caller();
  await identity.recheck();
  account = { ...account!, epoch: 1 };
  store.accounts.delete("1");
  await expect(identity.recheck()).rejects.toMatchObject({ reason: "revoked token" });
});

test("without reports of changes, each request of a user is looked up", async () => {
  const headers = { authorization: bearerOf(ADA) };
  await warm(headers, "authenticated 1");
  store.accounts.setListening(false);
  await warm(headers, "authenticated 1");
  expect(lookups).toBe(4);
});

test("a known token expires by the clock", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const headers = { authorization: bearerOf(ADA) };
  await warm(headers, "authenticated 1");
  vi.setSystemTime(Date.now() + 3_600_000);
  expect([identify(headers).knownName, await outcome(headers)]).toEqual([null, "expired token"]);
});

test("a known key of the database is refused when it is revoked or expires, and each use is reported", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const apikey = newKey("service").key;
  key = { ...key!, expiresAt: new Date(Date.now() + 60_000).toISOString() };
  await warm({ apikey }, "service_role");
  expect(uses).toEqual(["7", "7", "7"]);
  vi.setSystemTime(Date.now() + 60_000);
  expect(await outcome({ apikey })).toBe("expired key");
  vi.setSystemTime(Date.now() - 30_000);
  await warm({ apikey }, "service_role");
  key = null;
  store.keys.delete(hexHashOf(apikey));
  expect(await outcome({ apikey })).toBe("bad key");
});

test("a known token is refused after a change of the signing key, and with another verifier", async () => {
  const own = new Tokens({ ...options, secret: "another secret of the tests, long enough for HS256" });
  resolver.follow({ tokens: own, anonymousRole: "anon" });
  const headers = { apikey: own.issueKey("service_role") };
  await warm(headers, "service_role");
  own.useKeys({ secret: "a third secret of the tests, long enough for HS256", privateKey: "" });
  expect(await outcome(headers)).toBe("bad key");
  resolver.follow({ tokens, anonymousRole: "anon" });
  expect(await outcome(headers)).toBe("bad key");
});

test("a known service key is refused in a browser, and everywhere when it is off", async () => {
  const headers = { apikey: serviceKey };
  await warm(headers, "service_role");
  expect(await outcome({ ...headers, origin: "https://a.example" })).toBe("service key in browser");
  resolver.refuseServiceKey();
  expect(await outcome(headers)).toBe("service key off");
});

test("known credentials without a key are refused where one is needed, and with another credential if they disagree", async () => {
  const authorization = bearerOf(ADA);
  await warm({ authorization }, "authenticated 1");
  await warm({ apikey: serviceKey }, "service_role");
  await warm({}, "anon");
  expect(await outcome({ authorization }, true)).toBe("no key");
  expect(await outcome({}, true)).toBe("no key");
  expect(await outcome({ authorization, apikey: serviceKey })).toBe("disagreement");
  expect(await outcome({ authorization, apikey: anonKey }, true)).toBe("authenticated 1");
});

test("a known token with a cookie, or with a key in the URL, is checked together with it", async () => {
  const headers = { authorization: bearerOf(ADA) };
  await warm(headers, "authenticated 1");
  const withKey = resolver.identify({ method: "GET", url: `/?api_key=${serviceKey}`, headers } as IncomingMessage);
  await expect((async () => withKey.caller())()).rejects.toMatchObject({ reason: "disagreement" });
  const inFilter = resolver.identify({ method: "GET", url: "/?api_key=eq.1", headers } as IncomingMessage, true);
  expect(await inFilter.caller()).toMatchObject({ role: "authenticated" });
  const wrong = resolver.identify({ method: "GET", url: "/?api_key=eq.1", headers } as IncomingMessage);
  await expect((async () => wrong.caller())()).rejects.toMatchObject({ reason: "bad key" });
});
