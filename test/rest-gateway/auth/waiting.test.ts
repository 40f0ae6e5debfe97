import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { Transactions } from "../../../db/transaction/transaction.ts";
import { problem } from "../../../problems/problem.ts";
import { AuthFunctions } from "../../../rest-gateway/auth/functions.ts";
import {
  type Client,
  guard,
  reserveCode,
  reserveLogin,
  reserveRegistration,
  settle,
  type Throttled,
} from "../../../rest-gateway/auth/throttle.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { admissionTo } from "../../support/transactions.ts";

const LIMITS = {
  ...{ loginAttempts: 2, loginAttemptsPerAddress: 100, mfaAttempts: 2 },
  ...{ registrationsPerAddress: 2, loginWindow: 900 },
};
const CLIENT = { address: "203.0.113.1" };

let database: TestDatabase;
let auth: Throttled;
beforeAll(async () => {
  database = await createTestDatabase();
  const pool = { connectionString: database.url, max: 4 };
  const transactions = new Transactions({
    pool,
    statementTimeoutOf: () => 10_000,
    maxPrepared: 100,
    admission: admissionTo(pool.max),
    onConnectionError() {},
  });
  auth = {
    functions: new AuthFunctions({ database: transactions, clock: Date.now }),
    throttle: { limits: LIMITS, waiting: 0, onLimit() {} },
  };
  return async () => {
    await transactions.close();
    await database.drop();
  };
});
beforeEach(() => database.owner.query("delete from auth_private.attempts"));

const BUSY = problem("busy", { retryAfter: 1 });
const TOO_MANY = problem("too many attempts", { retryAfter: 900 });
const TOO_MANY_REGISTRATIONS = problem("too many registrations", { retryAfter: 900 });

const ADA = { login: "ada" };
/** Reserves an attempt and returns the ids. */
const login = async (client: Client = CLIENT) => (await reserveLogin(auth, ADA, client)).attempt;

describe.each([
  ["a login", login, TOO_MANY],
  ["a code", () => reserveCode(auth, "1", CLIENT), TOO_MANY],
  ["a registration", () => reserveRegistration(auth, CLIENT), TOO_MANY_REGISTRATIONS],
])("%s", (_what, reserve, refusal) => {
  test.each([
    [false, "is reserved when earlier attempts are forgotten"],
    [true, "is rejected when earlier attempts count"],
  ])("waits while earlier attempts are undecided, and (count: %s) %s", async (counts) => {
    const reserved = await Promise.all([reserve(), reserve()]);
    const third = reserve().catch((error) => error);
    expect(await Promise.race([third, sleep(300, "waits")])).toBe("waits");
    for (const attempt of reserved) await settle(auth, attempt, counts);
    expect(await third).toEqual(counts ? refusal : expect.arrayContaining([expect.any(Number)]));
  });
});

test("an attempt does not count when its verification fails by a fault of the service", async () => {
  for (let i = 0; i < 3; i++) {
    const fault = new Error("the database is not available");
    await expect(guard(auth, await login(), Promise.reject(fault))).rejects.toBe(fault);
  }
  await login();
});

test("an attempt whose client has disconnected stops waiting, and is not reserved", async () => {
  const reserved = [await login(), await login()];
  const client = new AbortController();
  const third = login({ ...CLIENT, signal: client.signal });
  client.abort();
  await expect(third).rejects.toEqual(BUSY);
  for (const attempt of reserved) await settle(auth, attempt, false);
  const { rows } = await database.owner.query("select from auth_private.attempts");
  expect(rows).toEqual([]);
});

test("at most 64 attempts wait at once: further ones are rejected", async () => {
  // On a busy machine, the last of them would wait too long.
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const reserved = [await login(), await login()];
  const rejected: unknown[] = [];
  const others = Array.from({ length: 70 }, async () => {
    try {
      await settle(auth, await login(), false);
    } catch (error) {
      rejected.push(error);
    }
  });
  await expect.poll(() => rejected).toEqual(Array(6).fill(BUSY));
  for (const attempt of reserved) await settle(auth, attempt, false);
  await Promise.all(others);
  expect(rejected).toHaveLength(6);
});
