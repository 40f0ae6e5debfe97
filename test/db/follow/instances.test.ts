import pg from "pg";
import pino from "pino";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { Instances, type InstancesOptions } from "../../../db/follow/instances.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

/** A process of the instance with this number, and what it logs. */
async function open(number: number, options: Partial<InstancesOptions> = {}) {
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const instances = new Instances({ number, logs: true, replacesAnother: false, shares: false, log, ...options });
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  let end = () => {
    end = async () => {};
    return client.end();
  };
  onTestFinished(() => end());
  return { instances, lines, look: () => instances.look(client), end: () => end() };
}

const OTHER = /^another instance serves this database: broadcasts and presences .*, and RATE_LIMIT counts per instance/;

test("an instance that is alone says nothing, and neither do its own processes about each other", async () => {
  const [first, second] = [await open(1), await open(1)];
  for (const each of [first, second, first]) await each.look();
  expect([first.instances.fault, second.instances.fault]).toEqual([null, null]);
  expect([...first.lines, ...second.lines]).toEqual([]);
});

test("an instance counts the others with each look, and logs once that there are some and that there are none", async () => {
  const [own, second, third] = [await open(1), await open(2), await open(2_147_483_646)];
  await own.look();
  await second.look();
  for (let i = 0; i < 2; i++) await own.look();
  expect(own.instances.fault).toMatch(OTHER);
  await third.look();
  await own.look();
  expect(own.instances.fault).toMatch(/^2 other instances serve this database: /);
  await Promise.all([second.end(), third.end()]);
  const isAlone = async () => {
    await own.look();
    return own.instances.fault;
  };
  // PostgreSQL frees the lock after the connection has ended.
  await expect.poll(isAlone).toBeNull();
  expect(own.lines).toEqual([expect.stringMatching(OTHER), "this instance serves the database alone again"]);
});

test("of several processes of an instance one logs, and all know", async () => {
  const [quiet, other] = [await open(1, { logs: false }), await open(2)];
  await other.look();
  await quiet.look();
  expect([quiet.instances.fault, quiet.lines]).toEqual([expect.stringMatching(OTHER), []]);
});

test("an instance that replaces another one says nothing while the other one hands over", async () => {
  const [old, next] = [await open(1), await open(2, { replacesAnother: true })];
  await old.look();
  await next.look();
  expect(next.instances.fault).toBeNull();
  await old.instances.leave();
  await old.look();
  await next.look();
  expect([next.instances.fault, old.instances.fault, next.lines]).toEqual([null, null, []]);
});

test("a connection that was opened again is counted once", async () => {
  const [own, other] = [await open(1), await open(2)];
  await other.look();
  await own.look();
  const again = new pg.Client({ connectionString: database.url });
  await again.connect();
  onTestFinished(() => again.end());
  await other.instances.look(again);
  await own.look();
  expect(own.instances.fault).toMatch(OTHER);
});

test("instances that all have REDIS_URL share everything, and one without it is reported", async () => {
  const [first, second, third] = [await open(1, { shares: true }), await open(2, { shares: true }), await open(3)];
  await second.look();
  await first.look();
  expect(first.instances.fault).toBeNull();
  await third.look();
  await first.look();
  const sentence = /^2 other instances serve this database: .* unless each has the same REDIS_URL$/;
  expect(first.instances.fault).toMatch(sentence);
  await third.instances.leave();
  await first.look();
  expect(first.lines).toEqual([
    expect.stringMatching(sentence),
    "all instances that serve the database share limits and messages again",
  ]);
});
