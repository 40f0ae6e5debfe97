import type pg from "pg";
import type { RunningApplication } from "./application.ts";

/** A column as GraphQL shows it: its field, its type, and texts of some of its values. */
export type Column = {
  readonly name: string;
  readonly field: string;
  /** `BigInt`; of a list, the type of its elements. */
  readonly scalar: string;
  readonly isList: boolean;
  /** Whether it is a number in REST. */
  readonly isNumber: boolean;
  /** Whether GraphQL has the text of the number, so that no digit is lost. */
  readonly isExact: boolean;
  readonly samples: readonly string[];
};

/** A foreign key, seen from one of its two tables. */
export type Relation = {
  readonly field: string;
  readonly target: string;
  readonly isMany: boolean;
  readonly rest: string;
};

/** A table or view that at least one caller may read, in both languages. */
export type Shape = {
  readonly schema: string;
  readonly name: string;
  /** `Task` */
  readonly type: string;
  /** `tasks` in `{ tasks(filter: …) { … } }` */
  readonly field: string;
  readonly columns: readonly Column[];
  /** The fields of the primary key; without one, those of all columns that rows can be ordered by. */
  readonly key: readonly Column[];
  readonly relations: readonly Relation[];
  /** The type of the argument `filter`, and its operators for each field. */
  readonly filter: string;
  readonly operators: ReadonlyMap<string, readonly string[]>;
  /** The values of the argument `orderBy`. */
  readonly orders: ReadonlySet<string>;
};

/** The tables, their keys and foreign keys, by the catalog of PostgreSQL. */
const TABLES = `
  select n.nspname as schema, c.relname as name, c.oid,
    (
      select json_agg(json_build_object('name', attname, 'isNumber', base.typcategory = 'N', 'isExact', base.oid in ('int8'::regtype, 'numeric'::regtype)) order by attnum)
      from pg_attribute join pg_type as t on t.oid = atttypid join pg_type as base on base.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
      where attrelid = c.oid and attnum > 0 and not attisdropped
    ) as columns,
    array(
      select attname::text from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey)
      where indrelid = c.oid and indisprimary order by attnum
    ) as key
  from pg_class as c join pg_namespace as n on n.oid = relnamespace
  where nspname = any ($1) and relkind in ('r', 'p', 'v', 'm') and not relispartition
    and exists (
      select from unnest($2::text[]) as role
      where has_schema_privilege(role, n.oid, 'usage') and has_any_column_privilege(role, c.oid, 'select')
    )
  order by 1, 2`;
const FOREIGN_KEYS = `
  select conname as name, conrelid::int as from, confrelid::int as to,
    array(select attname::text from unnest(conkey) with ordinality as k (n, i) join pg_attribute on attrelid = conrelid and attnum = n order by i)
      as columns,
    -- GraphQL has a list only if it need not read the whole table.
    exists (
      select from pg_index where indrelid = conrelid and (indkey::int2[])[0:cardinality(conkey) - 1] @> conkey and indpred is null
    ) as "isIndexed"
  from pg_constraint where contype = 'f' and conparentid = 0`;

const INTROSPECTION = `{ __schema { types {
    kind name
    enumValues { name } inputFields { name type { ...T } }
    fields { name args { name type { ...T } } type { ...T } }
  } } }
  fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`;

type Type = { readonly kind: string; readonly name: string; readonly ofType?: Type | null };
const named = (type: Type): Type => (type.ofType ? named(type.ofType) : type);
const isList = (type: Type): boolean => type.kind === "LIST" || (type.ofType ? isList(type.ofType) : false);

export const camel = (name: string) => name.replace(/_+(\w)/g, (_, letter) => letter.toUpperCase());
const pascal = (name: string) => camel(`_${name}`);

/**
 * What callers with these roles may read, with the names that docs/graphql.md promises. Throws if a table, a column or a
 * relationship has no field.
 */
export async function readShapes(
  application: RunningApplication,
  schemas: readonly string[],
  roles: readonly string[],
  claims: object | undefined,
): Promise<readonly Shape[]> {
  const { data, errors } = await application.gql(INTROSPECTION, claims);
  if (errors) throw new Error(JSON.stringify(errors));
  const types = new Map<string, any>(data.__schema.types.map((type: any) => [type.name, type]));
  const fieldsOf = (type: string): any[] => types.get(type)?.fields ?? [];
  const { owner } = application.database;
  const tables = (await owner.query(TABLES, [schemas, roles])).rows.map((table) => {
    const prefixed = table.schema === schemas[0] ? table.name : `${table.schema}_${table.name}`;
    const names = ["", "s", "es"].map((plural) => camel(prefixed) + plural);
    const field = fieldsOf("Query").find(
      ({ name, type }) => names.includes(name) && /Connection$/.test(named(type).name),
    );
    if (!field) throw new Error(`GraphQL has no list of ${table.schema}.${table.name}`);
    return { ...table, field, type: named(field.type).name.replace(/Connection$/, "") };
  });
  const keys = (await owner.query(FOREIGN_KEYS)).rows;

  const relationsOf = (table: any): Relation[] =>
    keys.flatMap((key): Relation[] => {
      const by = `By${key.columns.map(pascal).join("And")}`;
      const find = (target: any, wanted: readonly string[], rest: string, isMany: boolean): Relation[] => {
        // REST embeds within one schema, as PostgREST does.
        if (!target || target.schema !== table.schema) return [];
        const found = fieldsOf(table.type).find(
          ({ name, type }) => wanted.includes(name) && named(type).name === target.type && isList(type) === isMany,
        );
        if (!found) throw new Error(`${table.type} has no field for ${key.name}: ${wanted}`);
        return [{ field: found.name, target: nameOf(target), isMany, rest }];
      };
      const from = tables.find(({ oid }) => oid === key.from);
      const to = tables.find(({ oid }) => oid === key.to);
      const single =
        key.columns.length === 1 && /_id$/.test(key.columns[0]) ? [camel(key.columns[0].slice(0, -3))] : [];
      const one = from === table && to ? [...single, to.type[0].toLowerCase() + to.type.slice(1) + by] : [];
      const many = to === table && from && key.isIndexed ? [from.field.name, from.field.name + by] : [];
      return [
        ...(one.length > 0 ? find(to, one, key.name, false) : []),
        ...(many.length > 0 ? find(from, many, `${from.name}!${key.name}`, true) : []),
      ];
    });

  const shapes: Shape[] = [];
  for (const table of tables) {
    const argument = (name: string) => named(table.field.args.find((each: any) => each.name === name).type).name;
    const inputs: any[] = types.get(argument("filter"))?.inputFields ?? [];
    const operators = new Map(
      inputs.map(({ name, type }) => [
        name,
        (types.get(named(type).name)?.inputFields ?? []).map((each: any) => each.name),
      ]),
    );
    const orders = new Set<string>(types.get(argument("orderBy")).enumValues.map(({ name }: any) => name));
    const columns = await columnsOf(owner, table, fieldsOf(table.type));
    const ordered = columns.filter(({ name }) => orders.has(orderOf(name)));
    const key = table.key.map((name: string) => columns.find((column) => column.name === name)!);
    shapes.push({
      schema: table.schema,
      name: table.name,
      type: table.type,
      field: table.field.name,
      columns,
      key: key.length > 0 ? key : ordered,
      relations: relationsOf(table),
      filter: argument("filter"),
      operators,
      orders,
    });
  }
  return shapes;
}

const nameOf = ({ schema, name }: { schema: string; name: string }) => `${schema}.${name}`;

/** `created_at` → `CREATED_AT_ASC` */
export const orderOf = (column: string, direction = "ASC") => `${column.toUpperCase()}_${direction}`;

async function columnsOf(owner: pg.Client, table: any, fields: readonly any[]): Promise<Column[]> {
  const columns: Column[] = [];
  for (const { name, isNumber, isExact } of table.columns as { name: string; isNumber: boolean; isExact: boolean }[]) {
    const field = fields.find((each) => each.name === camel(name));
    // Not readable, or of a type with fields of its own, such as an interval.
    if (!field || !["SCALAR", "ENUM"].includes(named(field.type).kind)) continue;
    const relation = `${owner.escapeIdentifier(table.schema)}.${owner.escapeIdentifier(table.name)}`;
    const quoted = owner.escapeIdentifier(name);
    // Times with milliseconds, as GraphQL shows them.
    const { rows } = await owner.query(
      `select distinct ${quoted}::text as text from ${relation} where ${quoted}::text !~ '[.]\\d{4,}\\+' order by 1 limit 8`,
    );
    const type = { scalar: named(field.type).name, isList: isList(field.type), isNumber, isExact };
    columns.push({ name, field: field.name, ...type, samples: rows.map(({ text }) => text) });
  }
  return columns;
}
