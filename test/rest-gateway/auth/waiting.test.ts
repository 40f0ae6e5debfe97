import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { Transactions } from "../../../db/transaction.ts";
import { RefusedError } from "../../../identity/refused.ts";
import { AuthStore } from "../../../rest-gateway/auth/repository.ts";
import { Throttle } from "../../../rest-gateway/auth/throttle.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";

const LIMITS = { attempts: 2, attemptsPerAddress: 100, codeAttempts: 2, registrationsPerAddress: 2, window: 900 };
const CLIENT = { address: "203.0.113.1" };

let database: TestDatabase;
let throttle: Throttle;
beforeAll(async () => {
  database = await createTestDatabase();
  const pool = { connectionString: database.url, max: 4 };
  const transactions = new Transactions({ pool, statementTimeout: 10_000, maxPrepared: 100, onConnectionError() {} });
  throttle = new Throttle(new AuthStore(transactions, Date.now), LIMITS);
  return async () => {
    await transactions.close();
    await database.drop();
  };
});
beforeEach(() => database.owner.query("delete from auth_private.attempts"));

const BUSY = new RefusedError("busy", { retryAfter: 1 });
const TOO_MANY = new RefusedError("too many attempts", { retryAfter: 900 });
const TOO_MANY_REGISTRATIONS = new RefusedError("too many registrations", { retryAfter: 900 });

/** Attempts that are under way until they are ended, each with whether it counts. */
async function begin(count: number, make: (attempt: (count: () => void) => Promise<void>) => Promise<void>) {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const begun = Array.from({ length: count }, () => Promise.withResolvers<void>());
  const made = begun.map(({ resolve: start }) =>
    make(async (count) => {
      start();
      if (await promise) count();
    }),
  );
  await Promise.all(begun.map(({ promise }) => promise));
  return async (counts: boolean) => {
    resolve(counts);
    await Promise.all(made);
  };
}

test.each([
  ["a login", (attempt: (count: () => void) => Promise<void>) => throttle.login("ada", CLIENT, attempt), TOO_MANY],
  ["a code", (attempt: (count: () => void) => Promise<void>) => throttle.code("1", CLIENT, attempt), TOO_MANY],
  [
    "a registration",
    (attempt: (count: () => void) => Promise<void>) => throttle.registration(CLIENT, attempt),
    TOO_MANY_REGISTRATIONS,
  ],
])("%s waits for others that have the last places, and is made unless they count", async (_what, make, refusal) => {
  for (const counts of [false, true]) {
    const end = await begin(2, make);
    let isMade = false;
    const third = make(async () => {
      isMade = true;
    }).catch((error) => error);
    expect(await Promise.race([third, sleep(300, "waits")])).toBe("waits");
    await end(counts);
    expect(await third).toEqual(counts ? refusal : undefined);
    expect(isMade).toBe(!counts);
  }
});

test("an attempt that ends by a fault of the service does not count", async () => {
  for (let i = 0; i < 3; i++) {
    const fault = new Error("the database has gone");
    await expect(throttle.login("ada", CLIENT, () => Promise.reject(fault))).rejects.toBe(fault);
  }
  await throttle.login("ada", CLIENT, async () => {});
});

test("whose client has gone does not wait on, and attempts nothing", async () => {
  const end = await begin(2, (attempt) => throttle.login("ada", CLIENT, attempt));
  const client = new AbortController();
  let isMade = false;
  const third = throttle.login("ada", { ...CLIENT, signal: client.signal }, async () => {
    isMade = true;
  });
  client.abort();
  await expect(third).rejects.toEqual(BUSY);
  await end(false);
  expect(isMade).toBe(false);
});

test("of very many at once some are sent away: those that wait are 64", async () => {
  const end = await begin(2, (attempt) => throttle.login("ada", CLIENT, attempt));
  const refused: unknown[] = [];
  const others = Array.from({ length: 70 }, () =>
    throttle.login("ada", CLIENT, async () => {}).catch((error) => refused.push(error)),
  );
  await expect.poll(() => refused).toEqual(Array(6).fill(BUSY));
  await end(false);
  await Promise.all(others);
  expect(refused).toHaveLength(6);
});
