/** The number of an object in the catalog of Postgres, as text. */
export type Oid = string;

export type TypeRow = {
  readonly oid: Oid;
  readonly schema: string;
  readonly name: string;
  /** SQL text. */
  readonly text: string;
  /** base, enum, composite, domain, range, multirange, pseudo */
  readonly kind: "b" | "e" | "c" | "d" | "r" | "m" | "p";
  /** What an array is made of; null of other types. */
  readonly element: Oid | null;
  /** What a domain is made from, with the modifier of that; null of other types. */
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
