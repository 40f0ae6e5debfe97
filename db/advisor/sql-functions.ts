import type { ClientBase } from "pg";
import type { DatabaseError } from "pg-protocol";
import type { Commented } from "./finding.ts";

/** Functions in SQL that this login may execute, with the search path of their calls. $1: the served schemas. */
const FUNCTIONS = `
  select p.oid::int8, 'function ' || p.oid::regprocedure as object, obj_description(p.oid, 'pg_proc') as comment,
    coalesce(
      (select substr(setting, length('search_path=') + 1) from unnest(p.proconfig) as setting where setting like 'search_path=%'),
      format('%I, public', n.nspname)
    ) as path
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
  join pg_language as l on l.oid = p.prolang
  where l.lanname = 'sql' and p.prosqlbody is null and n.nspname = any ($1) and has_function_privilege(p.oid, 'execute')
  order by object`;

const UNDEFINED_COLUMN = "42703";

/**
 * Functions in SQL whose text names a column that does not exist, as Postgres itself finds it: with the check that it makes when
 * such a function is created. Runs in the open transaction and leaves it as it was.
 */
export async function brokenSqlFunctions(
  client: ClientBase,
  schemas: readonly string[],
): Promise<readonly Commented[]> {
  const { rows } = await client.query(FUNCTIONS, [schemas]);
  const broken: Commented[] = [];
  for (const { oid, object, comment, path } of rows) {
    await client.query("savepoint checked");
    try {
      await client.query("select set_config('search_path', $1, true)", [path]);
      await client.query("select pg_catalog.fmgr_sql_validator($1::int8::oid)", [oid]);
    } catch (error) {
      const { code, message } = error as DatabaseError;
      if (code === UNDEFINED_COLUMN)
        broken.push({ ...FINDING, object, comment, reason: `${message}: calls fail`, fix: fixFor(object) });
    }
    await client.query("rollback to savepoint checked");
  }
  return broken;
}

const FINDING = { rule: "function-uses-missing-column", level: "error" } as const;

const fixFor = (object: string): string =>
  `-- Write the function again without it: \\sf ${object.replace(/^function |\(.*/gs, "")}`;
