import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { similarTo } from "../db/catalog/similar.ts";
import { MigrationFailure } from "../db/cluster/migration-failure.ts";
import { readSql } from "../db/cluster/sql-file.ts";

/** A line that includes a file of `db/schema/`, as graphile-migrate reads it: `--!include posts/access.sql` */
const INCLUDE = /^--![ \t]*include[ \t]+(.*\.sql)[ \t]*$/;
/** A line that looks like one. graphile-migrate skips some as comments, and throws for others. */
const ALMOST = /^--[ \t]*![ \t]*(?:include|(?:End)?Included)\b/i;

const SCHEMA = "schema.sql";

/** The files that `db/schema/schema.sql` includes. Rejects with MigrationFailure. `schema` is the path of the folder. */
export const includedBySchema = (schema: string): Promise<ReadonlySet<string>> =>
  checkIncludes({ path: join(schema, SCHEMA), name: `db/schema/${SCHEMA}` }, schema);

/** The files of `db/schema/` that `schema.sql` does not include: `["bookmarks/access.sql"]` */
export async function notIncluded(schema: string): Promise<readonly string[]> {
  const [files, included] = await Promise.all([filesIn(schema), includedBySchema(schema)]);
  return files.filter((file) => file !== SCHEMA && !included.has(file));
}

/** A file with includes; `name` is how messages call it. */
type Source = { readonly path: string; readonly name: string };

/** Follows the includes of a file, and returns them all. Rejects with MigrationFailure: which line is wrong, and how to fix it. */
export async function checkIncludes(source: Source, schema: string): Promise<ReadonlySet<string>> {
  const files = await filesIn(schema);
  const included = new Set<string>();
  await follow(source, []);
  return included;

  async function follow({ path, name }: Source, within: readonly string[]): Promise<void> {
    const lines = readSql(path, name).split(/\r?\n/);
    for (const [i, line] of lines.entries()) {
      const fail = (reason: string) => new MigrationFailure(`${name}, line ${i + 1}: ${reason}\n    ${line}`);
      const [, file] = INCLUDE.exec(line) ?? [];
      if (file === undefined && ALMOST.test(line))
        throw fail("this includes nothing: write --!include and a file of db/schema/, such as users/access.sql");
      if (file === undefined) continue;
      if (!files.includes(file)) throw fail(`db/schema/${file} does not exist. ${fixFor(file, files)}`);
      if (within.includes(file)) throw fail(`db/schema/${file} includes itself: remove one of the lines`);
      if (included.has(file)) continue;
      await follow({ path: join(schema, file), name: `db/schema/${file}` }, [...within, file]);
      included.add(file);
    }
  }
}

function fixFor(file: string, files: readonly string[]): string {
  // `access.sql` is the end of `bookmarks/access.sql`.
  const sameEnd = files.filter((each) => each.endsWith(`/${file}`));
  const meant = similarTo(file, files) ?? (sameEnd.length === 1 ? sameEnd[0] : null);
  return meant ? `Did you mean ${meant}?` : "Create the file, or correct its name, which begins below db/schema/.";
}

async function filesIn(schema: string): Promise<readonly string[]> {
  const files = await readdir(schema, { recursive: true }).catch(({ message }: Error) => {
    throw new MigrationFailure(`db/schema cannot be read through the link db/migrations/fixtures: ${message}. ${LINK}`);
  });
  return files.filter((file) => file.endsWith(".sql")).sort();
}

const LINK = "Take both back (git restore db), or make the link again: ln -s ../schema db/migrations/fixtures";
