import { setTimeout } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { Transactions } from "../../../db/transaction/transaction.ts";
import { argon2 } from "../../../rest-gateway/auth/password-hashes.ts";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";

const PASSWORD = "Correct-Horse-7!";
const WRONG = "Wrong-Horse-7!!!";
const LOGINS = ["/auth/login", "/api/auth/login"];
const MINUTE = 60_000;
let now = Date.now();
const settings = { TRUST_PROXY: "loopback", GRAPHQL_DOCUMENTS: "none" };
const client = useService(settings, () => now);
const narrow = useService({ ...settings, LOGIN_ATTEMPTS: "2", loginAttemptsPerAddress: 4, loginWindow: 60 });

let count = 0;
/** An IP address that has sent no request yet. */
const anAddress = () => `198.18.${++count >> 8}.${count & 255}`;
const login = (address: string, username: string, password: string, path = "/auth/login", at = client) =>
  sendJson(at, path, { username, password }, { "x-forwarded-for": address });
const statuses = async (replies: Promise<{ status: number }>[]) =>
  (await Promise.all(replies)).map(({ status }) => status).sort();
/** The sorted names of the events of an IP address. */
const eventsAt = async (address: string) =>
  (await client.sql("select event from security_events where host(address) = $1 order by event", address)).map(
    ({ event }) => event,
  );

/** Stops the clock that limits the wait for other attempts, for the rest of the test. */
function stopWaitClock(): void {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
}

describe("failed logins", () => {
  test("are limited to five, then every login is 429 with Retry-After; logins from another IP address are not", async () => {
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

  test("are counted together for spellings of an unknown name as for those of a user, so that they do not tell the two apart", async () => {
    for (const [name, spelling] of [
      ["ada", "\uff41da"],
      ["nobody", "\uff4eobody"],
    ] as const) {
      const address = anAddress();
      for (let i = 0; i < 5; i++) expect((await login(address, name, WRONG)).status).toBe(401);
      expect((await login(address, spelling, WRONG)).status).toBe(429);
    }
    for (const [email, spelling] of [
      ["ada@example.com", "\uff41da@example.com"],
      ["nobody@example.com", "\uff4eobody@example.com"],
    ] as const) {
      const address = anAddress();
      for (let i = 0; i < 5; i++) expect((await login(address, email, WRONG)).status).toBe(401);
      expect((await login(address, spelling, WRONG)).status).toBe(401);
    }
  });

  test("are counted together for all names of a user, both login routes and Basic credentials", async () => {
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

  test("expire fifteen minutes after each attempt", async () => {
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

  test("do not include twelve logins at once with the right password, which all succeed", async () => {
    const address = anAddress();
    // On a busy machine they would wait longer than five seconds for each other.
    stopWaitClock();
    for (let i = 0; i < 4; i++) await login(address, "ada", WRONG);
    const paths = Array.from({ length: 12 }, (_, i) => LOGINS[i % 2]);
    expect(await statuses(paths.map((path) => login(address, "ada", PASSWORD, path)))).toEqual(Array(12).fill(200));
    expect(await eventsAt(address)).toEqual([...Array(12).fill("login"), ...Array(4).fill("login_failed")]);
    expect((await login(address, "ada", WRONG)).status).toBe(401);
    for (const path of LOGINS) expect((await login(address, "ada", PASSWORD, path)).status).toBe(429);
  });

  test("are limited to five of twelve at once", async () => {
    const address = anAddress();
    const all = await statuses(Array.from({ length: 12 }, () => login(address, "bob", WRONG)));
    expect(all).toEqual([...Array(5).fill(401), ...Array(7).fill(429)]);
    expect(await eventsAt(address)).toEqual([...Array(5).fill("login_failed"), "login_throttled"]);
  });

  test("from one IP address have a separate limit, for all names together", async () => {
    const address = anAddress();
    for (const name of ["a", "b", "c", "d"])
      expect((await login(address, name, WRONG, "/auth/login", narrow)).status).toBe(401);
    expect((await login(address, "ada", PASSWORD, "/auth/login", narrow)).status).toBe(429);
    expect((await login(anAddress(), "ada", PASSWORD, "/auth/login", narrow)).status).toBe(200);
  });

  test("are limited by LOGIN_ATTEMPTS within loginWindow seconds", async () => {
    const address = anAddress();
    for (let i = 0; i < 2; i++) await login(address, "bob", WRONG, "/auth/login", narrow);
    const { status, headers } = await login(address, "bob", PASSWORD, "/auth/login", narrow);
    expect([status, Number(headers.get("retry-after")) <= 60]).toEqual([429, true]);
  });
});

describe("a login while undecided attempts take up the limit", () => {
  let address: string;
  let five: string;
  beforeAll(async () => {
    address = anAddress();
    await client.sql("delete from auth_private.attempts");
    for (let i = 0; i < 5; i++) await login(address, "ada", WRONG);
    five = JSON.stringify((await client.sql("select json_agg(a) as rows from auth_private.attempts as a"))[0]!.rows);
  });
  // Five undecided attempts for ada, as if another process had started them.
  beforeEach(async () => {
    await client.sql("delete from auth_private.attempts");
    const rows = "json_populate_recordset(null::auth_private.attempts, $1)";
    await client.sql(`insert into auth_private.attempts (key, at) select key, at from ${rows}`, five);
  });

  test.each(LOGINS)("waits at %s, and signs in when they succeed", async (path) => {
    const reply = login(address, "ada", PASSWORD, path);
    await Promise.race([reply, login(address, "bob", PASSWORD)]);
    await client.sql("delete from auth_private.attempts");
    expect((await reply).status).toBe(200);
  });

  test("is 429 with Retry-After when they have failed", async () => {
    const reply = login(address, "ada", PASSWORD);
    await Promise.race([reply, login(address, "bob", PASSWORD)]);
    await client.sql("update auth_private.attempts set counts = true");
    const { status, headers } = await reply;
    expect([status, headers.get("retry-after")]).toEqual([429, "900"]);
  });

  test("is 503 with Retry-After 1 after five seconds, on every interface, and records no event", async () => {
    const events = [...(await eventsAt(address)), "login"].toSorted();
    const headers = { authorization: `Basic ${btoa(`ada:${PASSWORD}`)}`, "x-forwarded-for": address };
    stopWaitClock();
    const replies = Promise.all([
      login(address, "ada", PASSWORD),
      login(address, "ada", PASSWORD, "/api/auth/login"),
      client.send("/users/1", { headers }),
      sendJson(
        client,
        "/auth/password",
        { oldPassword: PASSWORD, newPassword: "Another-Horse-9?" },
        {
          authorization: `Bearer ${client.token("ada")}`,
          "x-forwarded-for": address,
        },
      ),
    ]);
    await login(address, "bob", PASSWORD);
    vi.advanceTimersByTime(4900);
    expect(await Promise.race([replies, setTimeout(300, "they wait")])).toBe("they wait");
    // A request that began to wait after the first step needs as long again.
    do vi.advanceTimersByTime(200);
    while ((await Promise.race([replies, setTimeout(20)])) === undefined);
    for (const { status, headers, json } of await replies) {
      expect([status, headers.get("retry-after")]).toEqual([503, "1"]);
      expect(json.error.message).toBe("too many users are signing in at once: try again");
    }
    expect(await eventsAt(address)).toEqual(events);
  });

  test("does not wait for attempts whose process has ended", async () => {
    now += MINUTE;
    expect((await login(address, "ada", PASSWORD)).status).toBe(200);
  });
});

describe("the work of a login", () => {
  /** What one login costs: the status, the password verifications with their parameters, and the SQL statements in order. */
  async function costOf(address: string, username: string, password: string, path: string) {
    const verify = vi.spyOn(argon2, "verify");
    const run = vi.spyOn(Transactions.prototype, "run");
    try {
      const { status } = await login(address, username, password, path);
      const verifications = verify.mock.calls.map(([phc]) => String(phc).split("$").slice(0, 4).join("$"));
      const statements = run.mock.calls.map(([, statements]) => statements.map(({ text }) => text));
      return { status, verifications, statements };
    } finally {
      verify.mockRestore();
      run.mockRestore();
    }
  }
  const ONE = ["$argon2id$v=19$m=1024,t=1,p=1"];

  describe.each(LOGINS)("at %s", (path) => {
    test("is the same for a wrong password, an unknown name and a disabled account", async () => {
      const wrong = await costOf(anAddress(), "ada", WRONG, path);
      expect([wrong.status, wrong.verifications]).toEqual([401, ONE]);
      for (const name of ["unknown", "unknown@example.com", "ada@example.com", "carol"]) {
        expect(await costOf(anAddress(), name, WRONG, path)).toEqual(wrong);
      }
    });

    test("is the same for a name and an unknown name over the limit, and includes no password verification", async () => {
      const costs = [];
      for (const name of ["ada", "unknown", "carol"]) {
        const address = anAddress();
        for (let i = 0; i < 5; i++) await login(address, name, WRONG, path);
        costs.push(await costOf(address, name, WRONG, path));
      }
      const [first] = costs;
      expect([first!.status, first!.verifications]).toEqual([429, []]);
      expect(costs).toEqual(Array(3).fill(first));
    });

    test("is one password verification for a login that succeeds, and no other hash", async () => {
      const hash = vi.spyOn(argon2, "hash");
      const { status, verifications, statements } = await costOf(anAddress(), "bob", PASSWORD, path);
      expect([status, verifications, hash.mock.calls.length, statements.length]).toEqual([200, ONE, 0, 2]);
      hash.mockRestore();
    });

    test("is one password verification for a disabled account with the right password", async () => {
      const { status, verifications } = await costOf(anAddress(), "carol", PASSWORD, path);
      expect([status, verifications]).toEqual([403, ONE]);
    });
  });
});

test("120 logins at once leave the service alive: some are refused with 503 and Retry-After, and none fails", async () => {
  const failed = () => client.sql("select count(*) from auth_private.attempts");
  const before = await failed();
  // However fast the machine is: the first passwords are verified when a login has been refused.
  const { verify } = argon2;
  const held = vi.spyOn(argon2, "verify").mockImplementation(async (...given) => {
    await refused;
    return verify(...given);
  });
  onTestFinished(() => held.mockRestore());
  const logins = Array.from({ length: 120 }, () => login(anAddress(), "ada", PASSWORD));
  const refused = new Promise<void>((resolve) => {
    for (const each of logins) void each.then(({ status }) => status === 503 && resolve());
  });
  let isDone = false;
  const all = Promise.all(logins).finally(() => {
    isDone = true;
  });
  do {
    expect((await client.send("/health")).status).toBe(200);
  } while (!isDone);
  const replies = await all;
  const shed = replies.filter(({ status }) => status === 503);
  expect(shed.length).toBeGreaterThan(0);
  for (const { headers } of shed) expect(Number(headers.get("retry-after"))).toBeGreaterThan(0);
  expect(replies.filter(({ status }) => status !== 503 && status !== 200)).toEqual([]);
  // A login that is refused with 503 does not count as failed.
  expect(await failed()).toEqual(before);
  expect((await login(anAddress(), "ada", PASSWORD)).status).toBe(200);
});
