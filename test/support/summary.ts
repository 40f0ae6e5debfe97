import { writeFileSync } from "node:fs";
import type { UserConsoleLog } from "vitest";
import type { Reporter, TestModule } from "vitest/node";
import { readCounts } from "./counts.ts";
import { LANES, type Lane, laneOf, lanesOfRun, listTestFiles } from "./lanes.ts";

/**
 * Ends the test run with what takes most of its time, `The tests used 8 services, 9 databases and 2 processes.`, with what was skipped
 * because a program is not installed, with the tests of other lanes, and one plain line for programs: `12 passed, 0 failed, 1 skipped`. Writes the paths of the files that failed, a line each, to the file that the environment
 * variable FAILED_TEST_FILES names.
 */
export default class Summary implements Reporter {
  /** `skipped: a failover behind HAProxy, because /usr/sbin/haproxy is not installed` */
  readonly #skipped = new Set<string>();

  onUserConsoleLog({ content }: UserConsoleLog): void {
    for (const line of content.split("\n")) if (line.startsWith("skipped")) this.#skipped.add(line);
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state));
    const count = (state: string) => states.filter((each) => each === state).length;
    // A file that cannot be loaded has no tests that could fail.
    const broken = modules.filter((module) => module.state() === "failed" && module.errors().length > 0).length;
    const list = process.env.FAILED_TEST_FILES;
    // What fails outside of tests has no file that could run again.
    if (list && errors.length === 0)
      writeFileSync(list, modules.flatMap((module) => (module.ok() ? [] : `${module.relativeModuleId}\n`)).join(""));
    const failed = count("failed") + broken + errors.length;
    const { services, databases, processes } = readCounts();
    process.stdout.write(`\nThe tests used ${services} services, ${databases} databases and ${processes} processes.\n`);
    for (const line of this.#skipped) process.stdout.write(`${line}\n`);
    if (modules.length > 1) process.stdout.write(othersOf(lanesOfRun()));
    process.stdout.write(`\n${count("passed")} passed, ${failed} failed, ${count("skipped")} skipped\n`);
  }
}

/** `Not run: 90 files of …` */
function othersOf(lanes: readonly Lane[]): string {
  const count = (lane: Lane) => {
    const files = listTestFiles().filter((file) => laneOf(file) === lane);
    return `${files.length} files`;
  };
  const missing = LANES.filter((lane) => !lanes.includes(lane));
  return missing.map((lane) => `Not run: ${count(lane)} of ${OTHERS[lane]}.\n`).join("");
}

const OTHERS: Readonly<Record<Lane, string>> = {
  quick: "`npm test`",
  all: "`npm run test:all` (browsers, commands, other servers)",
  release: "`npm run test:release` (installations, tutorials, other versions, disturbances)",
};
