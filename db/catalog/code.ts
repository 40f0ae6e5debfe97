import { mapYielding } from "./event-loop.ts";

/**
 * What may leave state on a connection, such as session settings or locks, or may run triggers that do: the lower case
 * names of functions, tables, views, types and operators, and words of SQL.
 */
export class Code {
  /** Whether a function may execute text as SQL, and with it `prepare`. */
  readonly executesText: boolean;
  readonly #words: ReadonlySet<string>;
  /** Names that are not one word, such as those of operators. */
  readonly #others: readonly string[];

  constructor(names: Iterable<string>, executesText: boolean) {
    this.executesText = executesText;
    const all = [...names];
    this.#words = new Set(all.filter(isWord));
    this.#others = all.filter((name) => !isWord(name));
  }

  /** Whether a statement, or the body of a function, names code. Text in literals and comments counts too. */
  isIn(text: string): boolean {
    const lower = text.toLowerCase();
    return this.#others.some((name) => lower.includes(name)) || wordsOf(lower).some((word) => this.#words.has(word));
  }
}

const isWord = (name: string) => /^[\p{L}_][\p{L}\p{N}_$]*$/u.test(name);
/** Without `begin` before another word, where it begins a block: a function may have this name too. */
const wordsOf = (text: string): readonly string[] =>
  text.replace(/(?<![."])\bbegin\s+(?=[\p{L}_"])/gu, "").match(/[\p{L}_][\p{L}\p{N}_$]*/gu) ?? [];

/** Before the first catalog, every statement counts as code. */
export const UNKNOWN_CODE = new Code([""], true);

/** An object that a statement may use: its name, and the text that Postgres executes with it; null if it is not SQL. */
export type CodeRow = { readonly name: string; readonly text: string | null };

/** The objects of Postgres itself have lower oids. */
const FIRST_USER_OID = 16_384;

// Operators and casts of built-in types are used without a name in the text, so they are named by their symbol and by "".
export const CODE = `
  select p.proname as name,
    case
      when p.prosqlbody is not null then pg_get_function_sqlbody(p.oid)
      when member.objid is null and l.lanname in ('sql', 'plpgsql') then p.prosrc
      when l.lanname = 'c' and p.provolatile <> 'v' and p.proname !~ '^(crosstab|connectby|xpath_)' then ''
    end || ' ' || pg_get_function_arguments(p.oid) || ' ' || format_type(p.prorettype, null) as text
  from pg_proc as p
  join pg_language as l on l.oid = p.prolang
  left join pg_depend as member on member.classid = 'pg_proc'::regclass and member.objid = p.oid and member.deptype = 'e'
  where p.oid >= ${FIRST_USER_OID} and p.prokind in ('f', 'p')
  union all
  select p.proname, concat_ws(' ', pg_get_function_arguments(p.oid), a.aggtransfn, a.aggfinalfn, a.aggcombinefn,
    a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn)
  from pg_aggregate as a join pg_proc as p on p.oid = a.aggfnoid where p.oid >= ${FIRST_USER_OID}
  union all
  select p.proname, null from pg_proc as p
  where p.oid < ${FIRST_USER_OID} and (
    p.provolatile = 'v'
      and p.proname not in ('clock_timestamp', 'gen_random_uuid', 'random', 'timeofday', 'uuidv4', 'uuidv7')
    or p.proname ~ '_to_xml'
  )
  union all
  select relname, null from pg_class where relkind = 'f'
  union all
  select relname, pg_get_viewdef(oid) from pg_class where relkind = 'v' and oid >= ${FIRST_USER_OID}
  union all
  select c.relname, pg_get_expr(p.polqual, p.polrelid)
  from pg_policy as p join pg_class as c on c.oid = p.polrelid where p.polcmd in ('r', '*')
  union all
  select c.relname, format_type(a.atttypid, null)
  from pg_class as c join pg_attribute as a on a.attrelid = c.oid
  where c.relkind in ('r', 'p', 'v', 'm') and a.attnum > 0 and a.atttypid >= ${FIRST_USER_OID}
  union all
  select c.relname, pg_get_expr(d.adbin, d.adrelid)
  from pg_attrdef as d
  join pg_class as c on c.oid = d.adrelid
  join pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum and a.attgenerated = 'v'
  union all
  -- The planner evaluates calls of immutable functions in the expressions of indexes, statistics and partitions.
  select c.relname, concat_ws(' ', pg_get_expr(i.indexprs, i.indrelid), pg_get_expr(i.indpred, i.indrelid))
  from pg_index as i join pg_class as c on c.oid = i.indrelid
  where i.indrelid >= ${FIRST_USER_OID} and (i.indexprs is not null or i.indpred is not null)
  union all
  select c.relname, array_to_string(pg_get_statisticsobjdef_expressions(s.oid), ' ')
  from pg_statistic_ext as s join pg_class as c on c.oid = s.stxrelid where s.stxexprs is not null
  union all
  select c.relname, pg_get_partkeydef(c.oid) from pg_class as c where c.relkind = 'p'
  union all
  select parent.relname, concat_ws(' ', child.relname, pg_get_expr(k.conbin, k.conrelid))
  from pg_inherits as i
  join pg_class as parent on parent.oid = i.inhparent and parent.relkind in ('r', 'p')
  join pg_class as child on child.oid = i.inhrelid
  left join pg_constraint as k on k.conrelid = child.oid and k.contype = 'c'
  union all
  select t.typname, concat_ws(' ', format_type(t.typbasetype, null), pg_get_expr(k.conbin, 0))
  from pg_type as t left join pg_constraint as k on k.contypid = t.oid
  where t.oid >= ${FIRST_USER_OID} and t.typtype = 'd'
  union all
  select c.relname, format_type(a.atttypid, null)
  from pg_class as c join pg_attribute as a on a.attrelid = c.oid
  where c.relkind = 'c' and a.attnum > 0 and a.atttypid >= ${FIRST_USER_OID}
  union all
  select t.typname, format_type(r.rngsubtype, null)
  from pg_range as r join pg_type as t on t.oid = r.rngtypid where r.rngtypid >= ${FIRST_USER_OID}
  union all
  select o.oprname, o.oprcode::regproc::text from pg_operator as o where o.oid >= ${FIRST_USER_OID}
  union all
  select case when t.oid >= ${FIRST_USER_OID} then t.typname else '' end, c.castfunc::regproc::text
  from pg_cast as c join pg_type as t on t.oid in (c.castsource, c.casttarget)
  where c.oid >= ${FIRST_USER_OID} and c.castfunc <> 0
    and (t.oid >= ${FIRST_USER_OID} or greatest(c.castsource, c.casttarget) < ${FIRST_USER_OID})
  order by name, text`;

/** Functions that may execute text, without those of extensions and of the service itself. */
export const EXECUTORS = `
  select p.oid::regprocedure::text as name
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
  join pg_language as l on l.oid = p.prolang
  where p.oid >= ${FIRST_USER_OID} and p.prosqlbody is null and p.prokind in ('f', 'p')
    and (
      l.lanname not in ('sql', 'plpgsql', 'c', 'internal')
      or p.prosrc ~* '\\m(execute|prepare|deallocate|discard)\\M'
    )
    and n.nspname <> 'graphile_worker'
    and (n.nspname, p.proname) not in (('internal', 'field_errors'), ('changes', 'use_outbox'))
    and not exists (
      select from pg_depend as d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
    )
  order by name`;

/**
 * Words that change the state of the session, that execute other statements, or that run triggers, which have no name in
 * the text. `U&"…"` writes names with escapes.
 */
const WORDS = [
  ...["insert", "update", "delete", "merge", "copy", "truncate", "call", "do", "execute", "prepare", "deallocate"],
  ...["set", "reset", "discard", "listen", "unlisten", "load", "temp", "temporary", "pg_temp", "hold", 'u&"', "u&'"],
  ...["create", "alter", "drop", "refresh", "import"],
];

/**
 * Finds what is code: objects that are not SQL, and objects whose text names code, until no more are found. A table is
 * code if a policy for reads calls a function that is.
 */
export async function codeOf(rows: readonly CodeRow[], executors: readonly unknown[]): Promise<Code> {
  const names = new Set(WORDS);
  const known = new Set([...WORDS, ...rows.map(({ name }) => nameInText(name))]);
  const users = new Map<string, string[]>([...known].map((name) => [name, []]));
  const objects = await mapYielding(rows, (row) => {
    const name = nameInText(row.name);
    const text = row.text?.toLowerCase() ?? null;
    if (text === null) names.add(name);
    else for (const word of known.intersection(new Set(wordsOf(text)))) users.get(word)!.push(name);
    return { name, text };
  });
  // A set that grows during the iteration visits its new elements too.
  for (const found of names) {
    const using = isWord(found) ? users.get(found)! : objects.filter(({ text }) => text?.includes(found)).map(nameOf);
    for (const name of using) names.add(name);
  }
  return new Code(names, executors.length > 0);
}

/** `my "f"` → `my ""f""`, as it is written between quotes. */
const nameInText = (name: string) => name.toLowerCase().replaceAll('"', '""');

const nameOf = ({ name }: { readonly name: string }) => name;
