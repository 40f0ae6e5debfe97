import { defineConfig } from "vitest/config";

export default defineConfig({
  test: { globalSetup: ["content-service/test/setup"], testTimeout: 180_000, hookTimeout: 180_000 },
});
