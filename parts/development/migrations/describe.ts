import type { ClientBase } from "pg";
import { OBJECTS } from "./objects.ts";

/** An object of a database, or a part of one. */
export type DbObject = {
  /** `column` */
  readonly kind: string;
  /** As in SQL, with its schema: `public.users.age` */
  readonly name: string;
  /** `integer, not null`. The text of a function or comment may span several lines. */
  readonly description: string;
  /** The place of a column in its table; null for other objects. */
  readonly place: number | null;
  /** Its schema, or that of the table to which it belongs; null for objects of the whole database. */
  readonly schema: string | null;
  /** The object without which it does not exist, as `public.users` or `public.touch()`; null if it stands alone. */
  readonly owner: string | null;
};

/**
 * Reads the objects of a database. Two databases with the same objects serve the same API.
 * Left out: system schemas, the tables of graphile-migrate and graphile-worker, the record of the modules, members of extensions, data, and
 * login roles. Empties the connection's search_path, so that every name is written with its schema.
 */
export async function readObjects(client: ClientBase): Promise<readonly DbObject[]> {
  await client.query("select set_config('search_path', '', false)");
  return (await client.query<DbObject>(OBJECTS)).rows;
}

/** Describes a database, one sorted line per object: `column public.users.age: 4 integer, …` */
export async function describeDatabase(client: ClientBase): Promise<string[]> {
  return (await readObjects(client)).map(lineOf).sort();
}

const lineOf = ({ kind, name, place, description }: DbObject): string =>
  `${kind} ${name}: ${place === null ? "" : `${place} `}${description}`;

/**
 * `- ` marks entries of the first description only, `+ ` entries of the second only, sorted by name. Empty if equal.
 */
export function differences(first: readonly string[], second: readonly string[]): string[] {
  const [inFirst, inSecond] = [new Set(first), new Set(second)];
  const missing = first.filter((line) => !inSecond.has(line)).map((line) => `- ${line}`);
  const added = second.filter((line) => !inFirst.has(line)).map((line) => `+ ${line}`);
  return [...missing, ...added].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : Number(nameOf(a) > nameOf(b))));
}

const nameOf = (line: string) => line.slice(2, line.indexOf(": "));
