// Checks format and lint of the repository: the arguments are those of `biome check`. The program is 65 MB, and installed on first use.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { installPackages } from "../packages.ts";

let exitCode = 1;
if (installPackages("build/lint")) {
  const program = join(import.meta.dirname, "node_modules/@biomejs/biome/bin/biome");
  exitCode =
    spawnSync(process.execPath, [program, "check", ...process.argv.slice(2)], { stdio: "inherit" }).status ?? 1;
}
process.exitCode = exitCode;
