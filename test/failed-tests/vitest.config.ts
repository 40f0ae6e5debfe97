import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/failed-tests/failing.ts"],
    setupFiles: ["test/support/failed-tests.ts"],
    experimental: { viteModuleRunner: false, nodeLoader: false },
  },
});
