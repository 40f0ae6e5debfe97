import pg, { type Pool } from "pg";
import { endOfSlice } from "../../db/catalog/event-loop.ts";

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

/** A smart tag is a line of a comment before the description. It can be left out without its object. */
export type SmartTag = {
  readonly id: ObjectId;
  /** `@name writers` */
  readonly tag: string;
  readonly object: PgObject;
  /** The comment without it. */
  readonly comment: string;
};

export const smartTag = (object: ObjectId, line: string): ObjectId => `${object} ${line}`;

const SMART_TAG = /^@[A-Za-z]/;

/** The smart tags of a comment. */
export function tagLines(comment: string): readonly string[] {
  const lines = comment.split("\n");
  const end = lines.findIndex((line) => line !== "" && !line.startsWith("@"));
  return lines.slice(0, end < 0 ? undefined : end).filter((line) => SMART_TAG.test(line));
}

type Row = {
  readonly id: ObjectId;
  readonly kind: PgObject["kind"];
  readonly schema: string;
  readonly name: string;
  readonly part: string;
  /** As it is written in `comment on`. */
  readonly label: string;
  readonly comment: string | null;
  readonly type: string | null;
  readonly isOverloaded: boolean;
  /** Whether it is in a served schema, and a role that the login may become may use it. Of columns and functions. */
  readonly isGranted: boolean;
  /** Increases with the time of creation. */
  readonly age: number;
};

/** The objects of all schemas. Columns and constraints of those that are not served only with a comment, which can have smart tags. */
const OBJECTS = `
  with roles as (select oid from pg_roles where pg_has_role(current_user, oid, 'member')),
  schemas as (
    select oid, nspname as schema, nspname = any ($1) as "isServed" from pg_namespace
    where nspname <> 'information_schema' and nspname not like 'pg\\_%'
  ),
  tables as (
    select c.oid, n.schema, n."isServed", c.relname as name, c.relkind as kind, c.oid::regclass::text as label
    from pg_class as c join schemas as n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f', 'c')
  ),
  columns as (
    select t.*, a.attname, a.attnum, a.atttypid, a.atttypmod, col_description(t.oid, a.attnum) as comment
    from tables as t join pg_attribute as a on a.attrelid = t.oid and a.attnum > 0 and not a.attisdropped
    where t.kind <> 'c'
      -- GraphQL leaves out the tables and views of extensions, as their functions.
      and not exists (
        select from pg_depend as d where d.classid = 'pg_class'::regclass and d.objid = t.oid and d.deptype = 'e'
      )
  ),
  constraints as (
    select t.*, k.oid as id, k.conname, obj_description(k.oid, 'pg_constraint') as comment
    from tables as t join pg_constraint as k on k.conrelid = t.oid
  )
  select 'pg_class ' || oid as id, 'table' as kind, schema, name, '' as part,
    case kind when 'v' then 'view ' when 'm' then 'materialized view ' when 'f' then 'foreign table '
      when 'c' then 'type ' else 'table ' end
      || label as label,
    obj_description(oid, 'pg_class') as comment, null as type, false as "isOverloaded", false as "isGranted",
    oid::bigint::float8 as age
  from tables
  union all
  select concat('pg_attribute ', oid, ' ', attnum), 'column', schema, name, attname, format('column %s.%I', label, attname), comment,
    format_type(atttypid, atttypmod), false,
    "isServed" and exists (select from roles as r where has_column_privilege(r.oid, c.oid, attnum, 'select')),
    oid::bigint + attnum / 10000.0
  from columns as c
  where "isServed" or comment is not null
  union all
  select 'pg_constraint ' || id, 'constraint', schema, name, conname, format('constraint %I on %s', conname, label), comment, null,
    false, false, id::bigint
  from constraints
  where "isServed" or comment is not null
  union all
  select 'pg_type ' || t.oid, 'type', n.schema, t.typname, '',
    case t.typtype when 'd' then 'domain ' else 'type ' end || t.oid::regtype,
    obj_description(t.oid, 'pg_type'), null, false, false, t.oid::bigint
  from pg_type as t join schemas as n on n.oid = t.typnamespace
  where t.typcategory <> 'A' or t.typtype = 'd'
  union all
  select 'pg_proc ' || p.oid, 'function', n.schema, p.proname, '', 'function ' || p.oid::regprocedure, obj_description(p.oid, 'pg_proc'),
    null, count(*) over (partition by n.schema, p.proname) > 1,
    n."isServed" and p.prorettype not in ('event_trigger'::regtype, 'internal'::regtype)
      and exists (select from roles as r where has_function_privilege(r.oid, p.oid, 'execute')), p.oid::bigint
  from pg_proc as p join schemas as n on n.oid = p.pronamespace
  where p.prokind = 'f' and p.prorettype <> 'trigger'::regtype
    and not exists (
      select from pg_depend as d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype in ('e', 'i')
    )
  order by age`;

/** The names, comments and smart tags of the objects of a database. */
export class Labels {
  /** Columns and functions that callers may use. */
  readonly columns: readonly { schema: string; table: string; column: string; label: string; type: string }[];
  readonly functions: readonly { schema: string; name: string; label: string; isOverloaded: boolean }[];
  /** The smart tags of tables, views, types and functions, of columns and of constraints. */
  readonly tags: readonly SmartTag[];
  /** Of functions with one name, the newest. */
  readonly #rows: ReadonlyMap<string, Row>;

  constructor(rows: readonly Row[]) {
    const granted = rows.filter(({ isGranted }) => isGranted);
    this.columns = granted.flatMap(({ kind, schema, name: table, part: column, label, type }) =>
      kind === "column" ? [{ schema, table, column, label, type: type! }] : [],
    );
    this.functions = granted.filter(({ kind }) => kind === "function");
    this.tags = rows.flatMap(tagsOf);
    this.#rows = new Map(rows.map((row) => [keyOf(row), row]));
  }

  static async read(pool: Pick<Pool, "query">, schemas: readonly string[]): Promise<Labels> {
    // One message: the search path applies to the query alone, and Postgres writes every name with its schema. One value is read faster
    // than thousands of rows, which arrive in one turn.
    const list = `array[${schemas.map(pg.escapeLiteral).join(", ")}]::text[]`;
    const results = await pool.query(
      `set local search_path = ''; select coalesce(json_agg(o), '[]')::text as rows from (${OBJECTS.replaceAll("$1", list)}) as o`,
    );
    await endOfSlice();
    const rows = JSON.parse((results as unknown as pg.QueryResult<{ rows: string }>[]).at(-1)!.rows[0]!.rows);
    await endOfSlice();
    return new Labels(rows);
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

  /** Undefined for an object that the database did not have when it was read. */
  idOf(object: PgObject): ObjectId | undefined {
    return this.#rows.get(keyOf(object))?.id;
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
    const { kind } = object;
    const comment = this.#rows.get(keyOf(object))?.comment ?? "";
    const tag = kind === "function" || kind === "constraint" ? "@fieldName" : "@name";
    const given = `${tag} ${this.#freeName(object)}`;
    const rest = comment.split("\n").filter((line) => !line.startsWith(`${tag} `));
    const text = `${given}\n${rest.join("\n").trimStart()}`.trim();
    return `comment on ${this.labelOf(object)} is ${pg.escapeLiteral(text)};`;
  }

  /** `a_b2`, `aB3`: the name with a number, different for all that GraphQL spells alike, and not taken however it is spelled. */
  #freeName({ kind, schema, name, part }: PgObject): string {
    const own = part || name;
    const beside = [...this.#rows.values()]
      .filter((row) => row.kind === kind && (part === "" || (row.schema === schema && row.name === name)))
      .map((row) => row.part || row.name);
    const alike = beside.filter((each) => spelled(each) === spelled(own));
    const taken = new Set(beside.map(spelled));
    let number = Math.max(2, alike.indexOf(own) + 1);
    while (taken.has(spelled(`${own}${number}`))) number += alike.length || 1;
    return `${own}${number}`;
  }
}

const spelled = (name: string): string => name.replace(/[^\p{L}\p{N}]/gu, "").toLowerCase();

function tagsOf({ id, kind, schema, name, part, comment }: Row): readonly SmartTag[] {
  if (comment === null) return [];
  const lines = comment.split("\n");
  return tagLines(comment).map((tag) => ({
    id: smartTag(id, tag),
    tag,
    object: objectOf(kind, schema, name, part),
    comment: lines.filter((line) => line !== tag).join("\n"),
  }));
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
