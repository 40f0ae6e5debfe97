import type { TableName } from "./catalog.ts";
import type { ColumnRow, RelationRow } from "./rows/relations.ts";
import type { Oid } from "./rows/types.ts";
import type { ColumnPlace } from "./view-definition.ts";

/** The rows of tables, views and composite types, found by number. */
export class Relations {
  readonly served: readonly RelationRow[];
  /** What is made by `create type … as (…)`. */
  readonly composites: readonly RelationRow[];
  readonly #byOid: ReadonlyMap<Oid, RelationRow>;
  readonly #byRowType: ReadonlyMap<Oid, RelationRow>;
  readonly #columns = new Map<Oid, Map<number, ColumnRow>>();

  constructor(relations: readonly RelationRow[], columns: readonly ColumnRow[]) {
    this.served = relations.filter(({ isServed }) => isServed);
    this.composites = relations.filter(({ kind }) => kind === "c");
    this.#byOid = new Map(relations.map((row) => [row.oid, row]));
    this.#byRowType = new Map(relations.map((row) => [row.rowType, row]));
    for (const { oid } of relations) this.#columns.set(oid, new Map());
    for (const column of columns) this.#columns.get(column.relation)?.set(column.number, column);
  }

  get(oid: Oid): RelationRow | undefined {
    return this.#byOid.get(oid);
  }

  ofRowType(type: Oid): RelationRow | undefined {
    return this.#byRowType.get(type);
  }

  columnsOf(oid: Oid): Iterable<ColumnRow> {
    return this.#columns.get(oid)?.values() ?? [];
  }

  columnAt({ relation, number }: ColumnPlace): ColumnRow | undefined {
    return this.#columns.get(relation)?.get(number);
  }

  nameOf(oid: Oid): TableName {
    const { schema, name } = this.#byOid.get(oid)!;
    return { schema, name };
  }

  /** `columnNames("16385", [2, 1])` → `["author_id", "id"]` */
  columnNames(oid: Oid, numbers: readonly number[]): string[] {
    return numbers.map((number) => this.#columns.get(oid)!.get(number)!.name);
  }
}
