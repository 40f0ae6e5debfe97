import type { Change, ChangedTable, Image } from "./change.ts";

/** A row of changes.outbox. Rows of tables are in the text form of their row type. */
export type OutboxRow = {
  readonly id: string;
  readonly transaction: string;
  readonly recorded_at: string;
  readonly relation: string;
  readonly operation: Change["operation"];
  readonly old_row: string | null;
  readonly new_row: string | null;
};

/** A table, or a partition and its table, as it is now. */
export type RelationRow = {
  readonly oid: string;
  readonly table: ChangedTable;
  /** The columns in the order of the recorded rows, which a partition may have in another order. */
  readonly order: readonly string[];
  /** The last transaction that altered the columns, modulo 2³². */
  readonly changed_by: number;
};

type Description = { readonly table: ChangedTable; imageOf(row: string | null): Image | null };
type Known = {
  readonly text: string;
  readonly changedBy: bigint;
  readonly now: Description;
  readonly before: Description;
};

/**
 * The tables of the rows in the outbox, which hold values without names. Rows that were recorded before DDL are read with the
 * description before it.
 */
export class OutboxTables {
  readonly #known = new Map<string, Known>();

  describe(relations: readonly RelationRow[]): void {
    for (const relation of relations) {
      const known = this.#known.get(relation.oid);
      const text = JSON.stringify(relation);
      if (known?.text === text) continue;
      const now = describe(relation);
      const changedBy = BigInt(relation.changed_by);
      this.#known.set(relation.oid, { text, changedBy, now, before: known?.now ?? now });
    }
  }

  /** The description of the relation when the transaction wrote it; null if it has been dropped. */
  of(relation: string, transaction: bigint): Description | null {
    const known = this.#known.get(relation);
    if (!known) return null;
    return BigInt.asIntN(32, known.changedBy - transaction) > 0n ? known.before : known.now;
  }
}

function describe({ table, order }: RelationRow): Description {
  const isInOrder = table.columns.every(({ name }, i) => name === order[i]);
  const places = table.columns.map(({ name }) => order.indexOf(name));
  return {
    table,
    imageOf(row) {
      if (row === null) return null;
      const values = parseRow(row);
      return isInOrder ? values : places.map((place) => values[place]);
    },
  };
}

/**
 * The values of a row in Postgres' text form.
 *
 *   parseRow('(1,"a ""b""",,"")')  // ["1", 'a "b"', null, ""]
 * Source: PostgreSQL documentation, "Composite Type Input and Output Syntax".
 */
export function parseRow(row: string): (string | null)[] {
  const values: (string | null)[] = [];
  for (let at = 1; at <= row.length; at++) {
    const start = at;
    let value = "";
    let isQuoted = false;
    for (; isQuoted || (row[at] !== "," && at < row.length - 1); at++) {
      if (row[at] === '"' && isQuoted && row[at + 1] === '"') value += row[++at];
      else if (row[at] === '"') isQuoted = !isQuoted;
      else if (row[at] === "\\") value += row[++at];
      else value += row[at];
    }
    values.push(at === start ? null : value);
    if (at === row.length - 1) return values;
  }
  return values;
}
