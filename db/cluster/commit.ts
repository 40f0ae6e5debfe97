// npm run db:commit -- "what the migration does": commits migrations/current.sql as the next migration.
import { chmod, readdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { startScratchCluster } from "./embedded.ts";
import { commitMigration } from "./migrate.ts";

const COMMITTED = fileURLToPath(new URL("../migrations/committed", import.meta.url));

const message = process.argv[2];
if (!message) {
  console.error('usage: npm run db:commit -- "what the migration does"');
  process.exit(2);
}

const cluster = await startScratchCluster();
try {
  const root = new pg.Client({ connectionString: cluster.url("postgres") });
  await root.connect();
  await root.query("create database content");
  await root.end();
  await commitMigration(
    { database: cluster.url("content"), shadow: cluster.url("shadow"), root: cluster.url("postgres") },
    message,
    (level, text) => console.log(`${level}: ${text}`),
  );
  // graphile-migrate lets only the owner read a migration, but another user may start the service.
  for (const file of await readdir(COMMITTED)) await chmod(join(COMMITTED, file), 0o444);
} finally {
  await cluster.remove();
}
