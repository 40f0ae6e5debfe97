import type { KeyRow } from "./rows/keys.ts";
import type { Oid } from "./rows/types.ts";
import type { Views } from "./views.ts";

type Key = readonly number[];

/** The keys of tables, and those that views inherit, as numbers of columns. */
export class Keys {
  readonly #views: Views;
  readonly #rows = new Map<Oid, KeyRow[]>();

  constructor(views: Views, rows: readonly KeyRow[]) {
    this.#views = views;
    for (const row of rows) this.#rows.set(row.relation, [...(this.#rows.get(row.relation) ?? []), row]);
  }

  /**
   * Of a view the primary keys of all its tables that it shows, one behind the other. That is a key where it shows those of
   * all its tables; what a join with others repeats is not known here.
   */
  primaryKeyOf(relation: Oid): Key {
    if (!this.#views.isView(relation)) return this.#rowsOf(relation).find(({ isPrimary }) => isPrimary)?.columns ?? [];
    if (this.#views.repeatsRows(relation)) return [];
    return [...this.#views.tablesOf(relation)].flatMap((table) => {
      const key = this.primaryKeyOf(table);
      return key.length > 0 ? (this.#views.appearancesIn(relation, table, key)[0]?.numbers ?? []) : [];
    });
  }

  /** The primary key first. */
  uniqueKeysOf(relation: Oid): readonly Key[] {
    if (!this.#views.isView(relation)) return this.#rowsOf(relation).map(({ columns }) => columns);
    const table = this.#views.onlyTableOf(relation);
    const keys = table === null ? [] : this.#rowsOf(table);
    const inherited = keys.flatMap(({ columns }) => this.#views.appearancesIn(relation, table!, columns).slice(0, 1));
    const primary = this.primaryKeyOf(relation);
    if (table !== null || primary.length === 0) return inherited.map(({ numbers }) => numbers);
    return [primary];
  }

  /** Whether a primary key or unique constraint of the table is over exactly these columns, in any order. */
  isConstrained(table: Oid, columns: Key): boolean {
    return this.#rowsOf(table).some(
      (key) =>
        key.isConstraint &&
        key.columns.length === columns.length &&
        key.columns.every((number) => columns.includes(number)),
    );
  }

  #rowsOf(table: Oid): readonly KeyRow[] {
    return this.#rows.get(table) ?? [];
  }
}
