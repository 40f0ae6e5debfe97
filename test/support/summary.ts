import { writeFileSync } from "node:fs";
import type { Reporter, TestModule } from "vitest/node";
import { readCounts } from "./counts.ts";

/**
 * Ends the test run with what takes most of its time, `The tests used 8 services, 9 databases and 2 commands.`, and one plain line for
 * programs: `12 passed, 0 failed, 1 skipped`. Writes the paths of the files that failed, a line each, to the file that the environment
 * variable FAILED_TEST_FILES names.
 */
export default class Summary implements Reporter {
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
    const { services, databases, commands } = readCounts();
    process.stdout.write(`\nThe tests used ${services} services, ${databases} databases and ${commands} commands.\n`);
    process.stdout.write(`\n${count("passed")} passed, ${failed} failed, ${count("skipped")} skipped\n`);
  }
}
