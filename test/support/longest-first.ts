import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Their tests run commands, installations and browsers: one of them at the end would run for minutes while the other workers are idle. */
const LONG = ["applications/", "cli/", "browser/"].map((folder) => `/test/${folder}`);

/** Starts the folders with the longest files first. vitest knows how long a file takes only if it has run before, and not in a new clone. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = LONG.findIndex((folder) => moduleId.includes(folder));
      return index === -1 ? LONG.length : index;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
