// The life of a migration.
import { join } from "node:path";
import { MIGRATIONS } from "../../../app/application.ts";
import {
  appliedText,
  CommandError,
  defineCommand,
  FLAG,
  inColumns,
  ownerUrl,
  readService,
  readSettings,
  runningUrl,
  throwFailure,
  withOwner,
} from "../../../cli/command.ts";
import { applyCurrent, uncommitMigration } from "../../../cli/current-migration.ts";
import { watchFiles } from "../../../cli/file-watcher.ts";
import { removeNotes } from "../../../cli/migration-notes.ts";
import { inModuleColumns } from "../../../cli/module.ts";
import { explainWith, inspectorOf } from "../../../cli/open-parts.ts";
import { startScratchCluster } from "../../../cli/scratch-cluster.ts";
import { COMMAND } from "../../../config/command.ts";
import type { Environment } from "../../../config/config.ts";
import { withClient } from "../../../db/cluster/client.ts";
import type { Cluster } from "../../../db/cluster/embedded.ts";
import { installModules } from "../../../db/cluster/migrate.ts";
import { readMigrationState } from "../../../db/cluster/migration-state.ts";
import {
  type Committed,
  CURRENT,
  committedFiles,
  hasCurrent,
  readCommitted,
} from "../../../db/cluster/migrations-folder.ts";
import { inTransaction } from "../../../db/cluster/modules.ts";
import { remember } from "../../../db/cluster/tried-statements.ts";
import { sentenceOf } from "../../../db/findings/finding.ts";
import { statementsOf } from "../../../db/sql-tokens.ts";
import { changelogOf, removeBreaking } from "./application-changelog.ts";
import { compareSchema, incompleteIn, withModules } from "./compare.ts";
import { MIGRATION_RULES } from "./rules.ts";

const HELP = `\
Tries and commits migrations. db/migrations/current.sql is the migration that you are writing.

  ${COMMAND} migrate apply                     run what is new in current.sql on the database
  ${COMMAND} migrate apply --again             run all of current.sql, for example after you have dropped in psql what it made
  ${COMMAND} migrate apply --watch             the same, and again after each change of current.sql or of db/schema/
  ${COMMAND} migrate commit "what it does"     make current.sql the next migration, if nothing speaks against it
  ${COMMAND} migrate commit "…" --breaking "why"
                                            the same although it breaks clients; CHANGELOG.md gets the reason
  ${COMMAND} migrate uncommit                  move the latest migration back to current.sql
  ${COMMAND} migrate check                     check that db/schema/ and the migrations create the same database
  ${COMMAND} migrate check --current           the same, with current.sql as a migration
  ${COMMAND} migrate check --database          check that the database is what its migrations have made, object by object
  ${COMMAND} migrate check --database --json   the same as JSON
  ${COMMAND} migrate status                    show what the database has, and what a start would run
  ${COMMAND} migrate --help                    show this help

apply, uncommit, status and check --database use the database of the service: DATABASE_URL, or the embedded database while the
service runs. commit and check need no running database: they use a temporary one.

check --database runs on a temporary database what has run on yours, and names each object that is missing, changed or extra, of the
application and of the modules of the service. Yours is only read. The exit code is 1 if there is any.

commit judges each statement, and what changes for clients of GraphQL and REST, by role. It refuses a migration that loses data,
that makes instances of the previous version fail, or that breaks clients; otherwise it warns. A comment before a statement accepts
a finding, and stays in the migration. Findings of the advisor are accepted as ${COMMAND} advise --help says.

  -- @accept loses-data no version has used the column since 1.4
  alter table public.notes drop column if exists subtitle;

${Object.entries(MIGRATION_RULES)
  .map(([rule, about]) => `  ${rule.padEnd(23)}${about}`)
  .join("\n")}
`;

/** What all commands of `migrate` have. */
export const MIGRATE = { name: "migrate", help: HELP };

export type MigrationOptions = {
  readonly environment?: Environment;
  /** The folder of the migrations; without it, that of the application. */
  readonly folder?: string;
  /** Starts an empty cluster, in which migrations are tried. */
  readonly startScratch?: () => Promise<Cluster & { remove(): Promise<void> }>;
  /** Receives what `--watch` prints, and the progress of `commit`. */
  readonly print?: (text: string) => void;
  /** Ends `--watch`; without it, Ctrl-C does. */
  readonly signal?: AbortSignal;
};

const COMMANDS: Readonly<Record<string, (args: string[], options: MigrationOptions) => Promise<string>>> = {
  apply: defineCommand({
    ...MIGRATE,
    options: { again: FLAG, watch: FLAG },
    async run({ values }, options: MigrationOptions) {
      const installation = await installationOf(options);
      const url = ownerUrl(await readSettings(options.environment));
      return values.watch ? applyRepeatedly(url, installation, options) : applyOnce(url, installation, values.again);
    },
  }),
  // Loaded only here: it needs PostGraphile.
  commit: async (args, options) => (await import("./commit.ts")).commit(args, options),
  uncommit: defineCommand({ ...MIGRATE, run: (_, options: MigrationOptions) => uncommit(options) }),
  check: async (args, options) =>
    args.includes("--database")
      ? (await import("./check-database.ts")).checkDatabase(args, options)
      : check(args, options),
  status: defineCommand({ ...MIGRATE, run: (_, options: MigrationOptions) => status(options) }),
};

/** Runs the command that the first argument names. */
export const migrationCommand = defineCommand({
  ...MIGRATE,
  handsOn: true,
  async run({ args: [name = "", ...args], refuse }, options: MigrationOptions = {}) {
    const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
    if (command === undefined) throw refuse(`expected ${Object.keys(COMMANDS).join(", ")}`);
    return command(args, options).catch(throwFailure);
  },
});

type Installed = Awaited<ReturnType<typeof installationOf>>;

/** What the migrations of the application need. Throws CommandError. */
export async function installationOf({ folder: given, environment }: MigrationOptions) {
  const configured = await readService(environment);
  const { application, config } = configured;
  const folder = given ?? application.migrationsFolder;
  if (folder === null)
    throw new CommandError(2, `there is no application with ${MIGRATIONS} here: run the command in its folder`);
  return { folder, modules: config.modules, userId: config.authUserId, inspect: inspectorOf(configured), configured };
}

async function applyRepeatedly(
  url: string,
  installation: Installed,
  { print = toStdout, signal }: MigrationOptions,
): Promise<string> {
  const run = () => applyOnce(url, installation).then(print, (error: Error) => print(`${error.message}\n`));
  print("Watching db/migrations/current.sql and db/schema/; press Ctrl-C to stop.\n");
  let running = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  const soon = (delay: number) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      running = running.then(run);
    }, delay);
  };
  const onChange = () => soon(SETTLED);
  for (const each of [installation.folder, join(installation.folder, "../schema")])
    await watchFiles(each, { onChange, signal });
  soon(0);
  await new Promise((resolve) => signal?.addEventListener("abort", resolve));
  clearTimeout(timer);
  await running;
  return "";
}

/** Milliseconds without a change after which a file counts as written. */
const SETTLED = 200;

const toStdout = (text: string): void => void process.stdout.write(text);

async function applyOnce(url: string, { folder, configured, ...choice }: Installed, again = false): Promise<string> {
  const explain = explainWith(configured, url);
  await installModules(url, () => {}, choice).catch(explain);
  if (!(await hasCurrent(folder))) return "db/migrations/current.sql has no statements: there is nothing to apply.\n";
  return appliedText(await applyCurrent(url, () => {}, folder, again).catch(explain));
}

/** Compares `db/schema/` with the committed migrations. */
const check = defineCommand({
  ...MIGRATE,
  options: { current: FLAG },
  async run({ values }, { startScratch, ...options }: MigrationOptions) {
    const installation = await installationOf(options);
    const { folder } = installation;
    const comparison = await inScratchCluster(startScratch, (cluster) =>
      compareSchema(cluster, { withCurrent: values.current, ...installation }),
    );
    const { objects, findings } = comparison;
    const faults = incompleteIn(comparison);
    const notes = findings.map((finding) => `${finding.level}: ${sentenceOf(finding)} (${finding.rule})`);
    if (await hasCurrent(folder)) notes.push(values.current ? UNCOMMITTED : LEFT_OUT);
    if (faults.length > 0 || findings.some(({ level }) => level === "error"))
      throw new CommandError(1, [...faults, ...notes].join("\n"));
    return [...notes, `schema/ and migrations/ create the same database (${objects} objects)\n`].join("\n");
  },
});

/** Both ledgers: the modules, and the migrations of the application. */
async function status({ environment, folder: given }: MigrationOptions): Promise<string> {
  const { application, config } = await readService(environment);
  const folder = given ?? application.migrationsFolder;
  const installation = { folder, modules: config.modules, userId: config.authUserId };
  return withOwner(config, async (client) => {
    const { modules, queue, migrations } = await readMigrationState(client, installation);
    const rows = migrations.map(({ file, isApplied, isNewer }) => ({
      migration: file,
      state: isNewer ? "of a newer version" : isApplied ? "applied" : "not applied",
    }));
    const application = rows.length > 0 ? `\n${inColumns(["migration", "state"], rows)}` : "";
    const behind = queue.length > 0 ? `\nThe queue of tasks lacks ${queue.join(", ")}.\n` : "";
    return inModuleColumns(modules) + behind + application;
  });
}

const COMMIT = `Commit it with ${COMMAND} migrate commit`;
const UNCOMMITTED = `warning: db/migrations/current.sql is not committed: no start runs it. ${COMMIT}`;
const LEFT_OUT = `warning: db/migrations/current.sql is not committed: no start runs it, and this check leaves it out. ${COMMIT}`;

async function uncommit({ startScratch, ...options }: MigrationOptions): Promise<string> {
  const { environment } = options;
  const installation = await installationOf(options);
  const { folder } = installation;
  const config = await readSettings(environment);
  if (await hasCurrent(folder))
    throw new CommandError(1, "db/migrations/current.sql is not empty: commit it first, or move it elsewhere");
  const last = (await committedFiles(folder)).at(-1);
  if (last === undefined) throw new CommandError(1, "there is no committed migration");
  const committed = readCommitted(folder, last);
  await inScratchCluster(startScratch, (cluster) =>
    withModules(cluster, installation, () => uncommitMigration(urlsIn(cluster), () => {}, folder)),
  );
  await removeNotes(join(folder, CURRENT));
  await removeBreaking(changelogOf(folder), last);
  const url = config.databaseUrl || runningUrl(config.dataDir);
  const forgotten = url !== null && (await deleteMigrationRecord(url, committed));
  const again = forgotten ? ` ${COMMAND} migrate apply runs it on the database again.` : "";
  return `${last} was moved back to db/migrations/current.sql.${again}\n`;
}

/**
 * Deletes the record that the migration has run, so that `migrate apply` runs it again. The objects that it created stay, and its
 * statements count as tried. Returns whether the database had run it.
 */
async function deleteMigrationRecord(url: string, { file, name, text }: Committed): Promise<boolean> {
  try {
    return await withClient(url, (client) =>
      inTransaction(client, async () => {
        const { rowCount } = await client.query("delete from graphile_migrate.migrations where filename = any ($1)", [
          // graphile-migrate stores the name without the message.
          [file, name],
        ]);
        if (rowCount === 1) await remember(client, statementsOf(text));
        return rowCount === 1;
      }),
    );
  } catch (error) {
    throw new CommandError(1, `the files were changed, but the database was not: ${(error as Error).message}`);
  }
}

/** Calls back with an empty cluster, which is removed afterwards. */
export async function inScratchCluster<Result>(
  start: MigrationOptions["startScratch"] = startScratchCluster,
  work: (cluster: Cluster) => Promise<Result>,
): Promise<Result> {
  const cluster = await start().catch(({ message }: Error) => {
    throw new CommandError(
      1,
      `a temporary PostgreSQL server, which this command needs, cannot start: ${message}. ${NOT_IN_IMAGE}`,
    );
  });
  try {
    return await work(cluster);
  } finally {
    await cluster.remove();
  }
}

const NOT_IN_IMAGE =
  "Run it in the folder of the application, with DATABASE_URL: an image has no server, and writes no files";

export const urlsIn = (cluster: Cluster) => ({
  database: cluster.url("content"),
  shadow: cluster.url("shadow"),
  root: cluster.url("postgres"),
});
