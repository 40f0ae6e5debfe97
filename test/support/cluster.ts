import { chmod, mkdtemp, readFile, rm, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { pino } from "pino";
import type { TestProject } from "vitest/node";
import { MODULE_NAMES } from "../../config/modules.ts";
import { withClient } from "../../db/cluster/client.ts";
import { startScratchCluster } from "../../db/cluster/embedded.ts";
import { type Installation, migrate } from "../../db/cluster/migrate.ts";
import { fillSkeletons } from "../../rest-gateway/auth/login-names.ts";
import { hashPassword } from "../../rest-gateway/auth/passwords.ts";

export const TEMPLATE = "content_template";

/** The migrations of the demo, which is the application of most tests. */
export const MIGRATIONS_FOLDER = fileURLToPath(new URL("../../demo/db/migrations", import.meta.url));

/** What the demo needs in a database. */
export const INSTALLATION: Installation = { folder: MIGRATIONS_FOLDER, modules: MODULE_NAMES, userId: "bigint" };

/** A file system in memory. On a disk a third of PostgreSQL's CPU time is spent on creating and deleting files. */
const MEMORY_FOLDER = "/dev/shm";
/** Several times what the files of a run take. */
const NEEDED_BYTES = 4_000_000_000;

/**
 * Creates one temporary folder for everything that the tests write, and one scratch cluster for all test files, with a
 * migrated and seeded template that each file copies.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(await findTemporaryFolder(), "content-tests-"));
  // PostgreSQL may run as a separate user, which must be able to enter the folder.
  await chmod(folder, 0o711);
  // The workers inherit both variables.
  process.env.TMPDIR = folder;
  // As in the script `start`.
  process.env.NODE_COMPILE_CACHE = "node_modules/.cache/compiled";
  const cluster = await startScratchCluster();
  // Otherwise each connection of the owner takes 4096 iterations on both sides.
  await query(cluster.url("postgres"), "set scram_iterations = 1; alter role postgres password 'scratch'");
  await makeTemplate(cluster.url("postgres"), cluster.url(TEMPLATE));
  project.provide("clusterUrl", cluster.url("postgres"));
  return async () => {
    await cluster.remove();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
}

/** In memory if there is room for a run, else on the disk. */
async function findTemporaryFolder(): Promise<string> {
  const memory = await statfs(MEMORY_FOLDER).catch(() => null);
  return memory !== null && memory.bavail * memory.bsize >= NEEDED_BYTES ? MEMORY_FOLDER : tmpdir();
}

/** Creates the database of `templateUrl`, migrated and seeded. */
export async function makeTemplate(rootUrl: string, templateUrl: string): Promise<void> {
  await query(rootUrl, `create database ${TEMPLATE}`);
  await migrate(
    templateUrl,
    (level, message) => {
      if (level === "error") console.error(message);
    },
    INSTALLATION,
  );
  const seed = await readFile(new URL("../../demo/db/seed.sql", import.meta.url), "utf8");
  const hash = await hashCheaply("Correct-Horse-7!");
  await withClient(templateUrl, async (owner) => {
    await owner.query(seed.replace(/\$argon2id\$[^']+/, () => hash));
    await fillSkeletons(owner, pino({ enabled: false }));
  });
}

/** With a thirtieth of the real cost, which would be a tenth of the CPU time of the tests that sign in. */
export const hashCheaply = (password: string): Promise<string> =>
  hashPassword(password, { memoryCost: 1024, timeCost: 1, parallelism: 1 });

async function query(url: string, sql: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

declare module "vitest" {
  export interface ProvidedContext {
    /** The owner's connection string of the database `postgres` on the shared cluster. */
    clusterUrl: string;
  }
}
