// npm run db:check: checks that db/schema/ and db/migrations/ create the same database.
import pg from "pg";
import { advise } from "../advisor/advisor.ts";
import { CALLER_ROLES } from "../advisor/callers.ts";
import { type Finding, sentenceOf } from "../advisor/finding.ts";
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
  let findings: readonly Finding[] = [];
  const compiled = await describeNew("compiled", async (url) => {
    await query(url, await compileSchema(url));
    findings = await connected(url, findingsIn);
  });
  report(differences(migrated, compiled), compiled.length);
  reportFindings(findings);
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

/** What the advisor finds in the API that db/schema/ creates. */
async function findingsIn(client: pg.Client): Promise<readonly Finding[]> {
  const roles = ["anon", ...CALLER_ROLES];
  return (await advise(client, { schemas: ["public"], logins: [], roles })).findings;
}

/** Errors fail the check. */
function reportFindings(findings: readonly Finding[]): void {
  for (const finding of findings) console.warn(`${finding.level}: ${sentenceOf(finding)} (${finding.rule})`);
  if (findings.some(({ level }) => level === "error")) process.exitCode = 1;
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
