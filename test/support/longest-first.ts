import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { readCosts } from "./costs.ts";
import { laneOf } from "./lanes.ts";

/**
 * Starts the most expensive files first, so that none runs at the end while the other workers are idle: as test/costs.json has measured
 * them, and before it has, those that are not quick.
 */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const costs = readCosts();
    const costOf = ({ moduleId }: TestSpecification) => {
      const file = relative(process.cwd(), moduleId);
      return costs[file]?.cpu ?? (laneOf(file) === "quick" ? 0 : Infinity);
    };
    return files.toSorted((a, b) => (costOf(a) === costOf(b) ? 0 : costOf(b) - costOf(a)));
  }
}
