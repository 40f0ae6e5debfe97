import type pg from "pg";
import type { Config } from "../../../config/config.ts";

/** Why each request would fail before its own statements, because of DB_PRE_REQUEST; null if none would. */
export async function faultOfPreRequest(
  client: pg.Client,
  { dbPreRequest, dbSchemas, dbExtraSearchPath, dbAnonRole }: Config,
): Promise<string | null> {
  if (dbPreRequest === null) return null;
  const { schema, name } = dbPreRequest;
  const schemas = schema ? [schema] : [...dbSchemas, ...dbExtraSearchPath];
  const { rows } = await client.query<{ allowed: boolean }>(
    `select coalesce(has_function_privilege(r.oid, p.oid, 'execute') and has_schema_privilege(r.oid, n.oid, 'usage'), true)
       as allowed
     from pg_proc as p
     join pg_namespace as n on n.oid = p.pronamespace
     left join pg_roles as r on r.rolname = $3
     where n.nspname = any ($1) and p.proname = $2 and p.pronargs = p.pronargdefaults`,
    [schemas, name, dbAnonRole],
  );
  if (rows.length === 0)
    return `DB_PRE_REQUEST: each request would fail, because there is no function ${name}() in ${schemas.join(", ")}`;
  if (rows.some(({ allowed }) => allowed)) return null;
  return `DB_PRE_REQUEST: requests without a token fail, because ${dbAnonRole} may not execute ${name}(): grant it, with usage on its schema`;
}
