// Makes current.sql the next migration, after judging it.
import { chmod, readdir } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { COMMAND } from "../../config/command.ts";
import { commitMigration } from "../../db/cluster/graphile-migrate.ts";
import { hasCurrent } from "../../db/cluster/migrations-folder.ts";
import { CommandError } from "../command.ts";
import { addBreaking, changelogOf } from "./application-changelog.ts";
import { type Comparison, compareSchema, fixForNotIncluded, withModules } from "./compare.ts";
import { breaking, describeRefusal, describeVerdict, judgeCurrent, judgementLines, linesFor } from "./judgement.ts";
import { inScratchCluster, installationOf, type MigrationOptions, urlsIn } from "./migrate.ts";
import { writeNotes } from "./notes.ts";

export async function commit(args: string[], { startScratch, ...options }: MigrationOptions): Promise<string> {
  const { message, reason } = readCommitArguments(args);
  const { configured, ...installation } = await installationOf(options);
  const { folder } = installation;
  const print = options.print ?? ((text: string) => void process.stderr.write(text));
  if (!(await hasCurrent(folder))) throw new CommandError(1, "db/migrations/current.sql has no statements to commit");
  print("Comparing db/schema/ with the migrations …\n");
  return inScratchCluster(startScratch, async (cluster) => {
    const comparison = await compareSchema(cluster, { withCurrent: true, ...installation });
    if (comparison.differences.length + comparison.notIncluded.length > 0)
      throw new CommandError(1, refusalOf(comparison));
    const verdict = await judgeCurrent(cluster, { ...installation, configured, print });
    const { judgements, changes } = breaking(verdict);
    if (judgements.length > 0 || (changes.length > 0 && reason === null))
      throw new CommandError(1, describeRefusal(reason === null ? verdict : { ...verdict, changes: [] }));
    await withModules(cluster, installation, () => commitMigration(urlsIn(cluster), message, () => {}, folder));
    const committed = join(folder, "committed");
    const files = (await readdir(committed)).sort();
    const migration = files.at(-1)!;
    await writeNotes(join(committed, migration), { judgements: judgementLines(verdict), breaking: reason });
    // graphile-migrate lets only the owner read a migration, but another user may start the service.
    for (const file of files) await chmod(join(committed, file), 0o444);
    const written = `${describeVerdict(verdict)}db/migrations/committed/${migration} has been written.\n`;
    if (reason === null) return written;
    await addBreaking(changelogOf(folder), { migration, reason, changes: linesFor(changes) });
    return `${written}CHANGELOG.md has the reason of the breaking change.\n`;
  });
}

function readCommitArguments(args: string[]): { readonly message: string; readonly reason: string | null } {
  try {
    const options = { breaking: { type: "string" } } as const;
    const { values, positionals } = parseArgs({ args, options, allowPositionals: true });
    const [message = "", ...more] = positionals;
    if (message.trim() === "" || more.length > 0) throw new Error("say what the migration does");
    if (values.breaking?.trim() === "") throw new Error("--breaking needs a reason");
    return { message, reason: values.breaking?.trim().replace(/\s+/g, " ") ?? null };
  } catch (error) {
    throw new CommandError(
      2,
      `usage: ${COMMAND} migrate commit "what the migration does" [--breaking "reason"]: ${(error as Error).message}`,
    );
  }
}

/** What is incomplete, and how to fix it. */
function refusalOf({ differences, notIncluded }: Comparison): string {
  const marked = (mark: string) => differences.filter((line) => line.startsWith(mark));
  const listed = (lines: readonly string[]) => lines.map((line) => `  ${line.replaceAll("\n", "\n      ")}`).join("\n");
  const [migrated, written] = [marked("- "), marked("+ ")];
  return [
    differences.length > 0
      ? "nothing was committed: db/schema/ and the migrations would create different databases."
      : "nothing was committed.",
    ...fixForNotIncluded(notIncluded),
    ...(migrated.length > 0
      ? [`Only the migrations create these. Write them into the files of db/schema/ too:\n${listed(migrated)}`]
      : []),
    ...(written.length > 0
      ? [
          `Only db/schema/ creates these. Write them into db/migrations/current.sql, or --!include the file:\n${listed(written)}`,
        ]
      : []),
  ].join("\n");
}
