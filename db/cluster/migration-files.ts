import type pg from "pg";
import { filesOf } from "./migrations-folder.ts";

/** The database has only the numbers of migrations, and an older version of the application does not have the files of newer ones. */
const TABLE = "create table if not exists content_service.migration_files (name text primary key, file text not null)";

/** Remembers the names of the files of these migrations: `000004.sql`, of the file `000004-tags.sql`. */
export async function rememberFiles(
  client: pg.ClientBase,
  names: readonly string[],
  files: readonly string[],
): Promise<void> {
  await client.query(TABLE);
  await client.query(
    `insert into content_service.migration_files as m
     select name, file from unnest($1::text[], $2::text[]) as f (name, file)
     on conflict (name) do update set file = excluded.file where m.file <> excluded.file`,
    [names, files],
  );
}

/** The names of the files of migrations, of which a newer version may have some: `000004.sql` → `000004-tags.sql` */
export async function namedFilesOf(
  client: pg.ClientBase,
  folder: string,
  names: readonly string[],
): Promise<readonly string[]> {
  const files = await filesOf(folder, names);
  const { rows: found } = await client.query<{ has: boolean }>(
    "select to_regclass('content_service.migration_files') is not null as has",
  );
  if (!found[0]!.has) return files;
  const { rows } = await client.query<{ name: string; file: string }>(
    "select name, file from content_service.migration_files where name = any ($1)",
    [names],
  );
  const remembered = new Map(rows.map(({ name, file }) => [name, file]));
  return files.map((file, i) => (file === names[i] ? (remembered.get(file) ?? file) : file));
}
