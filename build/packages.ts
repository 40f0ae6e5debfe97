// Folders with a lock file of their own: what the root's npm ci leaves out is installed when it is used.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..");

/**
 * Installs the packages of a folder, `demo/pages`, unless those of its lock file are installed. Returns whether they are there; without
 * them, what is missing has been printed.
 */
export function installPackages(folder: string): boolean {
  const path = join(ROOT, folder);
  const lock = createHash("sha256")
    .update(readFileSync(join(path, "package-lock.json")))
    .digest("hex");
  // npm ci deletes the mark with the packages.
  const mark = join(path, "node_modules/.lock-file");
  if (existsSync(mark) && readFileSync(mark, "utf8") === lock) return true;
  process.stderr.write(`Installing the packages of ${folder}\n`);
  const { status } = spawnSync("npm", ["ci", "--loglevel=error", "--no-audit", "--no-fund"], {
    cwd: path,
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (status !== 0) {
    process.stderr.write(
      `The packages of ${folder} are missing, because npm ci has failed there. It needs the network.\n`,
    );
    return false;
  }
  // On some systems there is no package for this folder.
  mkdirSync(join(path, "node_modules"), { recursive: true });
  writeFileSync(mark, lock);
  return true;
}

if (import.meta.main) for (const folder of process.argv.slice(2)) if (!installPackages(folder)) process.exitCode = 1;
