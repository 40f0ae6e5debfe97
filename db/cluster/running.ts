import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The owner's connection string of the embedded database that runs on this folder; null when none does. */
export function runningUrl(dataDir: string): string | null {
  try {
    const password = readFileSync(join(dataDir, "postgres-password"), "utf8").trim();
    // The fourth line of postmaster.pid is the port.
    const port = readFileSync(join(dataDir, "postgres", "postmaster.pid"), "utf8").split("\n")[3];
    return `postgres://postgres:${password}@127.0.0.1:${port}/content`;
  } catch {
    return null;
  }
}
