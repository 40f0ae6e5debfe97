import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Configured } from "../app/configured.ts";
import { migrate } from "../db/cluster/migrate.ts";
import { hasCurrent } from "../db/cluster/migrations-folder.ts";
import type { Descriptions } from "../rest-gateway/descriptions.ts";
import { appliedText, runningUrl } from "./command.ts";
import { applyCurrent } from "./current-migration.ts";
import { watchFiles } from "./file-watcher.ts";
import { explainWith } from "./open-parts.ts";

/** The types of the database, in the folder of the application. */
const TYPES = "database.types.ts";

/** Folders at the top whose files the service does not load: packages, hidden folders, and tests. */
const NOT_WATCHED = /^(\.|node_modules$|test$)/;
const SQL = /^db\/(schema|migrations)\/.*\.sql$/;
const CODE = /^\.env$|\.([cm]?[jt]s|json)$/;

const SCHEMA = "db/schema/";

const notIncluded = (folder: string, file: string) =>
  existsSync(join(folder, file))
    ? `changed, but was not run: db/migrations/current.sql is empty. Add --!include ${file.slice(SCHEMA.length)} to it`
    : "was deleted, and the database stays as it is: add the statements that drop what it made to db/migrations/current.sql";

/** Milliseconds without a change after which a file counts as written. */
const SETTLED = 50;

export type DevOptions = {
  readonly folder: string;
  readonly configured: Configured;
  /** Null without the part for them: no types are written. */
  readonly descriptions: Pick<Descriptions, "typesOf"> | null;
  /** Serves the files of the application as they are now. Rejects if they cannot be served: the previous ones still are. */
  replace(): Promise<void>;
  readonly print: (text: string) => void;
};

/** Follows the files of an application: its TypeScript is reloaded, and its SQL is run. Resolves after the first run of the SQL. */
export async function followFiles(options: DevOptions): Promise<void> {
  const { folder, replace, print } = options;
  const changed = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  let migrating = update(options);
  let last = 0;
  const reload = async (files: string) => {
    last += 1;
    const own = last;
    const since = performance.now();
    try {
      await replace();
      print(`${files} changed: reloaded in ${((performance.now() - since) / 1000).toFixed(1)} s\n`);
    } catch (error) {
      // A later change has ended this attempt.
      if (own !== last) return;
      print(
        `${(error as Error).message}\n${files} changed, but cannot be loaded: the previous version keeps serving\n`,
      );
    }
  };
  const act = () => {
    const [code, sql] = [CODE, SQL].map((kind) => [...changed].filter((file) => kind.test(file)).sort());
    changed.clear();
    if (sql!.length > 0) migrating = migrating.then(() => update(options, sql!));
    if (code!.length > 0) void reload(code!.join(", "));
  };
  const onChange = (file: string) => {
    if (file === TYPES || !(CODE.test(file) || SQL.test(file))) return;
    changed.add(file);
    clearTimeout(timer);
    timer = setTimeout(act, SETTLED);
  };
  await watchFiles(folder, { onChange, isLeftOut: (path) => NOT_WATCHED.test(path) });
  await migrating;
}

/** Runs the migrations, `current.sql` included, and writes the types of the database. */
async function update(
  { folder, configured, descriptions, print }: DevOptions,
  changed: readonly string[] = [],
): Promise<void> {
  const { config } = configured;
  const { migrationsFolder } = configured.application;
  try {
    if (config.migrate === "on" && migrationsFolder !== null) {
      const url = config.databaseDirectUrl || config.databaseUrl || runningUrl(config.dataDir)!;
      const explain = explainWith(configured, url);
      const installation = { folder: migrationsFolder, modules: config.modules, userId: config.authUserId };
      await migrate(url, () => {}, installation).catch(explain);
      if (await hasCurrent(migrationsFolder)) {
        print(appliedText(await applyCurrent(url, () => {}, migrationsFolder).catch(explain)));
      } else for (const file of changed) if (file.startsWith(SCHEMA)) print(`${file} ${notIncluded(folder, file)}\n`);
    }
    if (descriptions === null) return;
    const [types, previous] = [
      await descriptions.typesOf(config),
      await readFile(join(folder, TYPES), "utf8").catch(() => ""),
    ];
    if (types === previous) return;
    await writeFile(join(folder, TYPES), types);
    print(`${TYPES} has the types of the database\n`);
  } catch (error) {
    print(`${(error as Error).message}\n`);
  }
}
