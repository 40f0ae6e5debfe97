import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** What takes most of the time of the tests: services that are started in the process of the tests, databases, and other processes. */
export const COUNTED = ["services", "databases", "processes"] as const;
export type Counted = (typeof COUNTED)[number];

/** In the folder of the run, which its processes share. */
const file = () => join(tmpdir(), "counts");

export const count = (what: Counted): void => appendFileSync(file(), `${what}\n`);

/** How many there were so far in this run: `{ services: 12, databases: 20, processes: 0 }` */
export function readCounts(): Record<Counted, number> {
  const lines = existsSync(file()) ? readFileSync(file(), "utf8").split("\n") : [];
  const entries = COUNTED.map((what) => [what, lines.filter((line) => line === what).length] as const);
  return Object.fromEntries(entries) as Record<Counted, number>;
}
