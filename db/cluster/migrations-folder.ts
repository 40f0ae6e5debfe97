import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { statementsOf } from "../sql-tokens.ts";

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
  const files = await readdir(join(folder, "committed"));
  const numbers = files.flatMap((file) => /^(\d{6,}).*\.sql$/.exec(file)?.[1] ?? []);
  return numbers.map((number) => `${number}.sql`).sort();
}

/** The names of the files of migrations that are stored under these: `000014.sql` → `000014-posts-have-subtitles.sql` */
export async function filesOf(folder: string, names: readonly string[]): Promise<readonly string[]> {
  const files = await readdir(join(folder, "committed"));
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
  const files = (await readdir(join(folder, "committed"))).filter((file) => /^\d{6,}.*\.sql$/.test(file)).sort();
  const migrations = await Promise.all(files.map((file) => readCommitted(folder, file)));
  return migrations.filter(({ name }) => name > last);
}

const HEAD = /^(?:--! [A-Z].*\n)*/;

export async function readCommitted(folder: string, file: string): Promise<Committed> {
  const text = await readFile(join(folder, "committed", file), "utf8");
  const [head] = HEAD.exec(text)!;
  const header = (name: string) => new RegExp(`^--! ${name}: (.*)$`, "m").exec(head)?.[1]?.trim() ?? "";
  const previous = header("Previous");
  return {
    file,
    name: `${/^\d+/.exec(file)![0]}.sql`,
    hash: header("Hash"),
    previous: previous === "-" ? null : previous,
    text,
  };
}

/** What graphile-migrate would record of this text; the hash of the file itself if the file says that it may differ (`AllowInvalidHash`). */
export function hashOf({ hash, previous, text }: Committed): string {
  const [head] = HEAD.exec(text)!;
  if (/^--! AllowInvalidHash/m.test(head)) return hash;
  const body = `${previous ?? ""}\n${text.slice(head.length).trim()}`.trim();
  return `sha1:${createHash("sha1").update(`${body}\n`).digest("hex")}`;
}

/** Whether `current.sql` has statements, which no start runs. */
export async function hasCurrent(folder: string): Promise<boolean> {
  return (
    statementsOf(await readFile(join(folder, CURRENT), "utf8").catch(() => "")).length > 0 || (await includes(folder))
  );
}

const includes = async (folder: string): Promise<boolean> =>
  /^--! ?include /m.test(await readFile(join(folder, CURRENT), "utf8").catch(() => ""));
