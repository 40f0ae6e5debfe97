import { describe, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";

const PASSWORD = "Correct-Horse-7!";
const WRONG = "Wrong-Horse-7!!!";
const MINUTE = 60_000;
let now = Date.now();
const client = useService({ TRUST_PROXY: "loopback" }, () => now);
const narrow = useService({
  TRUST_PROXY: "loopback",
  LOGIN_ATTEMPTS: "2",
  LOGIN_ATTEMPTS_PER_ADDRESS: "4",
  LOGIN_WINDOW: "60",
});
const wide = useService({ LOGIN_ATTEMPTS: "1000", LOGIN_ATTEMPTS_PER_ADDRESS: "1000" });

let count = 0;
/** An address that nobody has come from. */
const anAddress = () => `203.0.113.${++count}`;
const login = (address: string, username: string, password: string, path = "/auth/login", at = client) =>
  sendJson(at, path, { username, password }, { "x-forwarded-for": address });
const statuses = async (replies: Promise<{ status: number }>[]) =>
  (await Promise.all(replies)).map(({ status }) => status).sort();

describe("logins that fail", () => {
  test("are five, then every one is 429 with Retry-After, whatever the password; another address goes on", async () => {
    const address = anAddress();
    for (let i = 0; i < 5; i++) expect((await login(address, "ada", WRONG)).status).toBe(401);
    for (const password of [WRONG, PASSWORD]) {
      const { status, json, headers } = await login(address, "ada", password);
      expect([status, json.error.code]).toEqual([429, "RATE_LIMITED"]);
      expect(Number(headers.get("retry-after"))).toBeGreaterThan(14 * 60);
      expect(Number(headers.get("retry-after"))).toBeLessThanOrEqual(15 * 60);
    }
    expect((await login(anAddress(), "ada", PASSWORD)).status).toBe(200);
    expect((await login(address, "bob", PASSWORD)).status).toBe(200);
  });

  test("count together under all names of a user, at both logins, and as Basic credentials", async () => {
    const address = anAddress();
    await login(address, "ada", WRONG);
    await login(address, "ADA", WRONG);
    await login(address, "ada@example.com", WRONG);
    await login(address, "ada", WRONG, "/api/auth/login");
    const basic = { authorization: `Basic ${btoa(`ada:${WRONG}`)}`, "x-forwarded-for": address };
    expect((await client.send("/users/1", { headers: basic })).status).toBe(401);
    expect((await login(address, "Ada@Example.com", PASSWORD)).status).toBe(429);
    expect((await login(address, "ada", PASSWORD, "/api/auth/login")).status).toBe(429);
  });

  test("count for names that nobody has too", async () => {
    const address = anAddress();
    for (let i = 0; i < 5; i++) expect((await login(address, "nobody", WRONG)).status).toBe(401);
    expect((await login(address, "Nobody", WRONG)).status).toBe(429);
  });

  test("are forgotten after fifteen minutes, one after the other", async () => {
    const address = anAddress();
    await login(address, "ada", WRONG);
    now += 5 * MINUTE;
    for (let i = 0; i < 4; i++) await login(address, "ada", WRONG);
    const { status, headers } = await login(address, "ada", PASSWORD);
    expect([status, headers.get("retry-after")]).toEqual([429, String(10 * 60)]);
    now += 10 * MINUTE + 1;
    expect((await login(address, "ada", WRONG)).status).toBe(401);
    expect((await login(address, "ada", PASSWORD)).status).toBe(429);
    now += 5 * MINUTE;
    expect((await login(address, "ada", PASSWORD)).status).toBe(200);
  });

  test("do not include those that succeed, however many", async () => {
    const address = anAddress();
    for (let i = 0; i < 4; i++) await login(address, "ada", WRONG);
    for (let i = 0; i < 8; i++) expect((await login(address, "ada", PASSWORD)).status).toBe(200);
    expect((await login(address, "ada", WRONG)).status).toBe(401);
    expect((await login(address, "ada", PASSWORD)).status).toBe(429);
  });

  test("of twelve at once are five that look at the password", async () => {
    const address = anAddress();
    const count = async (event: string) => {
      const text = "select count(*)::int as n from security_events where event = $1 and host(address) = $2";
      return (await client.sql(text, event, address))[0]!.n;
    };
    const all = await statuses(Array.from({ length: 12 }, () => login(address, "bob", WRONG)));
    expect(all).toEqual([...Array(5).fill(401), ...Array(7).fill(429)]);
    expect([await count("login_failed"), await count("login_throttled")]).toEqual([5, 7]);
  });

  test("from one address have a limit of their own, whoever is tried", async () => {
    const address = anAddress();
    for (const name of ["a", "b", "c", "d"])
      expect((await login(address, name, WRONG, "/auth/login", narrow)).status).toBe(401);
    expect((await login(address, "ada", PASSWORD, "/auth/login", narrow)).status).toBe(429);
    expect((await login(anAddress(), "ada", PASSWORD, "/auth/login", narrow)).status).toBe(200);
  });

  test("are as many as LOGIN_ATTEMPTS says, for LOGIN_WINDOW seconds", async () => {
    const address = anAddress();
    for (let i = 0; i < 2; i++) await login(address, "bob", WRONG, "/auth/login", narrow);
    const { status, headers } = await login(address, "bob", PASSWORD, "/auth/login", narrow);
    expect([status, Number(headers.get("retry-after")) <= 60]).toEqual([429, true]);
  });
});

test("a login takes as long for a name that nobody has", { timeout: 60_000 }, async () => {
  const times = { ada: [] as number[], nobody: [] as number[] };
  const measure = async (username: "ada" | "nobody") => {
    const since = performance.now();
    expect((await login("", username, WRONG, "/auth/login", wide)).status).toBe(401);
    times[username].push(performance.now() - since);
  };
  for (let i = 0; i < 50; i++) {
    await measure("ada");
    await measure("nobody");
  }
  const at = (share: number) => (list: number[]) => list.toSorted((a, b) => a - b)[Math.floor(list.length * share)]!;
  const ratio = at(0.5)(times.ada) / at(0.5)(times.nobody);
  expect(ratio).toBeGreaterThan(0.6);
  expect(ratio).toBeLessThan(1.67);
  // The distributions overlap: the quick ones of each are quicker than the slow ones of the other.
  expect(at(0.1)(times.ada)).toBeLessThan(at(0.9)(times.nobody));
  expect(at(0.1)(times.nobody)).toBeLessThan(at(0.9)(times.ada));
});

test("200 logins at once leave the service alive: some are told to come again, and none of them fails", {
  timeout: 60_000,
}, async () => {
  const logins = Array.from({ length: 200 }, () => login("", "ada", PASSWORD, "/auth/login", wide));
  const healthy: number[] = [];
  let isDone = false;
  const all = Promise.all(logins).finally(() => {
    isDone = true;
  });
  while (!isDone) {
    const since = performance.now();
    expect((await wide.send("/health")).status).toBe(200);
    healthy.push(performance.now() - since);
  }
  const replies = await all;
  const shed = replies.filter(({ status }) => status === 503);
  expect(shed.length).toBeGreaterThan(0);
  for (const { headers } of shed) expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
  expect(replies.filter(({ status }) => status !== 503 && status !== 200)).toEqual([]);
  expect(healthy.toSorted((a, b) => a - b)[Math.floor(healthy.length / 2)]).toBeLessThan(200);
  // Those that there was no time for have not failed.
  const [left] = await wide.sql(
    "select count(*)::int as n from auth_private.attempts where at > now() - interval '1 minute'",
  );
  expect(left!.n).toBeLessThanOrEqual(200);
  expect((await login("", "ada", PASSWORD, "/auth/login", wide)).status).toBe(200);
});
