// npm run db:check: checks that db/schema/ and db/migrations/ create the same database.
import { type Finding, sentenceOf } from "../advisor/finding.ts";
import { type Comparison, compareSchema, fixForNotIncluded } from "./compare.ts";
import { startScratchCluster } from "./embedded.ts";
import { MigrationFailure } from "./migration-failure.ts";
import { hasCurrent } from "./migrations-folder.ts";

const ADVICE = `
Write the statements that lead from one to the other to db/migrations/current.sql. Use statements that may run twice, or
--!include the topic files that changed. Then run: npm run db:commit -- "what the migration does"`;

const UNCOMMITTED =
  "db/migrations/current.sql is not committed: npm start does not run it, and this check leaves it out. Commit it with npm run db:commit";

const cluster = await startScratchCluster();
try {
  const comparison = await compareSchema(cluster, { withCurrent: false });
  report(comparison);
  reportFindings(comparison.findings);
  if (await hasCurrent()) console.warn(`warning: ${UNCOMMITTED}`);
} catch (error) {
  console.error(error instanceof MigrationFailure ? error.message : error);
  process.exitCode = 1;
} finally {
  await cluster.remove();
}

function report({ differences, notIncluded, objects }: Comparison): void {
  for (const line of fixForNotIncluded(notIncluded)) console.error(line);
  if (notIncluded.length > 0) process.exitCode = 1;
  if (differences.length === 0) {
    console.log(`schema/ and migrations/ create the same database (${objects} objects)`);
    return;
  }
  process.exitCode = 1;
  console.error("schema/ and migrations/ create different databases (- only in migrations/, + only in schema/):\n");
  for (const line of differences) console.error(line.replaceAll("\n", "\n    "));
  console.error(ADVICE);
}

/** Errors fail the check. */
function reportFindings(findings: readonly Finding[]): void {
  for (const finding of findings) console.warn(`${finding.level}: ${sentenceOf(finding)} (${finding.rule})`);
  if (findings.some(({ level }) => level === "error")) process.exitCode = 1;
}
