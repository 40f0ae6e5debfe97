// Checks format and lint of the repository: the arguments are those of `biome check`. The program is 65 MB, and installed on first use.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { installPackages } from "../packages.ts";

const FOLDER = "build/lint";

if (installPackages(FOLDER)) {
  const program = join(import.meta.dirname, "node_modules/@biomejs/biome/bin/biome");
  const { status } = spawnSync(process.execPath, [program, "check", ...process.argv.slice(2)], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} else if (process.env.CI) process.exitCode = 1;
else process.stderr.write("Format and lint are not checked.\n");
