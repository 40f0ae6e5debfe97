import type { Pool, QueryResult } from "pg";
import { CONSTRAINTS, type ConstraintRow } from "./rows/constraints.ts";
import { CASTS, type CastRow, FUNCTIONS, type FunctionRow } from "./rows/functions.ts";
import { FOREIGN_KEYS, type ForeignKeyRow, KEYS, type KeyRow } from "./rows/keys.ts";
import { MEDIA_HANDLERS, type MediaHandlerRow } from "./rows/media-handlers.ts";
import { COLUMNS, type ColumnRow, RELATIONS, type RelationRow, VIEWS, type ViewRow } from "./rows/relations.ts";
import { ACLS, type AclRow, ROLES, type RoleRow } from "./rows/roles.ts";
import { type CatalogScope, commonTables, SCHEMAS, type SchemaRow } from "./rows/scope.ts";
import { TYPES, type TypeRow } from "./rows/types.ts";
import { mapInTurns } from "./turns.ts";

/** What Postgres says of itself, before it is put together. */
export type CatalogRows = {
  readonly schemas: readonly SchemaRow[];
  readonly relations: readonly RelationRow[];
  readonly columns: readonly ColumnRow[];
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
  readonly extensions: readonly { readonly name: string; readonly schema: string }[];
};

/** The rows as JSON, part by part. Two readings of an unchanged database are equal. */
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
  extensions: EXTENSIONS,
};

/**
 * Reads everything in one statement, which sees one moment, and in one round trip: settings and statement are one message,
 * and so one transaction. Without a search path Postgres writes out the schema of everything that is not its own.
 * A default is not told while somebody alters its table: that is waited for, but not for long.
 */
export async function readCatalog(pool: Pick<Pool, "query">, scope: CatalogScope): Promise<CatalogText> {
  const parts = Object.entries(PARTS).map(
    ([name, sql]) => `(select coalesce(json_agg(part), '[]')::text from (${sql}) as part) as "${name}"`,
  );
  const results = await pool.query(`
    set local search_path = '';
    set local jit = off;
    set local lock_timeout = '3s';
    with ${commonTables(scope)} select ${parts.join(", ")}`);
  return (results as unknown as QueryResult<CatalogText>[]).at(-1)!.rows[0]!;
}

export async function parseCatalog(text: CatalogText): Promise<CatalogRows> {
  const parts = await mapInTurns(Object.entries(text), ([name, json]) => [name, JSON.parse(json)] as const);
  return Object.fromEntries(parts) as CatalogRows;
}
