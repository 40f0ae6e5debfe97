import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { explainFailure } from "./migration-failure.ts";

/**
 * The folder `base` in `db/` of an application: SQL of what a database had before the application, such as that of pg_dump. Null if
 * there is none. It runs only on new databases of tests and of `migrate check` and `commit`.
 */
export function baseOf(home: string): string | null {
  const folder = join(home, "base");
  return existsSync(folder) ? folder : null;
}

/** Runs its files in the order of their names. Rejects with MigrationFailure. */
export async function loadBase(url: string, folder: string | null): Promise<void> {
  for (const name of folder === null ? [] : globSync("*.sql", { cwd: folder }).sort()) {
    const text = withoutMetaCommands(readFileSync(join(folder!, name), "utf8"));
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
