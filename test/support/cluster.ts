import { mkdir, readFile } from "node:fs/promises";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type pg from "pg";
import type { TestProject } from "vitest/node";
import { COPIES } from "../../cli/scratch-cluster.ts";
import { MODULE_NAMES } from "../../config/modules.ts";
import { withClient } from "../../db/cluster/client.ts";
import { type Installation, migrate } from "../../db/cluster/migrate.ts";
import { startTestCluster } from "../../kit/cluster.ts";
import { hashPassword } from "../../rest-gateway/auth/passwords.ts";
import { PROJECT } from "./command.ts";
import { installPackagesOf } from "./packages.ts";

export const TEMPLATE = "content_template";

/** The migrations of the demo, which is the application of most tests. */
export const MIGRATIONS_FOLDER = fileURLToPath(new URL("../../demo/db/migrations", import.meta.url));

/** What the demo needs in a database. */
export const INSTALLATION: Installation = { folder: MIGRATIONS_FOLDER, modules: MODULE_NAMES, userId: "bigint" };

/**
 * Creates one temporary folder for everything that the tests write, and one scratch cluster for all test files, with a
 * migrated and seeded template that each file copies.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  installPackagesOf(project.vitest.state.getPaths().map((file) => relative(PROJECT, file)));
  const cluster = await startTestCluster();
  // The workers inherit both variables.
  process.env.TMPDIR = cluster.folder;
  await mkdir(join(cluster.folder, COPIES));
  // As in the script `start`.
  process.env.NODE_COMPILE_CACHE = "node_modules/.cache/compiled";
  await makeTemplate(cluster.url("postgres"), cluster.url(TEMPLATE));
  // A test that removes modules would drop a role of callers while no database has a login for it.
  await withClient(cluster.url("postgres"), (owner) => owner.query("create role keeper; grant admin to keeper"));
  project.provide("clusterUrl", cluster.url("postgres"));
  return () => cluster.remove();
}

/** Creates the database of `templateUrl`, migrated and seeded. */
export async function makeTemplate(rootUrl: string, templateUrl: string): Promise<void> {
  const name = new URL(templateUrl).pathname.slice(1);
  await withClient(rootUrl, (owner) => owner.query(`create database ${name}`));
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
    await vacuumCatalog(owner);
  });
}

/** As autovacuum does on a server that has run for longer. Without it, the start of each service takes a fifth more CPU time. */
async function vacuumCatalog(owner: pg.Client): Promise<void> {
  const { rows } = await owner.query<{ name: string }>(
    "select oid::regclass::text as name from pg_class where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r' and not relisshared",
  );
  await owner.query(`vacuum analyze ${rows.map(({ name }) => name).join(", ")}`);
}

/** With a thirtieth of the real cost, which would be a tenth of the CPU time of the tests that sign in. */
export const hashCheaply = (password: string): Promise<string> =>
  hashPassword(password, { memoryCost: 1024, timeCost: 1, parallelism: 1 });

declare module "vitest" {
  export interface ProvidedContext {
    /** The owner's connection string of the database `postgres` on the shared cluster. */
    clusterUrl: string;
  }
}
