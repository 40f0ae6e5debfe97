import type { Oid } from "./types.ts";
import type { Views } from "./views.ts";

/** A primary key, unique constraint or unique index over plain columns. */
export type KeyRow = {
  readonly relation: Oid;
  readonly columns: readonly number[];
  readonly isPrimary: boolean;
  readonly isConstraint: boolean;
};

// In indkey, the columns of INCLUDE follow those of the key.
export const KEYS = `
  select i.indrelid as relation, (i.indkey::int2[])[0:i.indnkeyatts - 1] as columns, i.indisprimary as "isPrimary",
    exists (
      select from pg_constraint as c
      where c.conindid = i.indexrelid and c.conrelid = i.indrelid and c.contype in ('p', 'u')
    ) as "isConstraint"
  from relations as r
  join pg_index as i on i.indrelid = r.oid
  where i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
  order by i.indrelid, i.indisprimary desc, i.indexrelid`;

type Key = readonly number[];

/** The keys of tables, and the keys that views inherit, as column numbers. */
export class Keys {
  readonly #views: Views;
  readonly #rows = new Map<Oid, KeyRow[]>();

  constructor(views: Views, rows: readonly KeyRow[]) {
    this.#views = views;
    for (const row of rows) this.#rows.set(row.relation, [...(this.#rows.get(row.relation) ?? []), row]);
  }

  /**
   * For a view, the primary keys of its tables that are among its columns, combined. This is a key if it contains those
   * of all tables; rows that a join with other tables repeats are not detected.
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
