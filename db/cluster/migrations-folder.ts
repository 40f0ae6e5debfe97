import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { statementsOf } from "./statements.ts";

/** The migration that is being written. */
export const CURRENT = "current.sql";

/** The folder `db/schema/` of an application. A folder of migrations has `committed/`, `current.sql`, and `fixtures`, a link to that. */
export const schemaOf = (folder: string): string => join(folder, "fixtures");

/** The committed migrations in order, as graphile-migrate stores them: `000014-posts-have-subtitles.sql` → `000014.sql` */
export async function committedIn(folder: string): Promise<readonly string[]> {
  const files = await readdir(join(folder, "committed"));
  const numbers = files.flatMap((file) => /^(\d{6,}).*\.sql$/.exec(file)?.[1] ?? []);
  return numbers.map((number) => `${number}.sql`).sort();
}

/** Whether `current.sql` has statements, which no start runs. */
export async function hasCurrent(folder: string): Promise<boolean> {
  return (
    statementsOf(await readFile(join(folder, CURRENT), "utf8").catch(() => "")).length > 0 || (await includes(folder))
  );
}

const includes = async (folder: string): Promise<boolean> =>
  /^--! ?include /m.test(await readFile(join(folder, CURRENT), "utf8").catch(() => ""));
