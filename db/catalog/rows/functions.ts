import type { Oid } from "./types.ts";

export type FunctionRow = {
  readonly schema: string;
  readonly name: string;
  readonly owner: Oid;
  readonly comment: string | null;
  readonly volatility: "i" | "s" | "v";
  /** `["statement_timeout=3s"]` */
  readonly settings: readonly string[] | null;
  readonly acl: string | null;
  /** Types of all arguments, OUT ones too. */
  readonly types: readonly Oid[];
  /** Null when all are IN. */
  readonly modes: readonly ArgumentMode[] | null;
  readonly names: readonly string[] | null;
  /** How many of the last IN arguments have a default. */
  readonly defaults: number;
  readonly returns: Oid;
  readonly isSet: boolean;
  /** How many rows Postgres expects of a set; 0 of what is none. */
  readonly rows: number;
  readonly isServed: boolean;
};

/** in, out, inout, variadic, column of `returns table` */
export type ArgumentMode = "i" | "o" | "b" | "v" | "t";

/** Functions of the served schemas, and those of the extra search path that take a row of a served table. */
export const FUNCTIONS = `
  select s.name as schema, p.proname as name, p.proowner as owner, d.description as comment,
    p.provolatile as volatility, p.proconfig as settings, p.proacl::text as acl,
    coalesce(p.proallargtypes, p.proargtypes::oid[]) as types, p.proargmodes as modes, p.proargnames as names,
    p.pronargdefaults as defaults, p.prorettype as returns, p.proretset as "isSet", p.prorows as rows, s."isServed"
  from searched as s
  join pg_proc as p on p.pronamespace = s.oid
  left join pg_description as d on d.objoid = p.oid and d.classoid = 'pg_proc'::regclass
  where p.prokind = 'f'
    and (
      s."isServed"
      or p.pronargs = 1 and p.proargtypes[0] in (select "rowType" from relations as r where r."isServed")
    )
  order by s.position, p.proname, p.oid`;

export type CastRow = {
  readonly source: Oid;
  readonly target: Oid;
  readonly schema: string;
  readonly name: string;
};

/** Implicit casts by a function, to or from a domain. Postgres ignores these; the table interface does not. */
export const CASTS = `
  select c.castsource as source, c.casttarget as target, n.nspname as schema, p.proname as name
  from pg_cast as c
  join pg_type as source on source.oid = c.castsource
  join pg_type as target on target.oid = c.casttarget
  join pg_proc as p on p.oid = c.castfunc
  join pg_namespace as n on n.oid = p.pronamespace
  where c.castcontext = 'i' and c.castmethod = 'f' and 'd' in (source.typtype, target.typtype)
  order by c.castsource, c.casttarget`;
