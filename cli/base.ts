import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { withClient } from "../db/cluster/client.ts";
import { installModules } from "../db/cluster/migrate.ts";
import { explainFailure, MigrationFailure } from "../db/cluster/migration-failure.ts";
import { MODULES_FOLDER, type ModuleChoice } from "../db/cluster/modules.ts";
import { readSql } from "../db/cluster/sql-file.ts";
import { MODULES } from "../db/modules/modules.ts";

/**
 * Installs the modules in a new database, and loads the base of the application. The base may use the modules, so they come first,
 * unless it has schemas of their names, such as the `auth` of Supabase: they are then installed beside it, or refused, as in the database
 * that it was dumped from. Rejects with MigrationFailure.
 */
export async function installWithBase(url: string, folder: string | null, choice: ModuleChoice): Promise<void> {
  const files = filesOf(folder);
  const isFirst = files.some((file) => createsSchemaOf(file, MODULE_SCHEMAS));
  if (!isFirst) {
    await installModules(url, () => {}, choice);
    return loadBase(url, folder);
  }
  const own = files.find((file) => createsSchemaOf(file, [LEDGER]));
  if (own !== undefined) throw new MigrationFailure(`db/base/${own.name} ${HAS_MODULES}`);
  // A dump grants rights to them.
  const roles = readFileSync(join(MODULES_FOLDER, "caller/roles.sql"), "utf8");
  await withClient(url, (client) => client.query(roles));
  await loadBase(url, folder);
  await installModules(url, () => {}, choice);
}

const LEDGER = "content_service";
const MODULE_SCHEMAS = MODULES.flatMap(({ schemas }) => schemas).concat(LEDGER);

/** Those of pg_dump for `db/base`. */
export const DUMP_ARGUMENTS = ["--schema-only", "--no-owner", "--no-publications", "--no-subscriptions"] as const;

const HAS_MODULES =
  "has the schemas of the service, which every new database gets from the service itself. db/base has what others have made: take the " +
  "file back, and append the statements of the other application to it, or dump a database on which the service has never run. For one " +
  `on which only the service has run, and none of your migrations: pg_dump ${DUMP_ARGUMENTS.join(" ")}${MODULE_SCHEMAS.concat(
    "graphile_migrate",
  )
    .map((name) => ` --exclude-schema=${name}`)
    .join("")}`;

type BaseFile = { readonly name: string; readonly text: string };

function filesOf(folder: string | null): readonly BaseFile[] {
  if (folder === null) return [];
  const read = (name: string) => withoutMetaCommands(readSql(join(folder, name), `db/base/${name}`));
  return globSync("*.sql", { cwd: folder })
    .sort()
    .map((name) => ({ name, text: read(name) }));
}

/** Whether the base makes the schema `auth` itself. */
export const hasOwnAuth = (folder: string | null): boolean =>
  filesOf(folder).some((file) => createsSchemaOf(file, ["auth"]));

const createsSchemaOf = ({ text }: BaseFile, names: readonly string[]): boolean =>
  [...text.matchAll(/^[ \t]*create\s+schema\s+(?:if\s+not\s+exists\s+)?("?)(\w+)\1(?=[\s;]|$)/gim)].some(
    ([, quote, name]) => names.includes(quote === "" ? name!.toLowerCase() : name!),
  );

/** Runs its files in the order of their names. Rejects with MigrationFailure. */
export async function loadBase(url: string, folder: string | null): Promise<void> {
  for (const { name, text } of filesOf(folder)) {
    // Its own connection: pg_dump empties the search_path.
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    try {
      await client.query(text);
      await client.query(REFRESH);
    } catch (error) {
      throw await explainFailure(error, url, { file: `db/base/${name}`, text });
    } finally {
      await client.end();
    }
  }
}

/** pg_dump writes `\restrict` for psql. The numbers of lines stay. */
export const withoutMetaCommands = (text: string): string => text.replace(/^\\(?:un)?restrict .*$/gm, "");

/** Without rows materialized views cannot be read. Later ones may read earlier ones. */
const REFRESH = `do $$
  declare view text;
  begin
    for view in select format('%I.%I', n.nspname, c.relname) from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
      where c.relkind = 'm' and not c.relispopulated order by c.oid
    loop
      execute 'refresh materialized view ' || view;
    end loop;
  end $$`;
