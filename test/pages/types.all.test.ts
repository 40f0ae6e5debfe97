import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";

test.each(["demo/pages", "pages/browser"])("the types of %s are right", (folder) => {
  const { stdout } = spawnSync("node_modules/.bin/tsc", ["--noEmit", "--pretty", "false", "-p", folder], {
    encoding: "utf8",
  });
  expect(stdout).toBe("");
});
