// Compares a database with what its migrations make.

import { CommandError, defineCommand, FLAG, ownerUrl, readService } from "../../../cli/command.ts";
import { COMMAND } from "../../../config/command.ts";
import { type DriftReport, findDrift } from "./drift.ts";
import type { Drift } from "./drift-comparison.ts";
import { inScratchCluster, MIGRATE, type MigrationOptions } from "./migrate.ts";

/** `migrate check --database`. If there is drift, the exit code is 1. */
export const checkDatabase = defineCommand({
  ...MIGRATE,
  options: { database: FLAG, json: FLAG },
  async run({ values }, { startScratch, environment, folder: given }: MigrationOptions) {
    const { application, config } = await readService(environment);
    if (!config.isManaged)
      throw new CommandError(2, "with MIGRATE=off no migration runs on the database: there is nothing to compare");
    const folder = config.migrate === "modules" ? null : (given ?? application.migrationsFolder);
    const url = ownerUrl({ ...config, databaseUrl: config.databaseDirectUrl || config.databaseUrl });
    const options = { folder, modules: config.modules, userId: config.authUserId, anonymousRole: config.dbAnonRole };
    const report = await inScratchCluster(startScratch, (cluster) => findDrift(url, cluster, options));
    const output = values.json ? `${JSON.stringify(jsonOf(report), null, 2)}\n` : textOf(report);
    if (report.drift.length > 0) throw new CommandError(1, "the database differs from its migrations", output);
    return output;
  },
});

const jsonOf = ({ database, objects, drift, notes }: DriftReport) => ({ database, objects, drift, notes });

function textOf({ database, objects, drift, notes }: DriftReport): string {
  const parts = Map.groupBy(drift, ({ of }) => of);
  const blocks = [...parts].map(([of, found]) => `${TITLES[of]}\n${found.map(blockOf).join("")}${FIXES[of]}\n`);
  const head =
    drift.length === 0
      ? `The database ${database} is as its migrations make it (${objects} objects).\n`
      : `The database ${database} differs from its migrations in ${drift.length} of ${objects} objects.\n`;
  return [...notes.map((note) => `note: ${note}\n`), ...blocks, head].join("");
}

const TITLES: Readonly<Record<Drift["of"], string>> = { application: "application", service: "modules of the service" };

/**
 *   changed  column public.notes.title
 *            expected  text, not null
 *            actual    text
 */
function blockOf({ state, kind, name, expected, actual }: Drift): string {
  const [from, to] = expected !== null && actual !== null ? changedLines(expected, actual) : [expected, actual];
  const line = (title: string, text: string | null) =>
    text === null || text === ""
      ? ""
      : `             ${title.padEnd(8)}  ${text.replaceAll("\n", `\n${" ".repeat(23)}`)}\n`;
  return `  ${state.padEnd(9)}${kind} ${name}\n${line("expected", shortened(from))}${line("actual", shortened(to))}`;
}

/** Lines that are shown of a definition. */
const SHOWN = 12;

function shortened(text: string | null): string | null {
  const lines = text?.trim().split("\n") ?? [];
  if (lines.length <= SHOWN) return text === null ? null : lines.join("\n");
  return [...lines.slice(0, SHOWN), `… and ${lines.length - SHOWN} more lines; --json has all`].join("\n");
}

/** Of definitions of many lines, the part that differs, with the number of its first line. */
function changedLines(expected: string, actual: string): readonly [string, string] {
  const [a, b] = [expected.split("\n"), actual.split("\n")];
  if (a.length < 4 || b.length < 4) return [expected, actual];
  const start = a.findIndex((line, i) => line !== b[i]);
  const first = start < 0 ? a.length : start;
  let same = 0;
  while (same < Math.min(a.length, b.length) - first && a.at(-1 - same) === b.at(-1 - same)) same++;
  const partOf = (lines: readonly string[]) => {
    const part = lines.slice(first, lines.length - same);
    return `line ${first + 1}: ${part.length === 0 ? "(nothing)" : part.join("\n").trim()}`;
  };
  return [partOf(a), partOf(b)];
}

const FIXES: Readonly<Record<Drift["of"], string>> = {
  application: `  To keep a change, write it into db/schema/ and db/migrations/current.sql, and commit it: ${COMMAND} migrate commit --help.
  If another application has made it, append its statement to db/base/schema.sql, with the schema before each name: it runs before your migrations.
  To undo it, change the object back in psql: no start does.\n`,
  service: `  Nothing but the service changes its modules. To make their functions, triggers and grants again, run in psql
    update content_service.modules set code_hash = '';
  and then ${COMMAND} upgrade --yes. Change tables back in psql before.\n`,
};
