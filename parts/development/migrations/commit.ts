// Makes current.sql the next migration, after judging it.
import { chmod, readdir } from "node:fs/promises";
import { join } from "node:path";
import { CommandError, defineCommand, TEXT } from "../../../cli/command.ts";
import { commitMigration } from "../../../cli/current-migration.ts";
import { writeNotes } from "../../../cli/migration-notes.ts";
import { hasCurrent } from "../../../db/cluster/migrations-folder.ts";
import { addBreaking, changelogOf } from "./application-changelog.ts";
import { compareSchema, incompleteIn, withModules } from "./compare.ts";
import { breaking, describeRefusal, describeVerdict, judgeCurrent, judgementLines, linesFor } from "./judgement.ts";
import { inScratchCluster, installationOf, MIGRATE, type MigrationOptions, urlsIn } from "./migrate.ts";

export const commit = defineCommand({
  ...MIGRATE,
  options: { breaking: TEXT },
  maxArguments: 1,
  async run({ values, args: [message = ""], refuse }, { startScratch, ...options }: MigrationOptions) {
    if (message.trim() === "") throw refuse("say what the migration does");
    if (values.breaking?.trim() === "") throw refuse("--breaking needs a reason");
    const reason = values.breaking?.trim().replace(/\s+/g, " ") ?? null;
    const { configured, ...installation } = await installationOf(options);
    const { folder } = installation;
    const print = options.print ?? ((text: string) => void process.stderr.write(text));
    if (!(await hasCurrent(folder))) throw new CommandError(1, "db/migrations/current.sql has no statements to commit");
    print("Comparing db/schema/ with the migrations …\n");
    return inScratchCluster(startScratch, async (cluster) => {
      const comparison = await compareSchema(cluster, { withCurrent: true, ...installation });
      const incomplete = incompleteIn(comparison);
      if (incomplete.length > 0) throw new CommandError(1, ["nothing was committed.", ...incomplete].join("\n"));
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
  },
});
