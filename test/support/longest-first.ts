import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Their tests run commands, installations, browsers and servers: one of them at the end would run while the other workers are idle. */
const LONG = [
  "applications/",
  "chaos/",
  "cli/",
  "browser/",
  "db/changes/standby",
  "modules/",
  "service/",
  "existing/",
].map((path) => `/test/${path}`);

/** Starts the longest files first. vitest knows how long a file takes only if it has run before, and not in a new clone. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = LONG.findIndex((folder) => moduleId.includes(folder));
      return index === -1 ? LONG.length : index;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}
