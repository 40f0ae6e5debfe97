import { defineConfig } from "vitest/config";
import { laneOf, lanesOfRun, listTestFiles } from "./test/support/lanes.ts";
import LongestFirst from "./test/support/longest-first.ts";

const lanes = lanesOfRun();

export default defineConfig({
  test: {
    include: listTestFiles().filter((file) => lanes.includes(laneOf(file))),
    globalSetup: ["test/support/cluster.ts"],
    setupFiles: ["test/support/lane-guard.ts", "test/support/failed-tests.ts"],
    reporters: ["default", "./test/support/summary.ts"],
    env: { GRAPHILE_ENV: "production" },
    // Nothing depends on timing: these limits only end what hangs, also on a machine that is busy.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 120_000 } },
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    // The tests allocate much and keep little: with a larger young generation it is not copied, and with a larger heap it is seldom
    // marked. No collections while a worker waits.
    execArgv: ["--max-semi-space-size=32", "--initial-heap-size=1500", "--no-memory-reducer"],
    // Files of one worker share what is loaded, which takes longer than most of their tests: the service keeps no state in modules.
    isolate: false,
    // Node loads the sources, as in production, not Vite.
    experimental: { viteModuleRunner: false, nodeLoader: false },
  },
});
