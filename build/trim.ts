// After each installation in this repository: deletes from node_modules what nothing here reads, 85 MB of headers of Node and source maps.
import { globSync, rmSync } from "node:fs";

for (const path of globSync(["node/node_modules/*/include", "**/*.map"], { cwd: "node_modules" }))
  rmSync(`node_modules/${path}`, { recursive: true, force: true });
