import type { Pool, QueryResult } from "pg";
import pg from "pg";
import { SHORT_LOCK_TIMEOUT } from "../follow/lock-retries.ts";
import { UNFIT } from "../text-settings.ts";
import { CODE, type CodeRow, EXECUTORS } from "./code-rows.ts";
import { CONSTRAINTS, type ConstraintRow, KEYS, type KeyRow } from "./constraints.ts";
import { mapYielding } from "./event-loop.ts";
import { FUNCTIONS, type FunctionRow } from "./functions.ts";
import { ACLS, type AclRow, ROLES, type RoleRow } from "./grants.ts";
import { MEDIA_HANDLERS, type MediaHandlerRow } from "./media-handlers.ts";
import { POLICIES, type PolicyRow } from "./policies.ts";
import { COLUMNS, type ColumnRow, RELATIONS, type RelationRow } from "./relations.ts";
import { FOREIGN_KEYS, type ForeignKeyRow } from "./relationships.ts";
import { CASTS, type CastRow, type SchemaRow, TYPES, type TypeRow } from "./types.ts";
import { VIEWS, type ViewRow } from "./views.ts";

/** The schemas to read, as in the settings and in their order. */
export type CatalogScope = {
  readonly schemas: readonly string[];
  /** Schemas that are searched after the served schema of a request, for types and computed fields; not served. */
  readonly extraSearchPath: readonly string[];
};

const SCHEMAS = `
  select s.name, s."isServed", n.nspowner as owner, n.nspacl::text as acl, d.description as comment
  from searched as s
  join pg_namespace as n on n.oid = s.oid
  left join pg_description as d on d.objoid = s.oid and d.classoid = 'pg_namespace'::regclass
  order by s.position`;

/**
 * The common table expressions that every part of the query reads:
 * - searched: the existing schemas of the settings. System schemas cannot be served.
 * - relations: served tables and views, the tables behind views, and the row types that functions return. Partitions are served
 *   only through the tables that they belong to.
 * - locked: what another transaction has locked exclusively.
 */
const commonTables = ({ schemas, extraSearchPath }: CatalogScope): string => `
  searched as materialized (
    select n.oid, n.nspname as name, min(setting.position) as position,
      bool_or(setting.position <= ${schemas.length}) and n.nspname !~ '^pg_'
        and n.nspname <> 'information_schema' as "isServed"
    from unnest(${textArray([...schemas, ...extraSearchPath])}) with ordinality as setting (name, position)
    join pg_namespace as n on n.nspname = setting.name
    group by n.oid
  ),
  relations as materialized (
    select c.oid, n.nspname as schema, c.relname as name, c.relkind as kind, c.relowner as owner, c.relacl as acl,
      c.reltype as "rowType", s.position,
      c.relrowsecurity as "hasRowSecurity", c.relforcerowsecurity as "isRowSecurityForced",
      s.oid is not null and c.relkind <> 'c' and not c.relispartition as "isServed"
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
  ),
  locked as materialized (
    select l.relation
    from pg_locks as l
    join pg_database as d on d.oid = l.database and d.datname = current_database()
    where l.mode = 'AccessExclusiveLock' and l.granted and l.relation is not null
  )`;

const textArray = (names: readonly string[]): string => `array[${names.map(pg.escapeLiteral).join(", ")}]::text[]`;

/** The rows of pg_catalog from which the catalog is built. */
export type CatalogRows = {
  readonly schemas: readonly SchemaRow[];
  readonly relations: readonly RelationRow[];
  readonly columns: readonly ColumnRow[];
  readonly policies: readonly PolicyRow[];
  readonly views: readonly ViewRow[];
  readonly keys: readonly KeyRow[];
  readonly foreignKeys: readonly ForeignKeyRow[];
  readonly functions: readonly FunctionRow[];
  readonly casts: readonly CastRow[];
  readonly types: readonly TypeRow[];
  readonly mediaHandlers: readonly MediaHandlerRow[];
  readonly roles: readonly RoleRow[];
  readonly acls: readonly AclRow[];
  readonly constraints: readonly ConstraintRow[];
  readonly code: readonly CodeRow[];
  readonly executors: readonly { readonly name: string }[];
  readonly extensions: readonly { readonly name: string; readonly schema: string }[];
  readonly unfitSettings: readonly { readonly name: string }[];
};

/** The rows as JSON, by part. Two reads of an unchanged database are equal. */
export type CatalogText = { readonly [Part in keyof CatalogRows]: string };

const EXTENSIONS = `
  select e.extname as name, n.nspname as schema
  from pg_extension as e
  join pg_namespace as n on n.oid = e.extnamespace
  order by e.extname`;

const PARTS: Readonly<Record<keyof CatalogRows, string>> = {
  schemas: SCHEMAS,
  relations: RELATIONS,
  columns: COLUMNS,
  policies: POLICIES,
  views: VIEWS,
  keys: KEYS,
  foreignKeys: FOREIGN_KEYS,
  functions: FUNCTIONS,
  casts: CASTS,
  types: TYPES,
  mediaHandlers: MEDIA_HANDLERS,
  roles: ROLES,
  acls: ACLS,
  constraints: CONSTRAINTS,
  code: CODE,
  executors: EXECUTORS,
  extensions: EXTENSIONS,
  unfitSettings: UNFIT,
};

/**
 * Reads everything in one statement, and so from one snapshot, and in one round trip: session settings and statement
 * are one message and one transaction. With an empty search path Postgres qualifies all names outside pg_catalog.
 * Rejects with 55P03 if another transaction locks a table that it reads.
 */
export async function readCatalog(pool: Pick<Pool, "query">, scope: CatalogScope): Promise<CatalogText> {
  const parts = Object.entries(PARTS).map(
    ([name, sql]) => `(select coalesce(json_agg(part), '[]')::text from (${sql}) as part) as "${name}"`,
  );
  const results = await pool.query(`
    set local search_path = '';
    set local jit = off;
    ${SHORT_LOCK_TIMEOUT};
    with ${commonTables(scope)} select ${parts.join(", ")}`);
  return (results as unknown as QueryResult<CatalogText>[]).at(-1)!.rows[0]!;
}

export async function parseCatalog(text: CatalogText): Promise<CatalogRows> {
  const parts = await mapYielding(Object.entries(text), ([name, json]) => [name, JSON.parse(json)] as const);
  return Object.fromEntries(parts) as CatalogRows;
}
