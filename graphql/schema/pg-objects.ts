import pg, { type Pool } from "pg";

/** An object of the database that leads to a part of the GraphQL schema. `label` is preliminary: without arguments. */
export type PgObject = {
  readonly kind: "table" | "column" | "constraint" | "function" | "type";
  readonly schema: string;
  readonly name: string;
  /** The column or constraint; "" for other objects. */
  readonly part: string;
  readonly label: string;
};

/** An object of the database, by its catalog and its oid there: `pg_class 16402`, the second column of it `pg_attribute 16402 2` */
export type ObjectId = string;

type Row = {
  readonly kind: PgObject["kind"];
  readonly schema: string;
  readonly name: string;
  readonly part: string;
  /** As it is written in `comment on`. */
  readonly label: string;
  readonly comment: string | null;
  readonly type: string | null;
  readonly isOverloaded: boolean;
  readonly isGranted: boolean;
  /** Increases with the time of creation. */
  readonly age: number;
};

/** The objects of the served schemas. Granted: to a role that the login may become. */
const OBJECTS = `
  with roles as (select oid from pg_roles where pg_has_role(current_user, oid, 'member')),
  tables as (
    select c.oid, n.nspname as schema, c.relname as name, c.relkind as kind, c.oid::regclass::text as label
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v', 'm', 'f', 'c')
  )
  select 'table' as kind, schema, name, '' as part,
    case kind when 'v' then 'view ' when 'm' then 'materialized view ' when 'f' then 'foreign table '
      when 'c' then 'type ' else 'table ' end
      || label as label,
    obj_description(oid, 'pg_class') as comment, null as type, false as "isOverloaded", false as "isGranted",
    oid::bigint::float8 as age
  from tables
  union all
  select 'column', t.schema, t.name, a.attname, format('column %s.%I', t.label, a.attname), col_description(t.oid, a.attnum),
    format_type(a.atttypid, a.atttypmod), false,
    exists (select from roles as r where has_column_privilege(r.oid, t.oid, a.attnum, 'select')), t.oid::bigint + a.attnum / 10000.0
  from tables as t join pg_attribute as a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
  where t.kind <> 'c'
    -- GraphQL leaves out the tables and views of extensions, as their functions.
    and not exists (
      select from pg_depend as d where d.classid = 'pg_class'::regclass and d.objid = t.oid and d.deptype = 'e'
    )
  union all
  select 'constraint', t.schema, t.name, k.conname, format('constraint %I on %s', k.conname, t.label),
    obj_description(k.oid, 'pg_constraint'), null, false, false, k.oid::bigint
  from tables as t join pg_constraint as k on k.conrelid = t.oid
  union all
  select 'type', n.nspname, t.typname, '', case t.typtype when 'd' then 'domain ' else 'type ' end || t.oid::regtype,
    obj_description(t.oid, 'pg_type'), null, false, false, t.oid::bigint
  from pg_type as t join pg_namespace as n on n.oid = t.typnamespace
  where n.nspname = any ($1) and (t.typcategory <> 'A' or t.typtype = 'd')
  union all
  select 'function', n.nspname, p.proname, '', 'function ' || p.oid::regprocedure, obj_description(p.oid, 'pg_proc'), null,
    count(*) over (partition by n.nspname, p.proname) > 1,
    p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype)
      and exists (select from roles as r where has_function_privilege(r.oid, p.oid, 'execute')), p.oid::bigint
  from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
  where n.nspname = any ($1) and p.prokind = 'f'
    and not exists (
      select from pg_depend as d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype in ('e', 'i')
    )
  order by 2, 3, 4`;

/** The names and comments of the objects of the served schemas. */
export class Labels {
  /** Columns and functions that callers may use. */
  readonly columns: readonly { schema: string; table: string; column: string; label: string; type: string }[];
  readonly functions: readonly { schema: string; name: string; label: string; isOverloaded: boolean }[];
  readonly #rows: ReadonlyMap<string, Row>;

  constructor(rows: readonly Row[]) {
    const granted = rows.filter(({ isGranted }) => isGranted);
    this.columns = granted.flatMap(({ kind, schema, name: table, part: column, label, type }) =>
      kind === "column" ? [{ schema, table, column, label, type: type! }] : [],
    );
    this.functions = granted.filter(({ kind }) => kind === "function");
    this.#rows = new Map(rows.map((row) => [keyOf(row), row]));
  }

  static async read(pool: Pick<Pool, "query">, schemas: readonly string[]): Promise<Labels> {
    // One message: the search path applies to the query alone, and Postgres writes every name with its schema.
    const list = `array[${schemas.map(pg.escapeLiteral).join(", ")}]::text[]`;
    const results = await pool.query(`set local search_path = ''; ${OBJECTS.replaceAll("$1", list)}`);
    return new Labels((results as unknown as pg.QueryResult<Row>[]).at(-1)!.rows);
  }

  static of(kind: PgObject["kind"], schema: string, name: string, part = ""): PgObject {
    return objectOf(kind, schema, name, part);
  }

  /** The table or type; null for a type that every database has. */
  static ofCodec(codec: any): PgObject | null {
    const { schemaName, name } = codec?.extensions?.pg ?? {};
    if (!name || schemaName === "pg_catalog" || codec.arrayOfCodec) return null;
    return objectOf(codec.attributes ? "table" : "type", schemaName, name, "");
  }

  /** What a field comes from, by its scope. */
  static ofField(scope: any): PgObject | null {
    const { pgFieldAttribute, pgFieldResource, pgRelationDetails, pgCodec } = scope;
    if (pgRelationDetails) return ofRelation(pgRelationDetails);
    if (pgFieldAttribute && pgCodec?.attributes) {
      const { schemaName, name } = pgCodec.extensions?.pg ?? {};
      const [column] = Object.entries(pgCodec.attributes).find(([, attribute]) => attribute === pgFieldAttribute) ?? [];
      return name && column ? objectOf("column", schemaName, name, column) : null;
    }
    const { schemaName, name } = pgFieldResource?.extensions?.pg ?? {};
    return name ? objectOf(pgFieldResource.parameters ? "function" : "table", schemaName, name, "") : null;
  }

  labelOf(object: PgObject): string {
    return this.#rows.get(keyOf(object))?.label ?? object.label;
  }

  ageOf(object: PgObject): number {
    return this.#rows.get(keyOf(object))?.age ?? 0;
  }

  /** The statement that takes an object out of GraphQL. It keeps the comment. */
  excluding(object: PgObject): string {
    const comment = this.#rows.get(keyOf(object))?.comment ?? "";
    return `comment on ${this.labelOf(object)} is ${pg.escapeLiteral(`@behavior -*\n${comment}`.trim())};`;
  }

  /** The statement that gives an object another GraphQL name. It keeps the comment. */
  renaming(object: PgObject): string {
    const { kind, name, part } = object;
    const comment = this.#rows.get(keyOf(object))?.comment ?? "";
    const tag = kind === "function" || kind === "constraint" ? "@fieldName" : "@name";
    const given = `${tag} ${part || name}2`;
    const rest = comment.split("\n").filter((line) => !line.startsWith(`${tag} `));
    const text = `${given}\n${rest.join("\n").trimStart()}`.trim();
    return `comment on ${this.labelOf(object)} is ${pg.escapeLiteral(text)};`;
  }
}

function ofRelation({ registry, codec, relationName }: any): PgObject | null {
  const relation = registry.pgRelations[codec.name]?.[relationName];
  const owner = relation?.isReferencee ? relation.remoteResource.codec : codec;
  const { schemaName, name } = owner.extensions?.pg ?? {};
  const constraint = relation?.extensions?.constraint;
  return name && constraint ? objectOf("constraint", schemaName, name, constraint) : null;
}

const objectOf = (kind: PgObject["kind"], schema: string, name: string, part: string): PgObject => ({
  kind,
  schema,
  name,
  part,
  label: `${kind} ${schema}.${name}${part && ` ${part}`}`,
});

const keyOf = ({ kind, schema, name, part }: Pick<PgObject, "kind" | "schema" | "name" | "part">) =>
  [kind, schema, name, part].join("\0");
