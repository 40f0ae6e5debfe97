// What applications name as a globalSetup of vitest: "content-service/test/setup".
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { MIGRATIONS } from "../app/application.ts";
import { CONFIG_FILE, type Definition, loadApplication } from "../app/load.ts";
import { installWithBase, loadBase } from "../cli/base.ts";
import { applyCurrent } from "../cli/current-migration.ts";
import { ConfigError, folderIn } from "../config/config.ts";
import { withClient } from "../db/cluster/client.ts";
import { baseOf, hasCurrent } from "../db/cluster/migrations-folder.ts";
import { readSql } from "../db/cluster/sql-file.ts";
import { createLog } from "../gate/pipeline/log.ts";
import { openConfigured } from "../service/open.ts";
import { onTestDatabase } from "./application.ts";
import { startTestCluster } from "./cluster.ts";

const TEMPLATE = "template_of_tests";

/** Starts a server for the run, with a database that is migrated and seeded as that of a new installation. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const definition = await loadApplication(folderIn());
  const { folder } = definition;
  if (folder === null)
    throw new ConfigError(`there is no ${CONFIG_FILE} here: run the tests in the folder of the application`);
  const cluster = await startTestCluster();
  try {
    await withClient(cluster.url("postgres"), (owner) => owner.query(`create database ${TEMPLATE}`));
    await prepare(definition, cluster.url(TEMPLATE));
    project.provide("contentService", { clusterUrl: cluster.url("postgres"), template: TEMPLATE, folder });
  } catch (error) {
    await cluster.remove();
    throw error;
  }
  return () => cluster.remove();
}

/** With `current.sql`, which is tested before it is committed. */
async function prepare(definition: Definition, url: string): Promise<void> {
  const { config, application } = await onTestDatabase(definition, url);
  const { migrationsFolder, seedFile } = application;
  const base = baseOf(join(application.folder!, "db"));
  if (migrationsFolder === null && base === null)
    throw new ConfigError(`the application has no ${MIGRATIONS}, which make the database of the tests, and no db/base`);
  if (base !== null) {
    const choice = { modules: config.modules, userId: config.authUserId };
    await (config.isManaged ? installWithBase(url, base, choice) : loadBase(url, base));
  }
  if (!config.isManaged) {
    if (seedFile !== null) await withClient(url, async (owner) => owner.query(readSql(seedFile, "db/seed.sql")));
    return;
  }
  if (migrationsFolder !== null && (await hasCurrent(migrationsFolder))) {
    await open(await onTestDatabase(definition, url));
    await applyCurrent(url, () => {}, migrationsFolder);
  }
  await open(await onTestDatabase(definition, url, { SEED: "demo" }));
}

const open = (configured: Awaited<ReturnType<typeof onTestDatabase>>) => openConfigured(configured, createLog("error"));
