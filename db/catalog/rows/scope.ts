import pg from "pg";

/** Which schemas are read; names as they stand in the settings, in their order. */
export type CatalogScope = {
  readonly schemas: readonly string[];
  /** Searched after the served schema of a request, for types and computed fields; not served themselves. */
  readonly extraSearchPath: readonly string[];
};

export type SchemaRow = { readonly name: string; readonly isServed: boolean; readonly comment: string | null };

export const SCHEMAS = `
  select s.name, s."isServed", d.description as comment
  from searched as s
  left join pg_description as d on d.objoid = s.oid and d.classoid = 'pg_namespace'::regclass
  order by s.position`;

/**
 * The common tables that every part of the query reads from:
 * - searched: the schemas of the settings that exist. Those of the system can't be served.
 * - relations: what has columns of interest: what is served, what views are made of, and what functions return.
 */
export const commonTables = ({ schemas, extraSearchPath }: CatalogScope): string => `
  searched as materialized (
    select n.oid, n.nspname as name, min(setting.position) as position,
      bool_or(setting.position <= ${schemas.length}) and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' as "isServed"
    from unnest(${textArray([...schemas, ...extraSearchPath])}) with ordinality as setting (name, position)
    join pg_namespace as n on n.nspname = setting.name
    group by n.oid
  ),
  relations as materialized (
    select c.oid, n.nspname as schema, c.relname as name, c.relkind as kind, c.relowner as owner, c.relacl as acl,
      c.reltype as "rowType", s.oid is not null and c.relkind <> 'c' as "isServed", s.position
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    left join searched as s on s.oid = n.oid and s."isServed"
    where c.relkind in ('r', 'p', 'v', 'm', 'f', 'c')
      and (
        s.oid is not null
        or c.reltype in (
          select p.prorettype from pg_proc as p join searched as s on s.oid = p.pronamespace and s."isServed"
        )
        or n.nspname !~ '^pg_' and n.nspname <> 'information_schema' and c.oid in (
          select refobjid from pg_depend
          where classid = 'pg_rewrite'::regclass and refclassid = 'pg_class'::regclass
        )
      )
  )`;

const textArray = (names: readonly string[]): string => `array[${names.map(pg.escapeLiteral).join(", ")}]::text[]`;
