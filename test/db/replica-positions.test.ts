import { describe, expect, test } from "vitest";
import { urlAt, withOneHost } from "../../config/postgres-url.ts";
import { PrimaryPosition } from "../../db/replicas/primary-position.ts";
import { RecentWrites } from "../../db/replicas/recent-writes.ts";

describe("the last write of a client", () => {
  let now = 0;
  const recentWrites = (maxClients = 10) => new RecentWrites({ milliseconds: 100, now: () => now, maxClients });

  test("is remembered until the time has passed", () => {
    now = 1000;
    const recent = recentWrites();
    recent.add("user 1", 7n);
    now += 99;
    expect([recent.of("user 1"), recent.of("user 2")]).toEqual([7n, 0n]);
    now += 1;
    expect(recent.of("user 1")).toBe(0n);
  });

  test("is the one that is last in the write-ahead log, for as long as the latest is remembered", () => {
    now = 1000;
    const recent = recentWrites();
    recent.add("user 1", 9n);
    now += 50;
    recent.add("user 1", 8n);
    now += 99;
    expect(recent.of("user 1")).toBe(9n);
  });

  test("counts for everyone when there is no more room for it", () => {
    now = 1000;
    const recent = recentWrites(2);
    for (const [i, lsn] of [5n, 6n, 7n].entries()) recent.add(`user ${i}`, lsn);
    expect([recent.of("user 0"), recent.of("user 1"), recent.of("another user")]).toEqual([5n, 6n, 5n]);
    now += 100;
    expect(recent.of("user 0")).toBe(0n);
  });
});

describe("the lag of a replica", () => {
  const primary = new PrimaryPosition({ query: () => Promise.reject(new Error("not used")) } as never, 1000);
  for (const [at, lsn] of [
    [1000, 100_000n],
    [1500, 100_000n],
    [2000, 200_000n],
  ] as const)
    primary.add({ at, lsn });

  test.each([
    ["it has everything", 200_000n, 0],
    ["it has more than the last look has found", 300_000n, 0],
    ["it is before the header of a page, behind which nothing was written", 199_976n, 0],
    ["it had everything half a second ago", 150_000n, 600],
    ["it has less than was looked at", 50_000n, Number.POSITIVE_INFINITY],
  ])("if %s", (_, replayed, lag) => expect(primary.lagOf(replayed, 2100)).toBe(lag));
});

test.each([
  ["postgres://replica:6432", "postgres://data:secret@replica:6432/content?sslmode=verify-full"],
  ["postgres://someone:else@replica/other", "postgres://data:secret@replica:5432/other?sslmode=verify-full"],
  ["postgres://replica:6432?sslmode=require", "postgres://data:secret@replica:6432/content?sslmode=require"],
])("the login of the primary at %s", (replica, url) => {
  expect(urlAt(replica, "postgres://data:secret@primary:5433/content?sslmode=verify-full")).toBe(url);
  const several = withOneHost("postgres://data:secret@primary:5433,standby/content?sslmode=verify-full");
  expect(urlAt(replica, several)).toBe(url);
});
