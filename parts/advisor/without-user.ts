import type { ClientBase } from "pg";
import { quoteIdentifier } from "../../db/sql.ts";

/** What decides whether a policy is reported; the conditions are as Postgres writes them. */
export type Candidate = {
  /** Its table: the oid, the name as SQL text, and the name without the schema. */
  readonly relation: number;
  readonly table: string;
  readonly alias: string;
  /** A role to which the policy applies; null if the login may become none. */
  readonly role: string | null;
  readonly condition: string;
  /** Conditions of restrictive policies for the same command. */
  readonly restrictive: readonly string[];
  /** Whether the condition reads a row. Otherwise it may be meant for callers without a user. */
  readonly reads_row: boolean;
  /** Of a policy that is always true: conditions of other policies, which it makes void. */
  readonly beside: readonly string[] | null;
  /** The search path of calls. */
  readonly path: string;
};

/** The texts of functions without arguments that return one value, by name as SQL text: `auth.uid`. */
type FunctionTexts = ReadonlyMap<string, string>;

const FUNCTION_TEXTS = `
  select format('%I.%I', n.nspname, p.proname) as name, coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) as text
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
  join pg_language as l on l.oid = p.prolang
  where p.pronargs = 0 and p.prokind = 'f' and not p.proretset and l.lanname in ('sql', 'plpgsql')
    and n.nspname not in ('pg_catalog', 'information_schema')`;

/** A value of each column of $1, by which a condition on the row tells that it does not hold for every row: `'1'::integer, …`. Of a domain, one of its base type. */
const EXAMPLE = `
  select string_agg(
    format('%L::%s', case t.typcategory when 'N' then '1' when 'S' then 'x' when 'B' then 'true' when 'D' then '2000-01-01 12:00'
      when 'T' then '1 day' when 'I' then '::1' when 'A' then '{}'
      when 'E' then (select enumlabel::text from pg_enum where enumtypid = t.oid order by enumsortorder limit 1)
      else case t.typname when 'uuid' then '00000000-0000-4000-8000-000000000000' when 'json' then '{}' when 'jsonb' then '{}' end end,
    case t.typtype when 'd' then format_type(t.typbasetype, t.typtypmod) else format_type(a.atttypid, a.atttypmod) end), ', ' order by a.attnum) as values
  from pg_attribute as a
  join pg_type as t on t.oid = a.atttypid
  where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped`;

/** Milliseconds for which one condition is tried. */
const TRIAL = 1000;

/**
 * Keeps the policies that show every row to callers without a user, although they were meant for users. Their conditions are tried as such
 * a caller, in the open transaction, which stays as it was.
 */
export async function openWithoutUser<T extends Candidate>(
  client: ClientBase,
  candidates: readonly T[],
): Promise<readonly T[]> {
  if (candidates.length === 0) return [];
  const { rows } = await client.query<{ name: string; text: string }>(FUNCTION_TEXTS);
  const functions = new Map(rows.map(({ name, text }) => [name, text]));
  const open: T[] = [];
  for (const candidate of candidates) {
    const { condition, restrictive, reads_row: readsRow, beside } = candidate;
    const reads = (text: string) => readsUser(text, functions);
    const isForUsers = beside === null ? readsRow && reads(condition) : beside.some(reads);
    if (!isForUsers) continue;
    const outcomes = await tryConditions(client, candidate, [condition, ...restrictive.filter(reads)]);
    if (outcomes?.every((holds, i) => (i === 0 ? holds.every(Boolean) : holds.some(Boolean)))) open.push(candidate);
  }
  return open;
}

/** Whether each condition holds for a row of nulls, and for one with values. Null if Postgres cannot say so. */
async function tryConditions(
  client: ClientBase,
  { relation, table, alias, role, path }: Candidate,
  conditions: readonly string[],
): Promise<readonly (readonly boolean[])[] | null> {
  const { values } = (await client.query(EXAMPLE, [relation])).rows[0];
  const columns = conditions.map((condition, i) => `array_agg((${condition}) is true) as "${i}"`);
  await client.query("savepoint tried");
  try {
    await client.query(`
      ${role === null ? "" : `set local role ${quoteIdentifier(role)};`} set local statement_timeout = ${TRIAL}; set local search_path = ${path};
      select set_config('request.jwt.claims', '{"role":""}', true)`);
    const tried = await client.query(
      `select ${columns} from (select (null::${table}).* union all select ${values}) as ${quoteIdentifier(alias)}`,
    );
    return conditions.map((_, i) => tried.rows[0][i]);
  } catch {
    return null;
  } finally {
    await client.query("rollback to savepoint tried");
  }
}

const SETTING = /current_setting\('([^']+)'/gi;
const CALL = /((?:"(?:[^"]|"")+"|[\w$]+)\.(?:"(?:[^"]|"")+"|[\w$]+))\(\)/g;

/** Whether an expression reads who the user is. Settings of the request are known; others are those of the application, which sets them for a user. */
function readsUser(text: string, functions: FunctionTexts, seen = new Set<string>()): boolean {
  const isOfUser = ([, name]: RegExpMatchArray) =>
    /^request\.jwt\.claims?(?!\.role$)/.test(name!) ||
    !/^([^.]+$|(request|realtime|pgrst|app\.settings)\.)/.test(name!);
  const callReads = ([, name]: RegExpMatchArray) => {
    const body = seen.has(name!) ? undefined : functions.get(name!);
    return body !== undefined && readsUser(body, functions, seen.add(name!));
  };
  return text.matchAll(SETTING).some(isOfUser) || text.matchAll(CALL).some(callReads);
}
