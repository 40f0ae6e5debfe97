// npm run db:check: proves that db/schema/ and db/migrations/ give the same database.
import pg from "pg";
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
Write what changes the one into the other to db/migrations/current.sql, in statements that may run twice or as
--!include of the topic files that changed, and run: npm run db:commit -- "what the migration does"`;

const cluster = await startScratchCluster();
try {
  const migrated = await describeMade("migrated", (url) => migrate(url, printErrors));
  const compiled = await describeMade("compiled", async (url) => query(url, await compileSchema(url)));
  report(differences(migrated, compiled), compiled.length);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await cluster.remove();
}

/** Makes a database, describes it, and takes it away again with its roles, which the next one must make by itself. */
async function describeMade(name: string, make: (url: string) => Promise<unknown>): Promise<string[]> {
  await query(cluster.url("postgres"), `create database ${name}`);
  await make(cluster.url(name));
  const description = await connected(cluster.url(name), describeDatabase);
  await query(cluster.url("postgres"), `drop database ${name}`);
  await query(cluster.url("postgres"), DROP_ROLES);
  return description;
}

function report(found: readonly string[], objects: number): void {
  if (found.length === 0) {
    console.log(`schema/ and migrations/ give the same database (${objects} objects)`);
    return;
  }
  process.exitCode = 1;
  console.error("schema/ and migrations/ give different databases (- in migrations/ only, + in schema/ only):\n");
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
