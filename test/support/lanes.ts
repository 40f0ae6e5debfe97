import { globSync } from "node:fs";

/**
 * When a test file runs, by its name:
 *
 *   x.test.ts          `npm test`: starts no process but the shared PostgreSQL, and costs at most `QUICK_SECONDS`
 *   x.all.test.ts      `npm run test:all`: anything else
 *   x.release.test.ts  `npm run test:release`: installations, tutorials, other versions, disturbances
 */
export const LANES = ["quick", "all", "release"] as const;
export type Lane = (typeof LANES)[number];

/** Seconds of CPU time, of PostgreSQL too, on the slow machine of test/costs.json: about a third of them on a good one. */
export const QUICK_SECONDS = 6;
/** The same of all quick files together. */
export const ALL_QUICK_SECONDS = 1000;

/** One file of each integration is quick although it starts processes, so that `npm test` shows each of them once. */
export const ONE_OF_EACH: Readonly<Record<string, string>> = {
  "test/start.test.ts": "the command `npm start`",
  "test/parts/openapi/types.test.ts": "a command of the binary",
  "test/browser/session.test.ts": "a page in a browser",
  "test/deploy/package-links.test.ts": "the package",
  "test/existing/trackit.test.ts": "a database of other people",
  "test/existing/redis.test.ts": "Redis",
  "test/existing/pooler.test.ts": "PgBouncer",
};

export const laneOf = (file: string): Lane => {
  if (file.endsWith(".release.test.ts")) return "release";
  return file.endsWith(".all.test.ts") ? "all" : "quick";
};

/** `test/db/pool.test.ts` and the others, of every lane. Those of an application run in test/cli/test.all.test.ts. */
export const listTestFiles = (): readonly string[] =>
  globSync("test/**/*.test.ts", { exclude: ["test/applications/*/test/**"] }).toSorted();

/** The lanes of this run, from the environment variable TEST_LANES: `quick,all` */
export const lanesOfRun = (): readonly Lane[] =>
  LANES.filter((lane) => (process.env.TEST_LANES ?? LANES.join()).split(",").includes(lane));
