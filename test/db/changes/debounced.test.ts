import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { Debounced } from "../../../db/follow/debounced.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The times of the runs and of reported failures, in milliseconds from now. */
function runsOf(action: (run: number) => void) {
  const start = Date.now();
  const runs: number[] = [];
  const failures: number[] = [];
  const debounced = new Debounced(
    async () => {
      runs.push(Date.now() - start);
      action(runs.length);
    },
    () => failures.push(Date.now() - start),
  );
  onTestFinished(() => debounced.close());
  return { debounced, runs, failures };
}

test("a burst of changes causes one run, 100 ms after the last of them", async () => {
  const { debounced, runs } = runsOf(() => {});
  for (let i = 0; i < 3; i++) {
    debounced.soon();
    await vi.advanceTimersByTimeAsync(50);
  }
  await vi.advanceTimersByTimeAsync(10_000);
  expect(runs).toEqual([200]);
});

test("changes without a pause cause a run after 500 ms", async () => {
  const { debounced, runs } = runsOf(() => {});
  for (let i = 0; i < 16; i++) {
    debounced.soon();
    await vi.advanceTimersByTimeAsync(50);
  }
  expect(runs).toEqual([500]);
});

test("a failed run is repeated after a second, and then after twice as long each time, until it succeeds", async () => {
  const { debounced, runs } = runsOf((run) => {
    if (run < 4) throw new Error("not yet");
  });
  debounced.soon();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(runs).toEqual([100, 1200, 3300, 7400]);
});

test("a run that meets a lock is repeated soon, and a failure is reported only if the lock persists for 10 seconds", async () => {
  let isLocked = true;
  const { debounced, runs, failures } = runsOf(() => {
    if (isLocked) throw Object.assign(new Error("canceling statement due to lock timeout"), { code: "55P03" });
  });
  debounced.soon();
  await vi.advanceTimersByTimeAsync(10_000);
  expect([runs, failures]).toEqual([[100, 300, 600, 1100, 2000, 3700, 7000], []]);
  await vi.advanceTimersByTimeAsync(2000);
  expect([runs.slice(7), failures]).toEqual([
    [10_300, 11_400],
    [10_300, 11_400],
  ]);

  isLocked = false;
  await vi.advanceTimersByTimeAsync(3000);
  isLocked = true;
  [runs.length, failures.length] = [0, 0];
  debounced.soon();
  await vi.advanceTimersByTimeAsync(1000);
  expect([runs.length, failures]).toEqual([3, []]);
});

test("the first run is repeated after a lock too, and rejects with any other error", async () => {
  const { debounced, runs } = runsOf((run) => {
    if (run < 3) throw Object.assign(new Error("locked"), { code: "55P03" });
    throw new Error("broken");
  });
  await expect(debounced.first()).rejects.toThrow("broken");
  expect(runs).toHaveLength(3);
});

test("the wait after a failure is at most a minute, and after a success it starts with a second again", async () => {
  let isBroken = true;
  const { debounced, runs } = runsOf(() => {
    if (isBroken) throw new Error("not yet");
  });
  debounced.soon();
  await vi.advanceTimersByTimeAsync(250_000);
  expect(runs.at(-1)! - runs.at(-2)!).toBe(60_100);
  isBroken = false;
  await vi.advanceTimersByTimeAsync(61_000);
  isBroken = true;
  runs.length = 0;
  debounced.soon();
  await vi.advanceTimersByTimeAsync(2000);
  expect(runs[1]! - runs[0]!).toBe(1100);
});

test("close waits for the current run, and no run follows", async () => {
  const { debounced, runs } = runsOf(() => {
    throw new Error("not yet");
  });
  debounced.soon();
  await vi.advanceTimersByTimeAsync(200);
  await debounced.close();
  debounced.soon();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(runs).toEqual([100]);
});
