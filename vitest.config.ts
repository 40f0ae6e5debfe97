import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/cluster.ts"],
    reporters: ["default", "./test/support/summary.ts"],
    env: { GRAPHILE_ENV: "production" },
    // Nothing depends on timing: these limits only end what hangs, also on a machine that is busy.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 30_000 } },
    maxWorkers: 4,
    // The tests allocate much and keep little: with larger young generations it is not copied.
    execArgv: ["--max-semi-space-size=32"],
    // Files of one worker share what is loaded, which takes longer than most of their tests: the service keeps no state in modules.
    isolate: false,
  },
});
