import type pg from "pg";
import { appliedTo, changedSince, type Installation, refuseOldDatabase } from "./migrate.ts";
import { namedFilesOf } from "./migration-files.ts";
import { committedIn } from "./migrations-folder.ts";
import { type ModuleState, readModules, refuseUnfit } from "./modules.ts";
import { pendingInQueue } from "./queue.ts";

/** What a database has of the modules and of the migrations of the application. */
export type MigrationState = {
  readonly modules: readonly ModuleState[];
  /** The migrations of graphile-worker that the database does not have; empty without the module `tasks`. */
  readonly queue: readonly string[];
  /** The migrations of the application, in order. */
  readonly migrations: readonly ApplicationMigration[];
  /** The files of migrations that were changed after the database had run them. */
  readonly changed: readonly string[];
};

type ApplicationMigration = {
  /** As the database has it: `000001.sql` */
  readonly name: string;
  /** `000001-notes.sql`; the name if only the database has it. */
  readonly file: string;
  readonly isApplied: boolean;
  /** Whether it is of a newer version, because only the database has it. */
  readonly isNewer: boolean;
};

/** Reads what a start would change, and changes nothing. Rejects with MigrationFailure for a database that a start would refuse. */
export async function readMigrationState(
  client: pg.ClientBase,
  { folder, ...choice }: Installation,
): Promise<MigrationState> {
  await refuseOldDatabase(client);
  await refuseUnfit(client, choice);
  const modules = await readModules(client, choice);
  const applied = folder === null ? [] : await appliedTo(client);
  const committed = folder === null ? [] : await committedIn(folder);
  const names = [...new Set([...committed, ...applied])].sort();
  const files = folder === null ? names : await namedFilesOf(client, folder, names);
  return {
    modules,
    queue: choice.modules.includes("tasks") ? await pendingInQueue(client) : [],
    migrations: names.map((name, i) => ({
      name,
      file: files[i]!,
      isApplied: applied.includes(name),
      isNewer: !committed.includes(name),
    })),
    changed: folder === null ? [] : await changedSince(client, folder),
  };
}

/** What a start would do: `the module auth: installs it` */
export function pendingIn({ modules, queue, migrations }: MigrationState): readonly string[] {
  const missing = migrations.filter(({ isApplied }) => !isApplied).map(({ file }) => file);
  const isNewTasks = modules.some(({ name, version }) => name === "tasks" && version === null);
  return [
    ...modules.flatMap(({ name, pending }) => (pending === "" ? [] : [`the module ${name}: a start ${pending}`])),
    ...(queue.length > 0 && !isNewTasks ? [`the queue of tasks: a start runs ${queue.join(", ")}`] : []),
    ...missing.map(stepFor),
  ];
}

/** What a start would do with the migration in this file. */
export const stepFor = (file: string): string => `the migration ${file} of the application`;
