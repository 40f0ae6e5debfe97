import type pg from "pg";
import { COMMAND } from "../db/catalog/policies.ts";
import { quoteIdentifier } from "../db/sql.ts";

/** A table or view that callers may be granted. */
export type Table = {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  /** As SQL: `public.notes` */
  readonly sql: string;
  /** Views and foreign tables have no places of rows. */
  readonly hasPlaces: boolean;
  /** What `insert` and `update` may name, in order. */
  readonly columns: readonly Column[];
  /** The column that names a row for people; null if there is none. */
  readonly label: string | null;
};

export type Column = {
  readonly name: string;
  /** Values that reference another table: `select id from public.users` */
  readonly referenced: string | null;
  /** Whether a grant may let callers write it. */
  readonly isStored: boolean;
  /** Whether it takes values without further clauses: not if it is an identity that is always generated. */
  readonly isWritable: boolean;
};

/** A row as the owner sees it. */
export type Row = {
  /** Finds the row in a table that has places: `tableoid = 16402 and ctid = '(0,1)'` */
  readonly place: string;
  /** `7`, `draft`, or `#3` for the third row. */
  readonly label: string;
  readonly values: Readonly<Record<string, unknown>>;
  /** The values as text. */
  readonly text: string;
};

/** The rows of each table that are tried. */
const MAX_ROWS = 200;

export async function readTables(owner: pg.Client, schemas: readonly string[]): Promise<readonly Table[]> {
  const { rows } = await owner.query(TABLES, [schemas]);
  return rows.map(({ columns, ...table }) => ({
    ...table,
    sql: `${quoteIdentifier(table.schema)}.${quoteIdentifier(table.name)}`,
    columns,
  }));
}

// Short values that are the same in every copy of the database name rows: numbers, texts and enums, but not uuids.
const TABLES = `
  select c.oid::int as oid, n.nspname as schema, c.relname as name, c.relkind in ('r', 'p') as "hasPlaces",
    (
      select coalesce(json_agg(json_build_object(
        'name', a.attname,
        'isStored', a.attgenerated = '' and c.relkind <> 'm',
        'isWritable', a.attgenerated = '' and a.attidentity <> 'a' and c.relkind <> 'm',
        'referenced', (
          select format('select %I from %I.%I', k.attname, rn.nspname, r.relname)
          from pg_constraint as f
          join pg_class as r on r.oid = f.confrelid
          join pg_namespace as rn on rn.oid = r.relnamespace
          join pg_attribute as k on k.attrelid = r.oid and k.attnum = f.confkey[1]
          where f.conrelid = c.oid and f.contype = 'f' and f.conkey = array[a.attnum]
          order by f.oid limit 1)
        ) order by a.attnum), '[]')
      from pg_attribute as a where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ) as columns,
    (
      select a.attname
      from pg_index as i
      join pg_attribute as a on a.attrelid = c.oid and a.attnum = i.indkey[0]
      join pg_type as t on t.oid = a.atttypid
      where i.indrelid = c.oid and i.indisprimary and i.indnkeyatts = 1
        and (t.typcategory in ('N', 'S', 'E') or t.typname = 'citext')
    ) as label
  from pg_class as c
  join pg_namespace as n on n.oid = c.relnamespace
  where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and not exists (select from pg_depend as d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
  order by n.nspname collate "C", c.relname collate "C"`;

/**
 * The first rows of a table, in the order in which they were added, and the number of all rows. `error`: why there are none, such as a function
 * in a view that fails.
 */
export async function readRows(
  owner: pg.Client,
  table: Table,
): Promise<{ readonly rows: readonly Row[]; readonly total: number; readonly error: string | null }> {
  await owner.query("savepoint read");
  try {
    return { ...(await tryRows(owner, table)), error: null };
  } catch (error) {
    const { message, code } = error as pg.DatabaseError;
    await owner.query("rollback to savepoint read");
    return { rows: [], total: 0, error: `${message} (${code})` };
  }
}

async function tryRows(owner: pg.Client, { sql, hasPlaces, label }: Table) {
  const place = hasPlaces ? "format('tableoid = %s and ctid = %L', t.tableoid::oid, t.ctid)" : "''";
  const order = hasPlaces ? "order by t.tableoid, t.ctid" : 'order by to_jsonb(t)::text collate "C"';
  const { rows } = await owner.query(`
    select ${place} as place, to_jsonb(t) as values, to_jsonb(t)::text as text, count(*) over ()::int as total
    from ${sql} as t ${order} limit ${MAX_ROWS}`);
  return {
    rows: rows.map(
      ({ total: _, ...row }, i): Row => ({
        ...row,
        label: label === null ? `#${i + 1}` : String(row.values[label]),
      }),
    ),
    total: (rows[0]?.total ?? 0) as number,
  };
}

/** The columns of a table that a role may read, insert and update. */
export type Privileges = {
  readonly select: readonly string[];
  readonly insert: readonly string[];
  readonly update: readonly string[];
};

export async function readPrivileges(owner: pg.Client, { oid, columns }: Table, role: string): Promise<Privileges> {
  const { rows } = await owner.query(
    `select attname as name, has_column_privilege($1, attrelid, attnum, 'select') as "select",
       has_column_privilege($1, attrelid, attnum, 'insert') as "insert",
       has_column_privilege($1, attrelid, attnum, 'update') as "update"
     from pg_attribute where attrelid = $2 and attnum > 0 and not attisdropped order by attnum`,
    [role, oid],
  );
  const stored = new Set(columns.filter(({ isStored }) => isStored).map(({ name }) => name));
  const granted = (command: keyof Privileges) => rows.filter((row) => row[command]).map(({ name }) => name as string);
  const written = (command: keyof Privileges) => granted(command).filter((name) => stored.has(name));
  return { select: granted("select"), insert: written("insert"), update: written("update") };
}

/** The rules for rows of a table or view, each as SQL on one line, in order. */
export async function readPolicies(owner: pg.Client, { oid }: Table): Promise<readonly string[]> {
  const { rows } = await owner.query<{ rule: string }>(POLICIES, [oid]);
  return rows.map(({ rule }) => rule.replace(/\s+/g, " "));
}

const POLICIES = `
  select case
      when c.relkind not in ('r', 'p') then case
        when lower(coalesce((select option_value from pg_options_to_table(c.reloptions) where option_name = 'security_invoker'), 'off'))
          in ('on', 'true', '1', 'yes') then 'reads with the rights of its caller'
        else 'reads with the rights of its owner' end
      when not c.relrowsecurity then 'no row-level security'
      when not exists (select from pg_policy where polrelid = c.oid) then 'no policies'
    end as rule
  from pg_class as c
  where c.oid = $1 and (c.relkind not in ('r', 'p') or not c.relrowsecurity or not exists (select from pg_policy where polrelid = c.oid))
  union all
  select concat(
    quote_ident(polname), case when not polpermissive then ' as restrictive' end, ' for ',
    ${COMMAND}, ' to ',
    (select string_agg(case role when 0 then 'public' else quote_ident(pg_get_userbyid(role)) end, ', ' order by pg_get_userbyid(role))
     from unnest(polroles) as role),
    ' using (' || pg_get_expr(polqual, polrelid) || ')', ' with check (' || pg_get_expr(polwithcheck, polrelid) || ')')
  from pg_policy where polrelid = $1
  order by 1`;
