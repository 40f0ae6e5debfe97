import type { Constraint, ConstraintMessages } from "./catalog.ts";
import type { Oid } from "./relations.ts";
import type { Views } from "./views.ts";

/** A constraint, or a unique index without a constraint. */
export type ConstraintRow = {
  /** `public.users.users_email_key` */
  readonly key: string;
  readonly comment: string | null;
  readonly columns: readonly string[];
  /** SQL text of a CHECK, if its table is one of `relations` (read.ts); otherwise null. */
  readonly check: string | null;
  /** SQL texts of the columns and expressions that must be unique, if the table is one of `relations`; otherwise empty. */
  readonly keys: readonly string[];
  /** What a foreign key refers to; null for other constraints. */
  readonly references: Constraint["references"];
};

// Of every table, served or not: a write through a view or a function can violate the constraints of the tables behind it.
// To read a CHECK, Postgres waits for a concurrent `alter table`: so only the checks and keys of `relations` are read.
// Without NOT NULL, whose errors do not name a constraint. The columns of an index expression are read from its tree.
export const CONSTRAINTS = `
  select n.nspname || '.' || t.relname || '.' || rule.name as key, rule.check,
    coalesce(d.description, of_index.description) as comment,
    array(
      select a.attname from pg_attribute as a
      where a.attrelid = t.oid and a.attnum = any (rule.columns)
      order by array_position(rule.columns, a.attnum)
    ) as columns,
    array(
      select pg_get_indexdef(i.indexrelid, place, false)
      from pg_index as i, generate_series(1, i.indnkeyatts) as place
      where i.indexrelid = rule.index and i.indisunique and i.indpred is null
        and i.indrelid in (select oid from relations)
      order by place
    ) as keys,
    (
      select json_build_object('schema', of_target.nspname, 'name', target.relname, 'columns', array(
        select a.attname from pg_attribute as a
        where a.attrelid = target.oid and a.attnum = any (rule."targetColumns")
        order by array_position(rule."targetColumns", a.attnum)
      ))
      from pg_class as target
      join pg_namespace as of_target on of_target.oid = target.relnamespace
      where target.oid = rule.target
    ) as "references"
  from (
    select oid, 'pg_constraint'::regclass as catalog, conrelid as relation, conname as name, conkey as columns,
      case when contype in ('p', 'u', 'x') then conindid end as index,
      case when contype = 'c' and conrelid in (select oid from relations) then pg_get_expr(conbin, conrelid) end
        as check,
      case when contype = 'f' then confrelid end as target, confkey as "targetColumns"
    from pg_constraint
    where contype <> 'n'
    union all
    select c.oid, 'pg_class'::regclass, i.indrelid, c.relname,
      (i.indkey::int2[])[0:i.indnkeyatts - 1] || case when i.indexprs is not null then array(
        select number[1]::int2 from regexp_matches(i.indexprs::text, ':varattno ([0-9]+)', 'g') as number
      ) end,
      c.oid, null, null, null
    from pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    where i.indisunique and not exists (
      select from pg_constraint as o where o.conindid = i.indexrelid and o.contype in ('p', 'u', 'x')
    )
  ) as rule
  join pg_class as t on t.oid = rule.relation
  join pg_namespace as n on n.oid = t.relnamespace
  left join pg_description as d on d.objoid = rule.oid and d.classoid = rule.catalog and d.objsubid = 0
  left join pg_description as of_index
    on of_index.objoid = rule.index and of_index.classoid = 'pg_class'::regclass and of_index.objsubid = 0
  where n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
  order by n.nspname, t.relname, rule.name`;

export const constraintsOf = (rows: readonly ConstraintRow[]): ReadonlyMap<string, Constraint> =>
  new Map(
    rows.map(({ key, comment, columns, check, keys, references }) => [
      key,
      Object.freeze({
        message: (comment && withoutSmartTags(comment)) || null,
        columns: Object.freeze(columns),
        check,
        keys: Object.freeze(keys),
        references: references && Object.freeze(references),
      }),
    ]),
  );

/** The message for each violated constraint: its comment or, without one, a text made from its columns. */
export const messagesOf = (constraints: ReadonlyMap<string, Constraint>): ConstraintMessages =>
  new Map(
    [...constraints].flatMap(([path, constraint]) => {
      const message = constraint.message ?? demandOf(path, constraint);
      return message === null ? [] : [[path, message] as const];
    }),
  );

/** `total violates the rule orders_total_check of orders`, `email is already taken`, `project_id refers to a record that does not exist` */
function demandOf(path: string, { columns, check, keys, references }: Constraint): string | null {
  const names = columns.join(", ");
  if (references !== null) return `${names} ${columns.length > 1 ? "refer" : "refers"} to a record that does not exist`;
  const [, table, name] = path.split(".");
  if (check !== null) return `${names || "a value"} violates the rule ${name} of ${table}`;
  return keys.length > 0 && names !== "" ? `${names} ${columns.length > 1 ? "are" : "is"} already taken` : null;
}

export const withoutSmartTags = (comment: string) => comment.replace(/^@.*$/gm, "").trim();

/** A primary key, unique constraint or unique index over plain columns. */
export type KeyRow = {
  readonly relation: Oid;
  readonly columns: readonly number[];
  readonly isPrimary: boolean;
  readonly isConstraint: boolean;
};

// In indkey, the columns of INCLUDE follow those of the key.
export const KEYS = `
  select i.indrelid as relation, (i.indkey::int2[])[0:i.indnkeyatts - 1] as columns, i.indisprimary as "isPrimary",
    exists (
      select from pg_constraint as c
      where c.conindid = i.indexrelid and c.conrelid = i.indrelid and c.contype in ('p', 'u')
    ) as "isConstraint"
  from relations as r
  join pg_index as i on i.indrelid = r.oid
  where i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
  order by i.indrelid, i.indisprimary desc, i.indexrelid`;

type Key = readonly number[];

/** The keys of tables, and the keys that views inherit, as column numbers. */
export class Keys {
  readonly #views: Views;
  readonly #rows = new Map<Oid, KeyRow[]>();

  constructor(views: Views, rows: readonly KeyRow[]) {
    this.#views = views;
    for (const row of rows) this.#rows.set(row.relation, [...(this.#rows.get(row.relation) ?? []), row]);
  }

  /**
   * The primary key of a table. For a view, the primary keys of its tables, combined, as far as they are among its columns. They
   * identify a row only if all tables of the view have their keys there. Not detected are rows that repeat because of a join with
   * a table that has no column in the view.
   */
  primaryKeyOf(relation: Oid): Key {
    if (!this.#views.isView(relation)) return this.#rowsOf(relation).find(({ isPrimary }) => isPrimary)?.columns ?? [];
    if (this.#views.repeatsRows(relation)) return [];
    return [...this.#views.tablesOf(relation)].flatMap((table) => {
      const key = this.primaryKeyOf(table);
      return key.length > 0 ? (this.#views.appearancesIn(relation, table, key)[0]?.numbers ?? []) : [];
    });
  }

  /** The primary key first. */
  uniqueKeysOf(relation: Oid): readonly Key[] {
    if (!this.#views.isView(relation)) return this.#rowsOf(relation).map(({ columns }) => columns);
    const table = this.#views.onlyTableOf(relation);
    const keys = table === null ? [] : this.#rowsOf(table);
    const inherited = keys.flatMap(({ columns }) => this.#views.appearancesIn(relation, table!, columns).slice(0, 1));
    const primary = this.primaryKeyOf(relation);
    if (table !== null || primary.length === 0) return inherited.map(({ numbers }) => numbers);
    return [primary];
  }

  /** Whether a primary key or unique constraint of the table is over exactly these columns, in any order. */
  isConstrained(table: Oid, columns: Key): boolean {
    return this.#rowsOf(table).some(
      (key) =>
        key.isConstraint &&
        key.columns.length === columns.length &&
        key.columns.every((number) => columns.includes(number)),
    );
  }

  #rowsOf(table: Oid): readonly KeyRow[] {
    return this.#rows.get(table) ?? [];
  }
}
