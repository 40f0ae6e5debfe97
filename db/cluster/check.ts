// npm run db:check: checks that db/schema/ and db/migrations/ create the same database.
import pg from "pg";
import { adviceOnRoles } from "./advice.ts";
import { describeDatabase, differences } from "./describe.ts";
import { startScratchCluster } from "./embedded.ts";
import { compileSchema, migrate } from "./migrate.ts";

const DROP_ROLES = `
  do $$
  declare role name;
  begin
    for role in select rolname from pg_roles where rolname !~ '^pg_' and rolname <> current_user loop
      execute format('drop role %I', role);
    end loop;
  end $$`;

const ADVICE = `
Write the statements that lead from one to the other to db/migrations/current.sql. Use statements that may run twice, or
--!include the topic files that changed. Then run: npm run db:commit -- "what the migration does"`;

const cluster = await startScratchCluster();
try {
  const migrated = await describeNew("migrated", (url) => migrate(url, printErrors));
  const compiled = await describeNew("compiled", async (url) => query(url, await compileSchema(url)));
  report(differences(migrated, compiled), compiled.length);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await cluster.remove();
}

/** Creates a database, describes it and drops it, with its roles: the next database must create them itself. */
async function describeNew(name: string, build: (url: string) => Promise<unknown>): Promise<string[]> {
  await query(cluster.url("postgres"), `create database ${name}`);
  await build(cluster.url(name));
  const description = await connected(cluster.url(name), describeDatabase);
  for (const line of await connected(cluster.url(name), adviceOnRoles)) console.warn(`warning: ${line}`);
  await query(cluster.url("postgres"), `drop database ${name}`);
  await query(cluster.url("postgres"), DROP_ROLES);
  return description;
}

function report(found: readonly string[], objects: number): void {
  if (found.length === 0) {
    console.log(`schema/ and migrations/ create the same database (${objects} objects)`);
    return;
  }
  process.exitCode = 1;
  console.error("schema/ and migrations/ create different databases (- only in migrations/, + only in schema/):\n");
  for (const line of found) console.error(line.replaceAll("\n", "\n    "));
  console.error(ADVICE);
}

function query(url: string, text: string): Promise<unknown> {
  return connected(url, (client) => client.query(text));
}

async function connected<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

function printErrors(level: string, message: string): void {
  if (level === "error") console.error(message);
}
