import type { TableName } from "./catalog.ts";

/** The oid of an object in pg_catalog, as text. */
export type Oid = string;

/** A column of a table or view, by its number. */
export type ColumnReference = { readonly relation: Oid; readonly number: number };

/** A table, a view, or a composite type (`c`). */
export type RelationRow = {
  readonly oid: Oid;
  readonly schema: string;
  readonly name: string;
  readonly kind: "r" | "p" | "v" | "m" | "f" | "c";
  readonly isServed: boolean;
  readonly rowType: Oid;
  /** The row types of the tables that it inherits from, the first one first. */
  readonly parents: readonly Oid[];
  /** Whether tables that are no partitions inherit from it. */
  readonly isInherited: boolean;
  readonly owner: Oid;
  readonly acl: string | null;
  readonly hasRowSecurity: boolean;
  /** Whether row-level security applies to the owner too. */
  readonly isRowSecurityForced: boolean;
  /** Bits of `1 << CmdType`: 4 update, 8 insert, 16 delete. Null for tables. */
  readonly writes: number | null;
  /** Whether triggers or rules handle the writes of a view, so that they may accept any of its columns. */
  readonly hasOwnWrites: boolean;
  readonly comment: string | null;
};

/** Foreign tables whose wrapper has no handler, and the views that read them. */
const UNHANDLED = `array(
    with recursive unhandled as (
      select f.ftrelid as oid from pg_catalog.pg_foreign_table as f
      join pg_catalog.pg_foreign_server as server on server.oid = f.ftserver
      join pg_catalog.pg_foreign_data_wrapper as wrapper on wrapper.oid = server.srvfdw
      where wrapper.fdwhandler = 0
      union
      select rule.ev_class from unhandled
      join pg_catalog.pg_depend as d
        on d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = unhandled.oid
        and d.classid = 'pg_catalog.pg_rewrite'::regclass
      join pg_catalog.pg_rewrite as rule on rule.oid = d.objid and rule.ev_type = '1'
    )
    select oid from unhandled
  )`;

/**
 * SQL for the writes that a table or view accepts: bits of `1 << CmdType`, 4 update, 8 insert, 16 delete. The function of Postgres
 * fails for foreign tables whose wrapper has no handler, which accept none.
 */
export const isUpdatable = (oid: string) =>
  `case when ${oid} = any (${UNHANDLED}) then 0 else pg_catalog.pg_relation_is_updatable(${oid}, true) end`;

/** SQL for a row of pg_attribute. Since PostgreSQL 18, a NOT NULL may be `not valid`, or not hold for the rows of inheriting tables. */
export const isNeverNull = (column: string) => `${column}.attnotnull and (${column}.attrelid, ${column}.attnum) not in (
      select conrelid, unnest(conkey) from pg_constraint where contype = 'n' and (not convalidated or connoinherit))`;

// 64 is INSTEAD OF.
export const RELATIONS = `
  select r.oid, r.schema, r.name, r.kind, r."isServed", r."rowType", r.owner, r.acl::text as acl,
    r."hasRowSecurity", r."isRowSecurityForced",
    array(
      select parent.reltype from pg_inherits as i join pg_class as parent on parent.oid = i.inhparent
      where i.inhrelid = r.oid order by i.inhseqno
    ) as parents,
    r.kind in ('r', 'f') and exists (select from pg_inherits as i where i.inhparent = r.oid) as "isInherited",
    case when r."isServed" and r.kind in ('v', 'f') then ${isUpdatable("r.oid")} end as writes,
    r.kind = 'v' and (
      exists (select from pg_trigger as t where t.tgrelid = r.oid and t.tgtype & 64 <> 0)
      or exists (select from pg_rewrite as w where w.ev_class = r.oid and w.rulename <> '_RETURN')
    ) as "hasOwnWrites",
    d.description as comment
  from relations as r
  left join pg_description as d on d.objoid = r.oid and d.classoid = 'pg_class'::regclass and d.objsubid = 0
  order by r.position, r.schema, r.name`;

/** A column of a table or view, or an attribute of a composite type. */
export type ColumnRow = {
  readonly relation: Oid;
  readonly number: number;
  readonly name: string;
  readonly type: Oid;
  /** Length, or precision and scale, as Postgres packs them; -1 for none. */
  readonly modifier: number;
  /** SQL text of the type, if it has a modifier. */
  readonly typeText: string | null;
  readonly isNotNull: boolean;
  /** False for a collation in which different texts may be equal. */
  readonly isDeterministic: boolean;
  readonly identity: "a" | "d" | "";
  readonly generated: "s" | "v" | "";
  /** SQL text; for an identity `by default`, the next value of its sequence. */
  readonly default: string | null;
  readonly acl: string | null;
  readonly comment: string | null;
};

export const COLUMNS = `
  select a.attrelid as relation, a.attnum as number, a.attname as name, a.atttypid as type, a.atttypmod as modifier,
    case when a.atttypmod >= 0 then format_type(a.atttypid, a.atttypmod) end as "typeText",
    ${isNeverNull("a")} as "isNotNull",
    coalesce(sorting.collisdeterministic, true) as "isDeterministic", a.attidentity as identity, a.attgenerated as generated,
    case
      when a.attidentity = 'd' then format('nextval(%L::regclass)', sequence.oid::regclass)
      when a.attgenerated = '' then pg_get_expr(expression.adbin, expression.adrelid)
    end as default,
    a.attacl::text as acl, d.description as comment
  from relations as r
  join pg_attribute as a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
  left join pg_collation as sorting on sorting.oid = a.attcollation
  left join pg_attrdef as expression on expression.adrelid = a.attrelid and expression.adnum = a.attnum
  left join pg_description as d on d.objoid = r.oid and d.classoid = 'pg_class'::regclass and d.objsubid = a.attnum
  left join lateral (
    select objid as oid from pg_depend
    where a.attidentity = 'd' and classid = 'pg_class'::regclass and deptype = 'i'
      and refclassid = 'pg_class'::regclass and refobjid = a.attrelid and refobjsubid = a.attnum
  ) as sequence on true
  order by a.attrelid, a.attnum`;

/** The rows of tables, views and composite types, found by number. */
export class Relations {
  readonly served: readonly RelationRow[];
  /** Types that `create type … as (…)` has created. */
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

  /** The row types to which a row of the table converts: its own, and those that it inherits from, the nearest first. */
  rowTypesOf({ rowType, parents }: RelationRow): readonly Oid[] {
    const further = parents.flatMap((type) => {
      const parent = this.#byRowType.get(type);
      return parent ? this.rowTypesOf(parent) : [type];
    });
    return [...new Set([rowType, ...parents, ...further])];
  }

  ofRowType(type: Oid): RelationRow | undefined {
    return this.#byRowType.get(type);
  }

  columnsOf(oid: Oid): Iterable<ColumnRow> {
    return this.#columns.get(oid)?.values() ?? [];
  }

  columnAt({ relation, number }: ColumnReference): ColumnRow | undefined {
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
