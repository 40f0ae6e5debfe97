import { writeArray } from "../../array-text.ts";
import type { Table } from "../../catalog/catalog.ts";
import type { ChangedTable } from "../change.ts";
import { CheckError, type Checker } from "./checker.ts";
import { type Condition, columnsIn, compile, type Decide, type Operand, type Term } from "./condition.ts";
import { sharedFilter } from "./filter.ts";
import { Lookup } from "./lookup.ts";
import { hasColumns, type Row, rowsText } from "./row-source.ts";
import { SharedCheck } from "./shared-check.ts";
import type { Watch } from "./watches.ts";

/** The part of a policy that this process decides for one caller. The condition is null if every row passes, or if queries decide it. */
export type PolicyPart = { readonly condition: Condition | null; readonly terms: readonly Term[] };

/** Watches whose filters and policies differ in their terms only. */
type Group<W> = {
  readonly lookup: Lookup<W>;
  /** For filters that only Postgres can decide. */
  readonly check: SharedCheck | null;
  readonly columns: ReadonlySet<string>;
};

/** The watches for each row. `errors`: by watch and index of the row, the error that left it open whether the row fulfils the filter. */
export type Found<W> = {
  readonly watches: readonly Set<W>[];
  readonly errors: ReadonlyMap<W, ReadonlyMap<number, CheckError>>;
};

/** Finds the watches for which a row fulfils the filter and the part of the policy that this process decides. */
export class Matcher<W extends Watch> {
  readonly #table: Table;
  readonly #role: string;
  readonly #checker: Checker;
  readonly #groups = new Map<string, Group<W>>();
  readonly #places = new Map<W, { readonly group: Group<W>; readonly part: PolicyPart }>();

  constructor(table: Table, role: string, checker: Checker) {
    this.#table = table;
    this.#role = role;
    this.#checker = checker;
  }

  /** All parts have the same condition, or null. */
  add(watch: W, part: PolicyPart): void {
    const group = this.#groupOf(watch, part);
    group.lookup.add(watch, [...part.terms, ...(watch.filter?.terms ?? [])]);
    this.#places.set(watch, { group, part });
  }

  delete(watch: W): void {
    this.#places.get(watch)?.group.lookup.delete(watch);
    this.#places.delete(watch);
  }

  /** The watches of a row include those with an error for it. */
  async find(rows: readonly Row[]): Promise<Found<W>> {
    const found = rows.map(() => new Set<W>());
    const errors = new Map<W, Map<number, CheckError>>();
    const doubtful = new Map<Group<W>, Map<W, number[]>>();
    for (const [i, row] of rows.entries()) {
      for (const group of this.#groups.values()) {
        group.lookup.find(namesOf(row.table), row.image, (watch, isCertain) => {
          if (isCertain) found[i]!.add(watch);
          else if (hasColumns(row, group.columns)) listAt(mapAt(doubtful, group), watch).push(i);
        });
      }
    }
    await Promise.all([...doubtful].map(([group, watches]) => this.#ask(group, watches, rows, found, errors)));
    return { watches: found, errors };
  }

  /** Whether the part of the policy that is decided in process holds for the row. */
  mayInProcess(watch: W, { table, image }: Row): boolean {
    const { condition, terms } = this.#places.get(watch)!.part;
    return condition === null || decideOf(condition, table)(image, terms) === true;
  }

  #groupOf({ filter }: W, part: PolicyPart): Group<W> {
    const key = `${part.condition === null ? "" : "policy "}${filter?.shape ?? ""}`;
    const known = this.#groups.get(key);
    if (known) return known;
    const own = filter && shifted(filter.condition, part.terms.length);
    const group = {
      lookup: new Lookup<W>(
        own && part.condition ? { kind: "and", conditions: [own, part.condition] } : (own ?? part.condition),
      ),
      check: filter && new SharedCheck(sharedFilter(filter), this.#table, this.#role, this.#checker),
      columns: filter ? columnsIn(filter.condition) : NO_COLUMNS,
    };
    this.#groups.set(key, group);
    return group;
  }

  /** Lets Postgres decide filters for the rows with these indexes. */
  async #ask(
    { check }: Group<W>,
    doubtful: ReadonlyMap<W, readonly number[]>,
    rows: readonly Row[],
    found: readonly Set<W>[],
    errors: Map<W, Map<number, CheckError>>,
  ): Promise<void> {
    const indexes = [...new Set([...doubtful.values()].flat())];
    const texts = rowsText(
      indexes.map((i) => rows[i]!),
      this.#table,
    );
    const watches = [...doubtful.keys()];
    const lists = watches.map(({ filter }) => filter!.terms.map(textOf));
    const matching = await findEach(check!, lists, texts);
    for (const [i, watch] of watches.entries()) {
      const result = matching[i]!;
      const own = new Set(doubtful.get(watch)!);
      const matched = result instanceof CheckError ? own : own.intersection(new Set(result.map((at) => indexes[at]!)));
      for (const index of matched) {
        if (!this.mayInProcess(watch, rows[index]!)) continue;
        found[index]!.add(watch);
        if (result instanceof CheckError) mapAt(errors, watch).set(index, result);
      }
    }
  }
}

const NO_COLUMNS: ReadonlySet<string> = new Set();

/** A filter that raises an error, such as a comparison that overflows, matches no row. One that takes too long yields a CheckError. */
async function findEach(
  check: SharedCheck,
  lists: readonly (readonly (string | null)[])[],
  rows: string,
): Promise<readonly (readonly number[] | CheckError)[]> {
  try {
    const matching: number[][] = lists.map(() => []);
    for (const [row, places] of await check.find(lists, rows)) for (const place of places) matching[place]!.push(row);
    return matching;
  } catch (error) {
    if (!(error instanceof CheckError)) throw error;
    if (lists.length === 1) return [error.isTimeout ? error : []];
    const middle = lists.length >> 1;
    const halves = [lists.slice(0, middle), lists.slice(middle)];
    return (await Promise.all(halves.map((half) => findEach(check, half, rows)))).flat();
  }
}

const textOf = (term: Term): string | null => (Array.isArray(term) ? writeArray(term) : (term as string | null));

/** The condition for terms that follow `count` others. */
function shifted(condition: Condition, count: number): Condition {
  const shift = (operand: Operand): Operand =>
    operand.kind === "term" ? { kind: "term", index: operand.index + count } : operand;
  if ("conditions" in condition)
    return { ...condition, conditions: condition.conditions.map((each) => shifted(each, count)) };
  if ("condition" in condition) return { ...condition, condition: shifted(condition.condition, count) };
  if ("operand" in condition) return { ...condition, operand: shift(condition.operand) };
  return { ...condition, left: shift(condition.left), right: shift(condition.right) };
}

const names = new WeakMap<ChangedTable, readonly string[]>();

/** The names of the columns: the same list for the same table. */
function namesOf(table: ChangedTable): readonly string[] {
  let known = names.get(table);
  if (!known) {
    known = table.columns.map(({ name }) => name);
    names.set(table, known);
  }
  return known;
}

const decisions = new WeakMap<Condition, WeakMap<ChangedTable, Decide>>();

function decideOf(condition: Condition, table: ChangedTable): Decide {
  const byTable = decisions.get(condition) ?? new WeakMap<ChangedTable, Decide>();
  decisions.set(condition, byTable);
  const decide = byTable.get(table) ?? compile(condition, namesOf(table));
  byTable.set(table, decide);
  return decide;
}

function mapAt<Key, InnerKey, Value>(maps: Map<Key, Map<InnerKey, Value>>, key: Key): Map<InnerKey, Value> {
  const map = maps.get(key) ?? new Map<InnerKey, Value>();
  maps.set(key, map);
  return map;
}

function listAt<Key, Value>(lists: Map<Key, Value[]>, key: Key): Value[] {
  const list = lists.get(key) ?? [];
  lists.set(key, list);
  return list;
}
