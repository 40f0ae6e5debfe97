import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { globalSetup: ["content-service/test/setup"], testTimeout: 60_000 },
});
