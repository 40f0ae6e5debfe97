import { expect, test } from "vitest";
import { mapYielding } from "../../../db/catalog/event-loop.ts";

/** Blocks the event loop, as building a few thousand columns does. */
function work(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

test("mapYielding keeps the order of the items and lets other work run meanwhile", async () => {
  let turns = 0;
  let isDone = false;
  const takeTurn = () => {
    turns++;
    if (!isDone) setImmediate(takeTurn);
  };
  setImmediate(takeTurn);
  const results = await mapYielding([1, 2, 3, 4, 5, 6, 7, 8], (item) => {
    work(6);
    return 2 * item;
  });
  isDone = true;
  expect(results).toEqual([2, 4, 6, 8, 10, 12, 14, 16]);
  expect(turns).toBeGreaterThanOrEqual(8);
});
