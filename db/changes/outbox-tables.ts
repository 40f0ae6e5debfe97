import type { Change, ChangedTable, Image } from "./change.ts";
import { parseRow } from "./json.ts";
import type { ChangedTypes, DescribedTable } from "./types.ts";

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
  readonly table: DescribedTable;
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
  readonly #types: ChangedTypes;
  readonly #known = new Map<string, Known>();

  constructor(types: ChangedTypes) {
    this.#types = types;
  }

  /** Returns whether a table has been altered. */
  async describe(relations: readonly RelationRow[]): Promise<boolean> {
    let isAltered = false;
    for (const relation of relations) {
      const known = this.#known.get(relation.oid);
      const text = JSON.stringify(relation);
      if (known?.text === text) continue;
      this.#types.forget();
      const now = describe(await this.#types.complete(relation.table), relation.order);
      const changedBy = BigInt(relation.changed_by);
      this.#known.set(relation.oid, { text, changedBy, now, before: known?.now ?? now });
      isAltered ||= known !== undefined;
    }
    return isAltered;
  }

  /** The description of the relation when the transaction wrote it; null if it has been dropped. */
  of(relation: string, transaction: bigint): Description | null {
    const known = this.#known.get(relation);
    if (!known) return null;
    return BigInt.asIntN(32, known.changedBy - transaction) > 0n ? known.before : known.now;
  }
}

function describe(table: ChangedTable, order: readonly string[]): Description {
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
