import { expect, test } from "vitest";
import { mapYielding } from "../../../db/catalog/event-loop.ts";

const ITEMS = [1, 2, 3, 4, 5, 6, 7, 8];
/** Microseconds of one item, which is more than a slice and more than the unit in which the kernel counts. */
const WORK = 20_000;

function cpuTime(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}

/** Uses the CPU, as building a few thousand columns does. */
function work(): void {
  const end = cpuTime() + WORK;
  while (cpuTime() < end);
}

/** Blocks the event loop without using the CPU, as a process does that waits for a core. */
function waitForCore(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WORK / 1000);
}

/** Counts the turns of the event loop until the promise of `run` is resolved. */
async function turnsOf(run: () => Promise<void>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const takeTurn = () => {
    turns++;
    if (!isDone) setImmediate(takeTurn);
  };
  setImmediate(takeTurn);
  await run();
  isDone = true;
  return turns;
}

test("mapYielding keeps the order of the items and lets other work run meanwhile", async () => {
  const turns = await turnsOf(async () => {
    const results = await mapYielding(ITEMS, (item) => {
      work();
      return 2 * item;
    });
    expect(results).toEqual([2, 4, 6, 8, 10, 12, 14, 16]);
  });
  expect(turns).toBeGreaterThanOrEqual(8);
});

test("mapYielding does not yield more often where it waits for a core", async () => {
  expect(await turnsOf(async () => void (await mapYielding(ITEMS, waitForCore)))).toBeLessThanOrEqual(3);
});

test("several short maps in a row yield once", async () => {
  const maps = async () => {
    for (const item of ITEMS) await mapYielding([item], (each) => each);
  };
  expect(await turnsOf(maps)).toBeLessThanOrEqual(3);
});

test("those that wait at the same time take their slices one after the other", async () => {
  const some = ITEMS.slice(0, 3);
  const waiting = async () => {
    work();
    await mapYielding(some, work);
  };
  const turns = await turnsOf(async () => void (await Promise.all(some.map(waiting))));
  expect(turns).toBeGreaterThanOrEqual(some.length ** 2);
});
