import { parserCache } from "../../../cache/cache.ts";
import { readName, readPath, refuseLongName, tooDeep } from "../../../db/filters/field.ts";
import { tooMany } from "../../../db/filters/patterns.ts";
import { Scanner } from "../../../db/filters/scanner.ts";
import type { AggregateName } from "../../../db/query/plan.ts";
import type { Aggregate, SelectItem } from "../request.ts";

type Embed = Extract<SelectItem, { kind: "embed" }>;
type Select = {
  readonly items: readonly SelectItem[];
  /** Levels of embeds. */
  readonly depth: number;
};

/**
 * Maximum columns and relations in `select`, and names or terms in each other list. To parse and plan so many takes 20 ms; a table has
 * at most 1600 columns.
 */
export const MAX_COLUMNS = 2000;

export function refuseManyColumns(parameter: string, count: number): void {
  if (count > MAX_COLUMNS) throw tooMany(`columns in ${parameter}`, MAX_COLUMNS);
}

export const EVERYTHING: readonly SelectItem[] = [{ kind: "all" }];
const AGGREGATES: readonly AggregateName[] = ["sum", "avg", "min", "max", "count"];
const JOINS: ReadonlySet<string> = new Set(["inner", "left"] satisfies Embed["join"][]);

const cache = parserCache<Select>();

/** Parses the value of `select=`: `id,total:amount::int.sum(),author:users!author_id!inner(name),...details(*)`. */
export function parseSelect(text: string, maxDepth: number): readonly SelectItem[] {
  const { items, depth } = cache.getOrCompute(text, (own) => new SelectReader(own, maxDepth).read());
  if (depth > maxDepth) throw tooDeep("select", maxDepth);
  return items.length === 0 ? EVERYTHING : items;
}

class SelectReader {
  readonly #scanner: Scanner;
  readonly #maxDepth: number;
  #depth = 0;
  #count = 0;

  constructor(text: string, maxDepth: number) {
    this.#scanner = new Scanner("select parameter", text);
    this.#maxDepth = maxDepth;
  }

  read(): Select {
    const items = this.#items(0);
    this.#scanner.expectEnd('"," or the end');
    return { items, depth: this.#depth };
  }

  #items(level: number): SelectItem[] {
    const scanner = this.#scanner;
    const items: SelectItem[] = [];
    scanner.skipSpace();
    if (scanner.isAtEnd || scanner.sees(")")) return items;
    do {
      refuseManyColumns("select", ++this.#count);
      scanner.skipSpace();
      items.push(this.#item(level));
      scanner.skipSpace();
    } while (scanner.takes(","));
    return items;
  }

  #item(level: number): SelectItem {
    const scanner = this.#scanner;
    if (scanner.takes("*")) return { kind: "all" };
    if (scanner.takes("...")) return this.#embed(readName(scanner), null, true, level + 1);
    const alias = takeAlias(scanner);
    if (scanner.takes("count()")) {
      const aggregate: Aggregate = { name: "count", cast: takeCast(scanner) };
      return { kind: "field", field: null, alias, cast: null, aggregate };
    }
    const name = readName(scanner);
    scanner.skipSpace();
    if (scanner.sees("(") || scanner.sees("!")) return this.#embed(name, alias, false, level + 1);
    const field = { name, path: readPath(scanner) };
    return { kind: "field", field, alias, cast: takeCast(scanner), aggregate: takeAggregate(scanner) };
  }

  #embed(name: string, alias: string | null, isSpread: boolean, level: number): Embed {
    const scanner = this.#scanner;
    if (level > this.#maxDepth) throw tooDeep("select", this.#maxDepth);
    this.#depth = Math.max(this.#depth, level);
    const { hint, join } = takeHints(scanner);
    scanner.expect("(", '"!" or "("');
    const select = this.#items(level);
    scanner.expect(")", '"," or ")"');
    return { kind: "embed", name, alias, hint, join, isSpread, select };
  }
}

/** `total:amount` has an alias, `amount::int` has none. */
function takeAlias(scanner: Scanner): string | null {
  const start = scanner.at;
  const alias = readName(scanner);
  scanner.skipSpace();
  if (!scanner.sees("::") && scanner.takes(":")) {
    refuseLongName(alias);
    scanner.skipSpace();
    return alias;
  }
  scanner.at = start;
  return null;
}

/** `!constraint`, `!inner`, or both, in either order. */
function takeHints(scanner: Scanner): Pick<Embed, "hint" | "join"> {
  let hint: string | null = null;
  let join: Embed["join"] = null;
  while (scanner.sees("!")) {
    const start = scanner.at++;
    const isQuoted = scanner.sees('"');
    const word = readName(scanner);
    const isJoin = !isQuoted && JOINS.has(word);
    if ((isJoin ? join : hint) !== null) {
      scanner.at = start;
      throw scanner.error('"("');
    }
    if (isJoin) join = word as Embed["join"];
    else hint = word;
  }
  return { hint, join };
}

/** `::numeric`, `::"my schema"."my type"[]`: the type is looked up later. */
function takeCast(scanner: Scanner): string | null {
  if (!scanner.takes("::")) return null;
  const type = scanner.takeMatch(TYPE)?.trim();
  if (!type) throw scanner.error("a type");
  return type;
}

/** `.sum()`, optionally with a cast of the result: `.sum()::text` */
function takeAggregate(scanner: Scanner): Aggregate | null {
  const found = scanner.takeMatch(AGGREGATE);
  return found === null ? null : { name: found.slice(1, -2) as AggregateName, cast: takeCast(scanner) };
}

const AGGREGATE_TEXT = `\\.(?:${AGGREGATES.join("|")})\\(\\)`;
const AGGREGATE = new RegExp(AGGREGATE_TEXT, "y");
/** Words, quoted names, brackets and dots, until an aggregate. */
const TYPE = new RegExp(`(?:[\\w$ \\[\\]\\u0080-\\uffff]|"[^"]*"|(?!${AGGREGATE_TEXT})\\.)+`, "y");
