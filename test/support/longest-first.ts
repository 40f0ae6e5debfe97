import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { readCosts } from "./costs.ts";

/** Starts the most expensive files first, so that none runs at the end while the other workers are idle. New files are first. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const costs = readCosts();
    const costOf = ({ moduleId }: TestSpecification) => costs[relative(process.cwd(), moduleId)]?.cpu ?? Infinity;
    return files.toSorted((a, b) => (costOf(a) === costOf(b) ? 0 : costOf(b) - costOf(a)));
  }
}
