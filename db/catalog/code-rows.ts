/**
 * An object that a statement may use or write: its name, and the text that Postgres executes with it; null if it is not
 * SQL. `isWrite`: the text is executed when the table or view is written. `written`: text that names what it writes; that of a
 * function is executed, too.
 */
export type CodeRow = {
  readonly name: string;
  readonly text: string | null;
  readonly isWrite: boolean;
  readonly written: string | null;
};

/** The objects of Postgres itself have lower oids. */
const FIRST_USER_OID = 16_384;

/**
 * Functions of Postgres that are not volatile, but run code which no text has to name:
 * - `pg_input_is_valid('x', 'a' || 'b')` and `pg_input_error_info` read a value of a type that they get as text. The checks of a
 *   domain are code.
 * - `domain_in('x', oid, -1)` and the other functions that read a value for a type which they get as an oid, also inside of arrays,
 *   composite types, ranges and multiranges.
 * - `satisfies_hash_partition(oid, …)` calls the hash functions of the table's operator classes.
 * - `table_to_xml(oid, …)`, `schema_to_xml` and the like read the tables and views that they get.
 * Those that execute a query which they get as text, such as `query_to_xml` and `ts_rewrite`, are volatile.
 */
const RUN_UNNAMED_CODE = `(
    p.proname like '%\\_to\\_xml%'
    or p.proname in ('pg_input_is_valid', 'pg_input_error_info', 'array_in', 'array_recv', 'domain_in', 'domain_recv', 'record_in',
      'record_recv', 'range_in', 'range_recv', 'multirange_in', 'multirange_recv', 'satisfies_hash_partition')
  )`;

/** Functions of the service, such as those of its triggers. Whether their writes run code follows from the tables that they name. */
const OF_SERVICE = `p.pronamespace::regnamespace::text in ('internal', 'auth_private', 'auth_api', 'changes')
  and p.prosqlbody is null and p.prolang in (select oid from pg_language where lanname in ('sql', 'plpgsql'))`;

/** Read once for all functions: where the planner misjudges their number, a join reads it for each of them. */
const OF_EXTENSION = `p.oid in (select objid from pg_depend where classid = 'pg_proc'::regclass and deptype = 'e')`;

/**
 * Postgres reads an expression only with a lock on its tables, and would wait for a concurrent `lock table` or DDL. So what is
 * locked exclusively counts as code, without being read.
 */
const ofLocked = (kind: "pg_proc" | "pg_rewrite", oid: string) =>
  `exists (select from pg_depend as d join locked on locked.relation = d.refobjid
    where d.classid = '${kind}'::regclass and d.objid = ${oid} and d.refclassid = 'pg_class'::regclass)`;
const unlocked = (text: string, relation: string) =>
  `case when ${relation} not in (select relation from locked) then ${text} end`;
const expression = (tree: string, relation: string) => unlocked(`pg_get_expr(${tree}, ${relation})`, relation);
const viewText = (view: string) =>
  `(select pg_get_viewdef(${view}) from pg_rewrite as w
    where w.ev_class = ${view} and w.rulename = '_RETURN' and not ${ofLocked("pg_rewrite", "w.oid")})`;

// Operators and casts of built-in types are used without a name in the text, so they are named by their symbol and by "".
const USED = `
  select p.proname as name,
    case
      when p.prosqlbody is not null and not ${ofLocked("pg_proc", "p.oid")} then pg_get_function_sqlbody(p.oid)
      when p.prosqlbody is null and not ${OF_EXTENSION} and l.lanname in ('sql', 'plpgsql') then p.prosrc
      when l.lanname = 'c' and p.provolatile <> 'v' and p.proname !~ '^(crosstab|connectby|xpath_)' then ''
    end || ' ' || pg_get_function_arguments(p.oid) || ' ' || format_type(p.prorettype, null) as text
  from pg_proc as p
  join pg_language as l on l.oid = p.prolang
  where p.oid >= ${FIRST_USER_OID} and p.prokind in ('f', 'p') and not (${OF_SERVICE})
  union all
  select p.proname, concat_ws(' ', pg_get_function_arguments(p.oid), a.aggtransfn, a.aggfinalfn, a.aggcombinefn,
    a.aggserialfn, a.aggdeserialfn, a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn)
  from pg_aggregate as a join pg_proc as p on p.oid = a.aggfnoid where p.oid >= ${FIRST_USER_OID}
  union all
  select p.proname, null from pg_proc as p
  where p.oid < ${FIRST_USER_OID} and (
    -- Locks of a transaction end with it.
    p.provolatile = 'v'
      and not starts_with(p.proname, 'pg_advisory_xact_lock') and not starts_with(p.proname, 'pg_try_advisory_xact_lock')
      and p.proname not in ('clock_timestamp', 'gen_random_uuid', 'pg_notify', 'random', 'timeofday', 'uuidv4', 'uuidv7')
    or ${RUN_UNNAMED_CODE}
  )
  union all
  select relname, null from pg_class where relkind = 'f' or oid in (select relation from locked)
  union all
  select c.relname, ${viewText("c.oid")} from pg_class as c where c.relkind = 'v' and c.oid >= ${FIRST_USER_OID}
  union all
  select c.relname, ${expression("p.polqual", "p.polrelid")}
  from pg_policy as p join pg_class as c on c.oid = p.polrelid where p.polcmd in ('r', '*')
  union all
  select c.relname, format_type(a.atttypid, null)
  from pg_class as c join pg_attribute as a on a.attrelid = c.oid
  where c.relkind in ('r', 'p', 'v', 'm') and a.attnum > 0 and a.atttypid >= ${FIRST_USER_OID}
  union all
  select c.relname, ${expression("d.adbin", "d.adrelid")}
  from pg_attrdef as d
  join pg_class as c on c.oid = d.adrelid
  join pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum and a.attgenerated = 'v'
  union all
  -- The planner evaluates calls of immutable functions in the expressions of indexes, statistics and partitions.
  select c.relname, concat_ws(' ', ${expression("i.indexprs", "i.indrelid")}, ${expression("i.indpred", "i.indrelid")})
  from pg_index as i join pg_class as c on c.oid = i.indrelid
  where i.indrelid >= ${FIRST_USER_OID} and (i.indexprs is not null or i.indpred is not null)
  union all
  select c.relname, ${unlocked("array_to_string(pg_get_statisticsobjdef_expressions(s.oid), ' ')", "c.oid")}
  from pg_statistic_ext as s join pg_class as c on c.oid = s.stxrelid where s.stxexprs is not null
  union all
  select c.relname, ${unlocked("pg_get_partkeydef(c.oid)", "c.oid")} from pg_class as c where c.relkind = 'p'
  union all
  select parent.relname, concat_ws(' ', child.relname, ${expression("k.conbin", "k.conrelid")})
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
  -- Comparisons call the functions of an operator class, which belongs to a type or is named by an index or a partitioned table.
  select o.opcname, p.amproc::regproc::text
  from pg_opclass as o join pg_amproc as p on p.amprocfamily = o.opcfamily where o.oid >= ${FIRST_USER_OID}
  union all
  select case when t.oid >= ${FIRST_USER_OID} then t.typname else '' end, o.opcname
  from pg_opclass as o join pg_type as t on t.oid = o.opcintype where o.oid >= ${FIRST_USER_OID} and o.opcdefault
  union all
  select c.relname, o.opcname
  from pg_index as i
  join pg_class as c on c.oid = i.indrelid
  join pg_opclass as o on o.oid = any (i.indclass) and o.oid >= ${FIRST_USER_OID}
  union all
  select o.oprname, o.oprcode::regproc::text from pg_operator as o where o.oid >= ${FIRST_USER_OID}
  union all
  select case when t.oid >= ${FIRST_USER_OID} then t.typname else '' end, c.castfunc::regproc::text
  from pg_cast as c join pg_type as t on t.oid in (c.castsource, c.casttarget)
  where c.oid >= ${FIRST_USER_OID} and c.castfunc <> 0
    and (t.oid >= ${FIRST_USER_OID} or greatest(c.castsource, c.casttarget) < ${FIRST_USER_OID})`;

// Types and indexes are in USED, because a statement that writes a table also names it. A write that reaches another table, for
// example through a foreign key, counts as a use of that table.
const WRITTEN = `
  select t.tgrelid as relation,
    concat_ws(' ', t.tgfoid::regproc, case when t.tgqual is not null then
      substring(${unlocked("pg_get_triggerdef(t.oid)", "t.tgrelid")} from ' WHEN \\((.*)\\) EXECUTE ') end) as text,
    null as written
  from pg_trigger as t where not t.tgisinternal
  union all
  -- Sequences leave state that only code can read.
  select d.adrelid, regexp_replace(${expression("d.adbin", "d.adrelid")}, '^nextval\\(''[^'']*''::regclass\\)$', ''), null
  from pg_attrdef as d
  union all
  select k.conrelid, ${expression("k.conbin", "k.conrelid")}, null from pg_constraint as k where k.contype = 'c'
  union all
  select p.polrelid, concat_ws(' ', ${expression("p.polqual", "p.polrelid")}, ${expression("p.polwithcheck", "p.polrelid")}), null
  from pg_policy as p
  union all
  select r.ev_class, null, null from pg_rewrite as r where r.ev_type <> '1'
  union all
  select i.indrelid, p.amproc::regproc::text, null
  from pg_index as i
  join pg_opclass as o on o.oid = any (i.indclass) and o.oid >= ${FIRST_USER_OID}
  join pg_amproc as p on p.amprocfamily = o.opcfamily
  union all
  select v.oid, '', ${viewText("v.oid")} from pg_class as v where v.relkind = 'v' and v.oid >= ${FIRST_USER_OID}
  union all
  select i.inhparent, i.inhrelid::regclass::text, i.inhrelid::regclass::text from pg_inherits as i
  union all
  select i.inhrelid, i.inhparent::regclass::text, i.inhparent::regclass::text from pg_inherits as i
  union all
  select k.conrelid, k.confrelid::regclass::text, null from pg_constraint as k where k.contype = 'f'
  union all
  select k.confrelid, k.conrelid::regclass::text,
    case when k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd') then k.conrelid::regclass::text end
  from pg_constraint as k where k.contype = 'f'`;

export const CODE = `
  select name, text, false as "isWrite", null as written from (${USED}) as used
  union all
  select p.proname, pg_get_function_arguments(p.oid), false, p.prosrc
  from pg_proc as p where p.oid >= ${FIRST_USER_OID} and ${OF_SERVICE}
  union all
  select c.relname, w.text, true, w.written
  from (${WRITTEN}) as w
  join pg_class as c on c.oid = w.relation
  where c.oid >= ${FIRST_USER_OID}
  order by name, text, "isWrite", written`;

/** Functions that may execute dynamic SQL, without those of extensions and of the service itself. */
export const EXECUTORS = `
  select p.oid::regprocedure::text as name
  from pg_proc as p
  where p.oid >= ${FIRST_USER_OID} and p.prosqlbody is null and p.prokind in ('f', 'p')
    and p.pronamespace not in (select oid from pg_namespace where nspname in ('graphile_worker', 'changes', 'auth_private'))
    and (p.pronamespace::regnamespace::text, p.proname) not in (
      ('internal', 'field_errors'), ('internal', 'add_user'), ('auth', 'use_hook'), ('auth', 'use_users'),
      ('auth', 'remove_user'))
    and not ${OF_EXTENSION}
    and (
      p.prolang not in (select oid from pg_language where lanname in ('sql', 'plpgsql', 'c', 'internal'))
      or p.prosrc ~* '\\m(execute|prepare|deallocate|discard)\\M'
    )
  order by name`;
