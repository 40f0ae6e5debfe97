// Which objects of an application use modules.

/**
 * What `drop … cascade` would drop of the application. A dependent object in a schema of the modules is theirs, and so is a part of
 * their objects, such as an index. Policies are always of the application: the modules have none.
 */
export const DEPENDENTS = `
  with recursive edges as (
    select d.classid, d.objid, d.objsubid, d.refclassid, d.refobjid,
      not (
        d.classid <> 'pg_policy'::regclass and (d.deptype <> 'n' or home.schema = any ($1))
        or d.classid = 'pg_event_trigger'::regclass
          and exists (select from pg_event_trigger as e where e.oid = d.objid and e.evtname = any ($3))
        or d.classid = 'pg_trigger'::regclass
          and exists (
            select from pg_trigger as t
            where t.oid = d.objid and t.tgname = '_050_sign_up')
      ) as is_foreign
    from pg_depend as d
    cross join lateral pg_identify_object(d.classid, d.objid, d.objsubid) as identity
    cross join lateral pg_identify_object_as_address(d.classid, d.objid, d.objsubid) as address
    cross join lateral (select coalesce(identity.schema, address.object_names[1]) as schema) as home
    where d.deptype not in ('p', 'e', 'x') and d.objid <> 0
  ),
  own (classid, objid) as (
    select 'pg_namespace'::regclass::oid, oid from pg_namespace where nspname = any ($1)
    union
    select 'pg_proc'::regclass::oid, oid from pg_proc
    where pronamespace = to_regnamespace('auth') and proname = any ($2)
    union
    select e.classid, e.objid
    from own as o
    join edges as e on e.refclassid = o.classid and e.refobjid = o.objid
    where not e.is_foreign
  )
  select distinct
    pg_describe_object(e.classid, e.objid, e.objsubid) as object,
    case e.classid
      when 'pg_policy'::regclass then
        'select pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid) from pg_policy where oid = ' || e.objid
      when 'pg_rewrite'::regclass then 'select pg_get_ruledef(' || e.objid || ')'
      when 'pg_proc'::regclass then 'select pg_get_functiondef(' || e.objid || ')'
      when 'pg_constraint'::regclass then 'select pg_get_constraintdef(' || e.objid || ')'
      when 'pg_trigger'::regclass then 'select pg_get_triggerdef(' || e.objid || ')'
      when 'pg_attrdef'::regclass then
        'select pg_get_expr(adbin, adrelid) from pg_attrdef where oid = ' || e.objid
      when 'pg_class'::regclass then case
        when e.objsubid > 0 then
          'select format_type(atttypid, atttypmod) from pg_attribute where attrelid = ' || e.objid
            || ' and attnum = ' || e.objsubid
        when exists (select from pg_index as i where i.indexrelid = e.objid) then 'select pg_get_indexdef(' || e.objid || ')'
        else '' end
      else ''
    end as sql,
    coalesce(case e.classid
      when 'pg_policy'::regclass then
        (select format('drop policy %I on %s', polname, polrelid::regclass) from pg_policy where oid = e.objid)
      when 'pg_rewrite'::regclass then
        (select case when r.rulename = '_RETURN'
            then format('drop %s %s', case c.relkind when 'm' then 'materialized view' else 'view' end, c.oid::regclass)
            else format('drop rule %I on %s', r.rulename, c.oid::regclass) end
          from pg_rewrite as r join pg_class as c on c.oid = r.ev_class where r.oid = e.objid)
      when 'pg_proc'::regclass then
        (select format('drop %s %s', case prokind when 'p' then 'procedure' when 'a' then 'aggregate' else 'function' end,
          oid::regprocedure) from pg_proc where oid = e.objid)
      when 'pg_constraint'::regclass then
        (select case when conrelid <> 0 then format('alter table %s drop constraint %I', conrelid::regclass, conname)
            else format('alter domain %s drop constraint %I', contypid::regtype, conname) end
          from pg_constraint where oid = e.objid)
      when 'pg_trigger'::regclass then
        (select format('drop trigger %I on %s', tgname, tgrelid::regclass) from pg_trigger where oid = e.objid)
      when 'pg_attrdef'::regclass then
        (select format('alter table %s alter column %I drop %s', a.attrelid::regclass, a.attname,
            case a.attgenerated when '' then 'default' else 'expression' end)
          from pg_attrdef as d join pg_attribute as a on a.attrelid = d.adrelid and a.attnum = d.adnum where d.oid = e.objid)
      when 'pg_class'::regclass then case
        when e.objsubid > 0 then
          (select format('alter table %s alter column %I type %s', a.attrelid::regclass, a.attname, format_type(t.typbasetype, a.atttypmod))
            from pg_attribute as a join pg_type as t on t.oid = a.atttypid
            where a.attrelid = e.objid and a.attnum = e.objsubid and t.typtype = 'd')
        when exists (select from pg_index as i where i.indexrelid = e.objid) then format('drop index %s', e.objid::regclass) end
    end, '') as undo
  from own as o
  join edges as e on e.refclassid = o.classid and e.refobjid = o.objid
  where e.is_foreign and (e.classid, e.objid) not in (select classid, objid from own)
  order by object`;

/** Functions with a text as their body, which PostgreSQL reads only when they run. */
export const MENTIONS = `
  select pg_describe_object('pg_proc'::regclass, p.oid, 0) as object, 'select pg_get_functiondef(' || p.oid || ')' as sql,
    -- Without them the function is not called, and no write fails.
    coalesce((
      select string_agg(format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass), '; ' order by t.oid)
      from pg_trigger as t where t.tgfoid = p.oid and t.tgparentid = 0), '') as undo
  from pg_proc as p
  join pg_language as l on l.oid = p.prolang
  join pg_namespace as n on n.oid = p.pronamespace
  where l.lanname in ('sql', 'plpgsql') and p.prosrc ~ $2 and n.nspname <> all ($1)
  order by object`;

/** `\m(tasks|graphile_worker)\.`, or with `|\mauth\.(is_email|use_hook)\M` for what a module adds to `auth`. */
export function mentionOf(schemas: readonly string[], functions: readonly string[]): string {
  const added = functions.length > 0 ? `|\\mauth\\.(${functions.join("|")})\\M` : "";
  return `\\m(${schemas.join("|")})\\.${added}`;
}
