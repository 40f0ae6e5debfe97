import type { ChangedColumn, ChangedTable } from "./change.ts";
import type { ValueShape } from "./json.ts";

/** A table as a source describes it. `type` is the OID of the column's type. */
export type DescribedTable = Omit<ChangedTable, "columns"> & {
  readonly columns: readonly Pick<ChangedColumn, "name" | "type">[];
};

/** What the stream has of old rows: these columns. */
export type LoggedTable = { readonly table: DescribedTable; readonly oldColumns: readonly string[] };

type KnownType = Pick<ChangedColumn, "typeName" | "shape">;

/** A row of pg_type; OIDs are 0 for none. `fields` are those of a composite type. */
type TypeRow = {
  readonly oid: number;
  readonly name: string;
  readonly kind: string;
  readonly category: string;
  readonly base: number;
  readonly element: number;
  readonly delimiter: string;
  readonly fields: readonly { readonly name: string; readonly type: number }[];
};

/** Runs a query whose rows have one JSON column `types`. */
export type TypeQuery = (text: string) => Promise<readonly { readonly types: readonly TypeRow[] }[]>;

/** The types of the columns of changed tables, read when they first occur. */
export class ChangedTypes {
  readonly #query: TypeQuery;
  #known = new Map<number, KnownType>();

  constructor(query: TypeQuery) {
    this.#query = query;
  }

  /** Types are read again, because DDL may have changed them. */
  forget(): void {
    this.#known = new Map();
  }

  async complete(table: DescribedTable): Promise<ChangedTable> {
    const missing = table.columns.map(({ type }) => type).filter((type) => !this.#known.has(type));
    if (missing.length > 0) await this.#read(missing);
    return {
      ...table,
      columns: table.columns.map((column) => ({ ...column, ...(this.#known.get(column.type) ?? DROPPED) })),
    };
  }

  async #read(types: readonly number[]): Promise<void> {
    const [result] = await this.#query(typesQuery(types));
    const rows = new Map(result!.types.map((row) => [row.oid, row]));
    for (const row of rows.values()) this.#known.set(row.oid, { typeName: row.name, shape: shapeOf(row.oid, rows) });
  }
}

/** A type that no longer exists. */
const DROPPED: KnownType = { typeName: "text", shape: { kind: "text" } };

/** int2, int4, int8, float4, float8, numeric. The type oid is text in JSON. Source: json_categorize_type. */
const NUMBERS: ReadonlySet<number> = new Set([21, 23, 20, 700, 701, 1700]);
const KINDS: Readonly<Record<number, ValueShape>> = {
  16: { kind: "boolean" },
  114: { kind: "json" },
  3802: { kind: "json" },
  1114: { kind: "timestamp" },
  1184: { kind: "timestamp" },
};

function shapeOf(oid: number, rows: ReadonlyMap<number, TypeRow>): ValueShape {
  if (NUMBERS.has(oid)) return { kind: "number" };
  const row = rows.get(oid);
  if (KINDS[oid] || !row) return KINDS[oid] ?? { kind: "text" };
  if (row.kind === "d") return shapeOf(row.base, rows);
  if (row.category === "A" && row.element !== 0)
    return { kind: "array", element: shapeOf(row.element, rows), delimiter: row.delimiter };
  if (row.kind !== "c") return { kind: "text" };
  return { kind: "composite", fields: row.fields.map(({ name, type }) => ({ name, shape: shapeOf(type, rows) })) };
}

/** The types, and those that they consist of. */
const typesQuery = (types: readonly number[]) => `
with recursive needed (oid) as (
  select unnest('{${types.join()}}'::oid[])
  union
  select part.oid
  from needed
  join pg_catalog.pg_type as t on t.oid = needed.oid
  cross join lateral (
    select t.typbasetype
    union all
    select t.typelem where t.typcategory = 'A'
    union all
    select a.atttypid
    from pg_catalog.pg_attribute as a
    where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
  ) as part (oid)
  where part.oid <> 0
)
select coalesce(json_agg(json_build_object(
  'oid', t.oid::bigint, 'name', t.typname, 'kind', t.typtype, 'category', t.typcategory, 'base', t.typbasetype::bigint,
  'element', t.typelem::bigint,
  'delimiter', (select element.typdelim from pg_catalog.pg_type as element where element.oid = t.typelem),
  'fields', (
    select coalesce(json_agg(json_build_object('name', a.attname, 'type', a.atttypid::bigint) order by a.attnum), '[]')
    from pg_catalog.pg_attribute as a
    where t.typtype = 'c' and a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
  )
)), '[]') as types
from pg_catalog.pg_type as t
where t.oid in (select oid from needed)`;
