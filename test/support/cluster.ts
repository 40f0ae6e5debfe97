import { readFile } from "node:fs/promises";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { startScratchCluster } from "../../db/cluster/embedded.ts";
import { migrate } from "../../db/cluster/migrate.ts";

export const TEMPLATE = "content_template";

/** Creates one scratch cluster for all test files, with a migrated and seeded template that each file copies. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const cluster = await startScratchCluster();
  await makeTemplate(cluster.url("postgres"), cluster.url(TEMPLATE));
  project.provide("clusterUrl", cluster.url("postgres"));
  return cluster.remove;
}

/** Creates the database of `templateUrl`, migrated and seeded. */
export async function makeTemplate(rootUrl: string, templateUrl: string): Promise<void> {
  await query(rootUrl, `create database ${TEMPLATE}`);
  await migrate(templateUrl, (level, message) => {
    if (level === "error") console.error(message);
  });
  await query(templateUrl, await readFile(new URL("../../db/seed.sql", import.meta.url), "utf8"));
}

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
