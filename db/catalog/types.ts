import type { Schema, TypeShape } from "./catalog.ts";
import type { SchemaRow } from "./rows/scope.ts";
import type { Oid, TypeRow } from "./rows/types.ts";

/** The types of the database by their numbers. */
export class Types {
  readonly #rows: ReadonlyMap<Oid, TypeRow>;
  readonly #shapes = new Map<Oid, TypeShape>();

  constructor(rows: readonly TypeRow[]) {
    this.#rows = new Map(rows.map((row) => [row.oid, row]));
  }

  /** SQL text without a modifier: `bigint`, `public.article_status[]`. */
  textOf(oid: Oid): string {
    return this.#row(oid).text;
  }

  kindOf(oid: Oid): TypeRow["kind"] {
    return this.#row(oid).kind;
  }

  /** `pg_catalog.json` → `json`; null for what other schemas have. */
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

  /** The type itself and what it is made from: of a domain over a domain over text all three. */
  chainOf(oid: Oid): readonly TypeRow[] {
    const row = this.#row(oid);
    return row.base === null ? [row] : [row, ...this.chainOf(row.base)];
  }

  /** Of a domain over another one that of the other holds too. */
  refusesNull(oid: Oid): boolean {
    return this.chainOf(oid).some(({ isNotNull }) => isNotNull);
  }

  /** SQL text of the domains that are not null. */
  notNullDomains(): ReadonlySet<string> {
    const domains = [...this.#rows.values()].filter(({ oid, kind }) => kind === "d" && this.refusesNull(oid));
    return new Set(domains.map(({ text }) => text));
  }

  #row(oid: Oid): TypeRow {
    // All rows are of one moment: what they refer to is among them.
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
  // Of a domain the category is that of its base.
  d: "base",
  e: "enum",
  c: "composite",
  r: "range",
  m: "range",
  p: "pseudo",
};

/** Names that the grammar of SQL has for types, which pg_type has under others. */
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
 * What a cast may name, and its SQL text: `int4` and `int` are integers, `article_status` and `public.article_status` the
 * enum of a schema. Where two types have one name, the first on the search path has it.
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
