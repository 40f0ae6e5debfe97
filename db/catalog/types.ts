import { type DomainCasts, quoteName, type ResultColumn, type Schema, type TypeShape } from "./catalog.ts";
import type { Oid, Relations } from "./relations.ts";

export type SchemaRow = {
  readonly name: string;
  readonly isServed: boolean;
  readonly owner: Oid;
  readonly acl: string | null;
  readonly comment: string | null;
};

export type TypeRow = {
  readonly oid: Oid;
  readonly schema: string;
  readonly name: string;
  /** SQL text. */
  readonly text: string;
  /** base, enum, composite, domain, range, multirange, pseudo */
  readonly kind: "b" | "e" | "c" | "d" | "r" | "m" | "p";
  /** The element type of an array; null for other types. */
  readonly element: Oid | null;
  /** The base type of a domain, whose modifier follows; null for other types. */
  readonly base: Oid | null;
  readonly modifier: number;
  readonly isNotNull: boolean;
  /** SQL text of a domain's default. */
  readonly default: string | null;
  readonly labels: readonly string[] | null;
  /** Whether it is the row type of a table or view. */
  readonly isRow: boolean;
};

export const TYPES = `
  select t.oid, n.nspname as schema, t.typname as name, format_type(t.oid, -1) as text, t.typtype as kind,
    element.oid as element, nullif(t.typbasetype, 0) as base, t.typtypmod as modifier, t.typnotnull as "isNotNull",
    pg_get_expr(t.typdefaultbin, 0) as default, label.labels, coalesce(c.relkind <> 'c', false) as "isRow"
  from pg_type as t
  join pg_namespace as n on n.oid = t.typnamespace
  left join pg_type as element on element.oid = t.typelem and element.typarray = t.oid
  left join pg_class as c on c.oid = coalesce(element.typrelid, t.typrelid)
  left join (
    select enumtypid, array_agg(enumlabel order by enumsortorder) as labels from pg_enum group by enumtypid
  ) as label on label.enumtypid = t.oid
  order by t.oid`;

/** The types of the database by oid. */
export class Types {
  readonly #rows: ReadonlyMap<Oid, TypeRow>;
  readonly #shapes = new Map<Oid, TypeShape>();

  constructor(rows: readonly TypeRow[]) {
    this.#rows = new Map(rows.map((row) => [row.oid, row]));
  }

  /** SQL text without a modifier: `bigint`, `public.post_status[]`. */
  textOf(oid: Oid): string {
    return this.#row(oid).text;
  }

  kindOf(oid: Oid): TypeRow["kind"] {
    return this.#row(oid).kind;
  }

  /** `pg_catalog.json` → `json`; null for types of other schemas. */
  systemNameOf(oid: Oid): string | null {
    const { schema, name } = this.#row(oid);
    return schema === "pg_catalog" ? name : null;
  }

  shapeOf(oid: Oid): TypeShape {
    const known = this.#shapes.get(oid);
    if (known) return known;
    const shape = this.#shape(oid);
    this.#shapes.set(oid, shape);
    return shape;
  }

  /** The type and its base types: all three for a domain over a domain over text. */
  chainOf(oid: Oid): readonly TypeRow[] {
    const row = this.#row(oid);
    return row.base === null ? [row] : [row, ...this.chainOf(row.base)];
  }

  /** Whether the type is a domain that is not null, or is based on one. */
  refusesNull(oid: Oid): boolean {
    return this.chainOf(oid).some(({ isNotNull }) => isNotNull);
  }

  /** The domains that are not null, as SQL text. */
  notNullDomains(): ReadonlySet<string> {
    const domains = [...this.#rows.values()].filter(({ oid, kind }) => kind === "d" && this.refusesNull(oid));
    return new Set(domains.map(({ text }) => text));
  }

  #row(oid: Oid): TypeRow {
    // All rows are from one snapshot, so that every referenced type is present.
    return this.#rows.get(oid)!;
  }

  #shape(oid: Oid): TypeShape {
    const chain = this.chainOf(oid);
    const base = chain.at(-1)!;
    const domain = chain.length > 1 ? this.textOf(oid) : null;
    if (base.element !== null) return Object.freeze({ ...this.shapeOf(base.element), isArray: true, domain });
    return Object.freeze({
      name: base.name,
      schema: base.schema,
      category: CATEGORIES[base.kind],
      isArray: false,
      domain,
      labels: base.labels ?? [],
    });
  }
}

const CATEGORIES: Readonly<Record<TypeRow["kind"], TypeShape["category"]>> = {
  b: "base",
  // Not used: the category of a domain is that of its base type.
  d: "base",
  e: "enum",
  c: "composite",
  r: "range",
  m: "range",
  p: "pseudo",
};

/** Type names of the SQL grammar that differ from those in pg_type. */
const SQL_NAMES = [
  "bigint",
  "bit varying",
  "boolean",
  "char",
  "character",
  "character varying",
  "dec",
  "decimal",
  "double precision",
  "float",
  "int",
  "integer",
  "real",
  "smallint",
  "time with time zone",
  "time without time zone",
  "timestamp with time zone",
  "timestamp without time zone",
];

/**
 * The names that a cast may use → SQL text: `int4`, `int`, `post_status`, `public.post_status`. Of two types with
 * one name, the first on the search path wins.
 */
export function nameTypes(rows: readonly TypeRow[], schemas: readonly SchemaRow[]): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  const add = (name: string, text: string) => {
    if (!names.has(name)) names.set(name, text);
  };
  for (const name of SQL_NAMES) add(name, name);
  for (const schema of ["pg_catalog", ...schemas.map(({ name }) => name)]) {
    for (const row of rows) {
      if (row.schema !== schema || !mayBeCastTo(row)) continue;
      add(row.name, row.text);
      add(`${schema}.${row.name}`, row.text);
    }
  }
  return names;
}

/** The labels of the enums of a schema, by name. */
export const enumsOf = (schema: string, rows: readonly TypeRow[]): Schema["enums"] =>
  new Map(
    rows.filter((row) => row.kind === "e" && row.schema === schema).map(({ name, labels }) => [name, labels ?? []]),
  );

const mayBeCastTo = ({ kind, isRow, element }: TypeRow) => kind !== "p" && !isRow && element === null;

/** The columns of a composite type or of a table that is not served. */
export function attributesOf(relation: Oid, relations: Relations, types: Types): ReadonlyMap<string, ResultColumn> {
  const columns = [...relations.columnsOf(relation)].map(({ name, type, typeText }) => ({
    name,
    type: typeText ?? types.textOf(type),
    shape: types.shapeOf(type),
  }));
  return new Map(columns.map((column) => [column.name, column]));
}

/** The composite types of a schema, by name. */
export const compositesOf = (schema: string, relations: Relations, types: Types): Schema["composites"] =>
  new Map(
    relations.composites
      .filter((row) => row.schema === schema)
      .map(({ oid, name }) => [name, attributesOf(oid, relations, types)]),
  );

export type CastRow = {
  readonly source: Oid;
  readonly target: Oid;
  readonly schema: string;
  readonly name: string;
};

/** Implicit casts by a function, to or from a domain. Postgres ignores them; the table interface uses them. */
export const CASTS = `
  select c.castsource as source, c.casttarget as target, n.nspname as schema, p.proname as name
  from pg_cast as c
  join pg_type as source on source.oid = c.castsource
  join pg_type as target on target.oid = c.casttarget
  join pg_proc as p on p.oid = c.castfunc
  join pg_namespace as n on n.oid = p.pronamespace
  where c.castcontext = 'i' and c.castmethod = 'f' and 'd' in (source.typtype, target.typtype)
  order by c.castsource, c.casttarget`;

const NO_CASTS: DomainCasts = { toJson: null, fromText: null, fromJson: null };

/** Domains → the functions that cast text and JSON to them, and them to JSON. */
export function findCasts(rows: readonly CastRow[], types: Types): ReadonlyMap<Oid, DomainCasts> {
  const casts = new Map<Oid, DomainCasts>();
  const add = (domain: Oid, cast: Partial<DomainCasts>) => {
    if (types.kindOf(domain) === "d") casts.set(domain, { ...(casts.get(domain) ?? NO_CASTS), ...cast });
  };
  for (const { source, target, ...name } of rows) {
    const quoted = quoteName(name);
    if (types.systemNameOf(target) === "json") add(source, { toJson: quoted });
    if (types.systemNameOf(source) === "text") add(target, { fromText: quoted });
    if (types.systemNameOf(source) === "json") add(target, { fromJson: quoted });
  }
  return casts;
}
