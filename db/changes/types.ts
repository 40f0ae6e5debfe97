import { quoteIdentifier } from "../sql.ts";
import type { ChangedColumn, ChangedTable, ValueShape } from "./change.ts";
import type { DescribedTable } from "./column-numbers.ts";
import { type Knowledge, type NumberedRow, withNumbers } from "./column-numbers.ts";

/** `sqlName` is the name of the type in SQL, of the base type for a domain. */
type KnownType = Pick<ChangedColumn, "typeName" | "shape"> & { readonly sqlName: string; readonly isCast: boolean };

/** A generated column. Even a trigger does not get the value of a virtual one. */
type GeneratedRow = {
  readonly name: string;
  readonly number: number;
  readonly isVirtual: boolean;
  readonly type: number;
  readonly expression: string;
  /** The numbers of the columns that it reads. */
  readonly inputs: readonly number[];
};

/** A row of pg_type; OIDs are 0 for none. `fields` are those of a composite type. */
type TypeRow = {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  /** Whether `to_json` uses a cast. */
  readonly hasCast: boolean;
  readonly kind: string;
  readonly category: string;
  readonly base: number;
  readonly element: number;
  readonly delimiter: string;
  readonly fields: readonly { readonly name: string; readonly type: number }[];
};

/** Runs a query whose row has one JSON column. */
export type TypeQuery = (text: string) => Promise<
  readonly {
    readonly types: readonly TypeRow[];
    readonly generated: readonly GeneratedRow[];
    readonly numbered: readonly NumberedRow[];
    readonly listed: boolean;
    readonly whole: boolean | null;
  }[]
>;

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

  async complete(table: DescribedTable, knowledge?: Knowledge): Promise<ChangedTable> {
    const [result] = await this.#query(columnsQuery(table.oid));
    const sent = withNumbers(table, { rows: result!.numbered, isListed: result!.listed }, knowledge);
    const generatedAt = new Map(result!.generated.map((each) => [each.number, each]));
    const generated = result!.generated.filter((each) => !sent.some(({ number }) => number === each.number));
    const missing = [...sent, ...generated].map(({ type }) => type).filter((type) => !this.#known.has(type));
    if (missing.length > 0) await this.#read(missing);
    const names = new Map(result!.numbered.map(({ number, name }) => [number, name]));
    const inputsOf = (numbers: readonly number[]) =>
      sent.flatMap(({ number, type }) =>
        number !== undefined && numbers.includes(number)
          ? { number, name: names.get(number)!, type: this.#of(type).sqlName }
          : [],
      );
    const columns = sent.map(({ name, number, isLogged, type }) => {
      const { typeName, shape, isCast } = this.#of(type);
      const known = { name, number, isLogged, type, typeName, shape };
      const own = number === undefined ? undefined : generatedAt.get(number);
      if (number === undefined || !(isCast || own?.isVirtual)) return known;
      const { expression, inputs } = own?.isVirtual
        ? own
        : { expression: quoteIdentifier(names.get(number)!), inputs: [number] };
      return { ...known, computed: { expression, inputs: inputsOf(inputs), isSent: true } };
    });
    const added = generated.map(({ name, number, type, expression, inputs }) => {
      const { typeName, shape } = this.#of(type);
      return { name, number, type, typeName, shape, computed: { expression, inputs: inputsOf(inputs), isSent: false } };
    });
    return { ...table, columns: [...columns, ...added], hasWholePartitions: result!.whole === true };
  }

  #of(type: number): KnownType {
    return this.#known.get(type) ?? DROPPED;
  }

  async #read(types: readonly number[]): Promise<void> {
    const [result] = await this.#query(typesQuery(types));
    const rows = new Map(result!.types.map((row) => [row.oid, row]));
    for (const { oid, name: typeName } of rows.values()) {
      const { schema, name } = baseOf(oid, rows);
      const sqlName = `${quoteIdentifier(schema)}.${quoteIdentifier(name)}`;
      this.#known.set(oid, { typeName, shape: shapeOf(oid, rows), sqlName, isCast: usesCast(oid, rows) });
    }
  }
}

/** A type that no longer exists. */
const DROPPED: KnownType = { typeName: "text", shape: { kind: "text" }, sqlName: "text", isCast: false };

function baseOf(oid: number, rows: ReadonlyMap<number, TypeRow>): TypeRow {
  const row = rows.get(oid)!;
  return row.kind === "d" ? baseOf(row.base, rows) : row;
}

/** Whether the JSON of values contains what a cast to json writes. Source: json_categorize_type. */
function usesCast(oid: number, rows: ReadonlyMap<number, TypeRow>): boolean {
  const row = baseOf(oid, rows);
  if (row.category === "A" && row.element !== 0) return usesCast(row.element, rows);
  return row.kind === "c" ? row.fields.some(({ type }) => usesCast(type, rows)) : row.hasCast;
}

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

/** The first OID of types that are not PostgreSQL's own: only these are cast. Source: FirstNormalObjectId. */
const FIRST_ADDED = 16_384;

/** The columns of a table. With an empty search path, all names in the expressions of generated ones have a schema. */
const columnsQuery = (table: number) => `
with path as materialized (select pg_catalog.set_config('search_path', '', true))
select (
  select coalesce(json_agg(json_build_object('name', a.attname, 'number', a.attnum, 'isDropped', a.attisdropped, 'isGenerated', a.attgenerated <> '', 'changedBy', case when pg_catalog.age(a.xmin) between 1 and 2147483646 then a.xmin::text::bigint end) order by a.attnum), '[]')
  from pg_catalog.pg_attribute as a
  where a.attrelid = ${table} and a.attnum > 0
) as numbered, exists (
  select from pg_catalog.pg_publication_rel as r where r.prrelid = ${table} and r.prattrs is not null
) as listed, (
  select pg_catalog.bool_and(c.relreplident = 'f')
  from pg_catalog.pg_partition_tree(${table}) as t
  join pg_catalog.pg_class as c on c.oid = t.relid
  where t.isleaf and t.level > 0
) as whole, coalesce(json_agg(json_build_object(
  'name', a.attname, 'number', a.attnum, 'type', a.atttypid::bigint, 'isVirtual', a.attgenerated = 'v', 'expression', pg_catalog.pg_get_expr(d.adbin, d.adrelid),
  'inputs', array(
    select p.refobjsubid
    from pg_catalog.pg_depend as p
    where p.classid = 'pg_catalog.pg_attrdef'::regclass and p.objid = d.oid
      and p.refclassid = 'pg_catalog.pg_class'::regclass and p.refobjid = a.attrelid and p.refobjsubid > 0 and p.refobjsubid <> a.attnum
  )
) order by a.attnum), '[]') as generated
from path
cross join pg_catalog.pg_attribute as a
join pg_catalog.pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = ${table} and a.attgenerated <> '' and not a.attisdropped`;

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
  'oid', t.oid::bigint, 'name', t.typname, 'schema', t.typnamespace::regnamespace, 'hasCast', t.oid >= ${FIRST_ADDED} and exists (
    select from pg_catalog.pg_cast as c
    where c.castsource = t.oid and c.casttarget = 'pg_catalog.json'::regtype and c.castmethod = 'f'
  ), 'kind', t.typtype, 'category', t.typcategory, 'base', t.typbasetype::bigint,
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
