import { quoteIdentifier } from "../sql.ts";
import type { CodeRow } from "./code-rows.ts";
import { mapYielding } from "./event-loop.ts";

/**
 * What may leave state on a connection, such as session settings or locks: the lower case names of functions, tables,
 * views, types and operators, and words of SQL. `written`: the names of tables and views whose writes do, for example
 * because of a trigger or a default.
 */
export class Code {
  /** Whether a function may execute dynamic SQL, which can contain `prepare`. */
  readonly executesText: boolean;
  readonly #used: Names;
  readonly #written: Names;

  constructor(used: Iterable<string>, executesText: boolean, written: Iterable<string> = []) {
    this.executesText = executesText;
    this.#used = new Names(used);
    this.#written = new Names(written);
  }

  /** Whether a statement runs code. Text in literals and comments counts too. */
  isIn(text: string): boolean {
    const lower = text.toLowerCase();
    const words = wordsOf(lower);
    if (!QUERY.test(lower)) return this.#used.areIn(lower, words);
    const named = words.filter((word) => !WRITES.has(word));
    return this.#used.areIn(lower, named) || (named.length < words.length && this.#written.areIn(lower, named));
  }
}

/** Names as they occur in lower case text. */
export class Names {
  readonly #words: ReadonlySet<string>;
  /** Names that are not one word, such as those of operators. */
  readonly #others: readonly string[];

  constructor(names: Iterable<string>) {
    const all = [...names];
    this.#words = new Set(all.filter(isWord));
    this.#others = all.filter((name) => !isWord(name));
  }

  areIn(text: string, words: readonly string[]): boolean {
    return this.#others.some((name) => text.includes(name)) || words.some((word) => this.#words.has(word));
  }
}

export const isWord = (name: string) => /^[\p{L}_][\p{L}\p{N}_$]*$/u.test(name);
/** The words of a text, without each `begin` that begins a block (before another word or a comment). Others may name a function. */
export const wordsOf = (text: string): readonly string[] =>
  text.replace(/(?<![."])\bbegin\s+(?=[\p{L}_"]|--)/gu, "").match(/[\p{L}_][\p{L}\p{N}_$]*/gu) ?? [];

/** Statements in which `set` and `do` cannot be commands, only parts of a write. */
const QUERY = /^\s*(select|with|insert|update|delete|merge)\b/;
const WRITES = new Set(["insert", "update", "delete", "merge", "set", "do"]);

/** Before the first catalog, every statement counts as code. */
export const UNKNOWN_CODE = new Code([""], true);

/**
 * Words that change the state of the session, that execute other statements, or that write. `U&"…"` writes names with
 * escapes.
 */
const WORDS = [
  ...WRITES,
  ...["copy", "truncate", "call", "execute", "prepare", "deallocate"],
  ...["reset", "discard", "listen", "unlisten", "load", "temp", "temporary", "pg_temp", "hold", 'u&"', "u&'"],
  ...["create", "alter", "drop", "refresh", "import"],
];

/**
 * Finds what is code: objects that are not SQL, and objects whose text names code, until no more are found. A table is
 * code if a policy for reads calls a function that is; its writes are code if a trigger does.
 */
export function codeOf(objects: CodeObjects, executors: readonly unknown[]): Code {
  const found = objects.using(WORDS);
  const used = [...found].filter((id) => !isWrite(id));
  const written = [...found].filter(isWrite).map(nameOf);
  // An object with the name of such a word: whether a statement writes is uncertain.
  const isAmbiguous = objects.all.some(({ id }) => WRITES.has(id));
  return new Code(used, executors.length > 0, isAmbiguous ? [""] : written);
}

/** The names of what may read the claims of the caller or other settings: as above, and what reads settings. */
export const readersOf = (objects: CodeObjects): Names =>
  new Names([...objects.using([...WORDS, ...SETTINGS_READERS])].filter((id) => !isWrite(id)));

/** What reads the settings of a session. */
const SETTINGS_READERS = ["current_setting", "pg_settings", "pg_show_all_settings", "show"];

/** The objects of a database, and which of them the text of each one names. */
export class CodeObjects {
  readonly all: readonly CodeObject[];
  /** By id, and by the words that `using` may begin with: the ids of the objects whose text names it. */
  readonly #users: ReadonlyMap<string, string[]>;

  private constructor(all: readonly CodeObject[], users: ReadonlyMap<string, string[]>) {
    this.all = all;
    this.#users = users;
  }

  static async of(rows: readonly CodeRow[]): Promise<CodeObjects> {
    const objects = await mapYielding(rows, objectOf);
    const known = new Set([...WORDS, ...SETTINGS_READERS, ...objects.map(({ id }) => id)]);
    const users = new Map<string, string[]>([...known].map((id) => [id, []]));
    await mapYielding(objects, ({ id, text, written }) => {
      if (text === null) return;
      for (const used of known.intersection(idsIn(text, written))) users.get(used)!.push(id);
    });
    return new CodeObjects(objects, users);
  }

  /** The words, the objects that are not SQL, and the objects whose text names one of them, until no more are found. */
  using(words: readonly string[]): Set<string> {
    const found = new Set(words);
    for (const { id, text } of this.all) if (text === null) found.add(id);
    // A set that grows during the iteration visits its new elements too.
    for (const id of found) {
      const using = isWord(nameOf(id))
        ? this.#users.get(id)!
        : this.all.filter((object) => names(object, id)).map(idOf);
      for (const user of using) found.add(user);
    }
    return found;
  }
}

/** An object of the database; `id` is its name if it is used, or `writesOf` its name if it is written. */
export type CodeObject = { readonly id: string; readonly text: string | null; readonly written: string };

function objectOf(row: CodeRow): CodeObject {
  const name = nameInText(row.name);
  const written = row.written?.toLowerCase() ?? "";
  const own = row.text?.toLowerCase() ?? null;
  const text = own !== null && written && !row.isWrite ? `${written} ${own}` : own;
  return { id: row.isWrite ? writesOf(name) : name, text: written && text ? withoutWrites(text) : text, written };
}

/** `my "f"` → `my ""f""`, as it is written between quotes. */
const nameInText = (name: string) => quoteIdentifier(name.toLowerCase()).slice(1, -1);

/** Names never contain NUL. */
const writesOf = (name: string) => `${name}\0`;
const isWrite = (id: string) => id.endsWith("\0");
const nameOf = (id: string) => (isWrite(id) ? id.slice(0, -1) : id);
const idOf = ({ id }: CodeObject) => id;

const idsIn = (text: string, written: string) => new Set([...wordsOf(text), ...wordsOf(written).map(writesOf)]);

const names = ({ text, written }: CodeObject, id: string) =>
  isWrite(id) ? written.includes(nameOf(id)) : text?.includes(id);

/** `update users as u set name = …` → `users name = …`. Other statements with `set` remain. */
const withoutWrites = (text: string) =>
  text
    .replace(/\bdo\s+(nothing|update\s+set)\b/g, " ")
    .replace(/\bupdate\s+([\w."]+)(\s+as\s+\w+)?\s+set\b/g, "$1")
    .replace(/\b(insert|update|delete)\b/g, " ");
