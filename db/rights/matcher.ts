import { forObjects, forPairs } from "../../cache/cache.ts";
import type { Table } from "../catalog/catalog.ts";
import type { ChangedTable } from "../changes/change.ts";
import { allOf, mapFilters } from "../filters/condition.ts";
import { columnsIn, compile, type Operand, type RowCondition, type Term } from "../filters/evaluate.ts";
import { writeArray } from "../wire/array-text.ts";
import { CheckError, type Checker, type Inquiry } from "./checker.ts";
import { sharedFilter } from "./filter.ts";
import { Lookup } from "./lookup.ts";
import { hasColumns, type Row, rowsText } from "./row-source.ts";
import { SharedCheck } from "./shared-check.ts";
import type { Watch } from "./watch.ts";

/** The part of a policy that this process decides for one caller. The condition is null if every row passes, or if queries decide it. */
export type PolicyPart = { readonly condition: RowCondition | null; readonly terms: readonly Term[] };

/** Watches whose filters and policies differ in their terms only. */
type Group<W> = {
  readonly key: string;
  readonly lookup: Lookup<W>;
  /** For filters that only Postgres can decide. */
  readonly check: SharedCheck | null;
  readonly columns: ReadonlySet<string>;
};

/** What this process knows about rows. */
export type Match<W> = {
  readonly rows: readonly Row[];
  /** The watches for each row. */
  readonly certain: readonly Set<W>[];
  /** The watches for which Postgres must decide, with the indexes of those rows. */
  readonly doubtful: ReadonlyMap<Group<W>, ReadonlyMap<W, readonly number[]>>;
};

/** By watch and index of the row, the error that left it open whether the row fulfils the filter. */
export type MatchErrors<W> = ReadonlyMap<W, ReadonlyMap<number, CheckError>>;

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
    const group = this.#places.get(watch)?.group;
    if (!group) return;
    this.#places.delete(watch);
    group.lookup.delete(watch);
    // Clients choose the shapes of filters, and there is no end of them.
    if (group.lookup.size === 0) this.#groups.delete(group.key);
  }

  /** The shapes of filters for which each row is looked up. */
  get shapes(): number {
    return this.#groups.size;
  }

  match(rows: readonly Row[]): Match<W> {
    const certain = rows.map(() => new Set<W>());
    const doubtful = new Map<Group<W>, Map<W, number[]>>();
    for (const [i, row] of rows.entries()) {
      for (const group of this.#groups.values()) {
        group.lookup.find(namesOf(row.table), row.image, (watch, isCertain) => {
          if (isCertain) certain[i]!.add(watch);
          else if (hasColumns(row, group.columns)) listAt(mapAt(doubtful, group), watch).push(i);
        });
      }
    }
    return { rows, certain, doubtful };
  }

  /** Lets Postgres decide what is doubtful, and adds the watches to those found for each row, with those of errors. */
  async ask({ rows, doubtful }: Match<W>, found: readonly Set<W>[], inquiry: Inquiry): Promise<MatchErrors<W>> {
    const errors = new Map<W, Map<number, CheckError>>();
    const asking = [...doubtful].map(([group, watches]) => this.#ask(group, watches, { rows, found, errors }, inquiry));
    await Promise.all(asking);
    return errors;
  }

  /** Whether the part of the policy that is decided in process holds for the row. */
  mayInProcess(watch: W, { table, image }: Row): boolean {
    const place = this.#places.get(watch);
    // It has left while it was decided.
    if (!place) return false;
    const { condition, terms } = place.part;
    return condition === null || decideOf(condition, table)(image, terms) === true;
  }

  #groupOf({ filter }: W, part: PolicyPart): Group<W> {
    const key = `${part.condition === null ? "" : "policy "}${filter?.shape ?? ""}`;
    const known = this.#groups.get(key);
    if (known) return known;
    const own = filter && shifted(filter.condition, part.terms.length);
    const group = {
      key,
      lookup: new Lookup<W>(allOf([own, part.condition].filter((each) => each !== null))),
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
    { rows, found, errors }: Answers<W>,
    inquiry: Inquiry,
  ): Promise<void> {
    const indexes = [...new Set([...doubtful.values()].flat())];
    const texts = rowsText(
      indexes.map((i) => rows[i]!),
      this.#table,
    );
    const watches = [...doubtful.keys()];
    const lists = watches.map(({ filter }) => filter!.terms.map(textOf));
    const matching = await inquiry.each(lists, async (some) => {
      const found = some.map((): number[] => []);
      for (const [row, places] of await check!.find(some, texts, inquiry))
        for (const place of places) found[place]!.push(row);
      return found;
    });
    for (const [i, watch] of watches.entries()) {
      const result = matching[i]!;
      // A filter that raises an error, such as a comparison that overflows, matches no row.
      if (result instanceof CheckError && !result.isTimeout && !inquiry.isShared) continue;
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

/** The rows of a match, and what is found for them. */
type Answers<W> = {
  readonly rows: readonly Row[];
  readonly found: readonly Set<W>[];
  readonly errors: Map<W, Map<number, CheckError>>;
};

const NO_COLUMNS: ReadonlySet<string> = new Set();

const textOf = (term: Term): string | null => (Array.isArray(term) ? writeArray(term) : (term as string | null));

/** The condition for terms that follow `count` others. */
function shifted(condition: RowCondition, count: number): RowCondition {
  const shift = <Side extends Operand>(side: Side): Side =>
    side.kind === "term" ? { ...side, index: side.index + count } : side;
  return mapFilters(condition, (each) =>
    each.kind === "value"
      ? { ...each, operand: shift(each.operand) }
      : { ...each, field: shift(each.field), value: each.value && shift(each.value) },
  );
}

const namesOf = forObjects(({ columns }: ChangedTable): readonly string[] => columns.map(({ name }) => name));

const decideOf = forPairs((condition: RowCondition, table: ChangedTable) => compile(condition, namesOf(table)));

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
