import { expect, test } from "vitest";
import { type FileCost, readCosts } from "./support/costs.ts";
import { ALL_QUICK_SECONDS, laneOf, listTestFiles, ONE_OF_EACH, QUICK_SECONDS } from "./support/lanes.ts";

const files = listTestFiles();
const costs = readCosts();
const quick = files.filter((file) => laneOf(file) === "quick");

test("test/costs.json has what each quick file costs: npm test -- path/of/file --costs adds one", () => {
  expect(quick.filter((file) => !(file in costs))).toEqual([]);
});

test(`a quick file costs at most ${QUICK_SECONDS} seconds of CPU time and starts no process, or is the one of its kind`, () => {
  const isQuick = ({ cpu, processes }: FileCost) => cpu <= QUICK_SECONDS && processes === 0;
  expect(quick.filter((file) => !(file in ONE_OF_EACH) && !isQuick(costs[file]!))).toEqual([]);
});

test("a file that starts no process and costs less than half of that is a quick one", () => {
  const isCheap = ({ cpu, processes }: FileCost) => cpu < QUICK_SECONDS / 2 && processes === 0;
  const others = files.filter((file) => laneOf(file) === "all" && file in costs);
  expect(others.filter((file) => isCheap(costs[file]!))).toEqual([]);
});

test(`all quick files together cost at most ${ALL_QUICK_SECONDS} seconds of CPU time`, () => {
  expect(quick.reduce((sum, file) => sum + costs[file]!.cpu, 0)).toBeLessThan(ALL_QUICK_SECONDS);
});

test("each integration is shown by a quick file that exists", () => {
  expect(quick).toEqual(expect.arrayContaining(Object.keys(ONE_OF_EACH)));
});
