import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { statementsOf } from "../sql-tokens.ts";
import { MigrationFailure } from "./migration-failure.ts";
import { readSql } from "./sql-file.ts";

/** The migration that is being written. */
export const CURRENT = "current.sql";

/** The folder `db/schema/` of an application. A folder of migrations has `committed/`, `current.sql`, and `fixtures`, a link to that. */
export const schemaOf = (folder: string): string => join(folder, "fixtures");

/**
 * The folder `base` in `db/` of an application: SQL of what a database had before the application, such as that of pg_dump. Null if
 * there is none. It runs only on new databases of tests and of `migrate check` and `commit`.
 */
export function baseOf(home: string): string | null {
  const folder = join(home, "base");
  return existsSync(folder) ? folder : null;
}

/** The committed migrations in order, as graphile-migrate stores them: `000014-posts-have-subtitles.sql` → `000014.sql` */
export async function committedIn(folder: string): Promise<readonly string[]> {
  return (await committedFiles(folder)).map(nameOf);
}

/** The names of the files of migrations that are stored under these: `000014.sql` → `000014-posts-have-subtitles.sql` */
export async function filesOf(folder: string, names: readonly string[]): Promise<readonly string[]> {
  const files = await committedFiles(folder);
  return names.map((name) => files.find((file) => file.startsWith(name.replace(".sql", ""))) ?? name);
}

/** A committed migration: the name of its file, and what graphile-migrate records of it. */
export type Committed = {
  readonly file: string;
  readonly name: string;
  readonly hash: string;
  /** Null for the first. */
  readonly previous: string | null;
  readonly text: string;
};

/** The committed migrations after the one with this name, in order. */
export async function committedAfter(folder: string, last: string): Promise<readonly Committed[]> {
  const files = (await committedFiles(folder)).filter((file) => nameOf(file) > last);
  return files.map((file) => readCommitted(folder, file));
}

/** Sorted. Git does not keep the folder while there is none. */
export async function committedFiles(folder: string): Promise<readonly string[]> {
  const path = join(folder, "committed");
  const files = existsSync(path) ? await readdir(path) : [];
  return files.filter((file) => /^\d{6,}.*\.sql$/.test(file)).sort();
}

const nameOf = (file: string): string => `${/^\d+/.exec(file)![0]}.sql`;

/** The headers of a committed migration. An empty line ends them. */
export const HEAD = /^(?:--! [A-Z].*\n)*/;

/** Throws MigrationFailure if graphile-migrate could not read it. */
export function readCommitted(folder: string, file: string): Committed {
  const text = readSql(join(folder, "committed", file), `db/migrations/committed/${file}`);
  if (/^--! .*\r\n/.test(text)) throw new MigrationFailure(`db/migrations/committed/${file} ${OTHER_LINE_ENDS}`);
  const [head] = HEAD.exec(text)!;
  const header = (name: string) => new RegExp(`^--! ${name}: (.*)$`, "m").exec(head)?.[1]?.trim() ?? "";
  const previous = header("Previous");
  return {
    file,
    name: nameOf(file),
    hash: header("Hash"),
    previous: previous === "-" ? null : previous,
    text,
  };
}

const OTHER_LINE_ENDS =
  "has the line ends of Windows, which Git has written: run git config core.autocrlf input, delete the file, and run git restore on it";

/** What graphile-migrate would record of this text; the hash of the file itself if the file says that it may differ (`AllowInvalidHash`). */
export function hashOf({ hash, previous, text }: Committed): string {
  const [head] = HEAD.exec(text)!;
  if (/^--! AllowInvalidHash/m.test(head)) return hash;
  const body = `${previous ?? ""}\n${text.slice(head.length).trim()}`.trim();
  return `sha1:${createHash("sha1").update(`${body}\n`).digest("hex")}`;
}

/** Whether `current.sql` has statements, which no start runs. */
export async function hasCurrent(folder: string): Promise<boolean> {
  const text = await readFile(join(folder, CURRENT), "utf8").catch(() => "");
  return statementsOf(text).length > 0 || /^\ufeff?--! ?include /m.test(text);
}
