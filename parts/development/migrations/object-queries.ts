import { GRANTS, isOurs, KIND_OF_RELATION, LEFT_OUT } from "./grant-queries.ts";

/** Roles that no one can log in with, which migrations create. */
const ROLES = `(select rolname, oid from pg_roles where not rolcanlogin and rolname !~ '^pg_')`;

/** Whether a trigger runs, if it is not as usual. */
const enabled = (column: string) =>
  `case ${column} when 'O' then '' when 'D' then ', disabled' when 'A' then ', also on replicas' else ', only on replicas' end`;

/**
 * Each query selects `name` and `description`, and if there are any: `schema`, `owner`, the object to which it belongs, `place`, the number
 * of a column, and `kind`, instead of its key.
 */
export const OBJECTS: Readonly<Record<string, string>> = {
  role: `
    select r.rolname as name, concat_ws(', ',
      case when r.rolsuper then 'superuser' end, case when r.rolbypassrls then 'bypassrls' end,
      case when r.rolcreaterole then 'createrole' end, case when r.rolcreatedb then 'createdb' end,
      case when r.rolreplication then 'replication' end, case when not r.rolinherit then 'noinherit' end) as description
    from pg_roles as r
    join ${ROLES} as ours using (oid)`,

  // PostgreSQL 15 has no options of a membership but admin.
  membership: `
    select member.rolname || ' in ' || role.rolname as name,
      concat_ws(', ', case when m.admin_option then 'admin' end,
        case when coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, member.rolinherit) then 'inherit' end,
        case when coalesce((to_jsonb(m) ->> 'set_option')::boolean, true) then 'set' end) as description
    from pg_auth_members as m
    join ${ROLES} as role on role.oid = m.roleid
    join pg_roles as member on member.oid = m.member
    where not member.rolcanlogin or member.rolname = current_user`,

  setting: `
    select coalesce(r.rolname, 'every role') as name, array_to_string(s.setconfig, ', ') as description
    from pg_db_role_setting as s
    left join pg_roles as r on r.oid = s.setrole
    where s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
      and r.rolcanlogin is not true`,

  extension: `
    select extname as name, 'in schema ' || extnamespace::regnamespace as description,
      extnamespace::regnamespace::text as schema
    from pg_extension
    where extname <> 'plpgsql'`,

  schema: `
    select n.nspname as name, format('owner %s', n.nspowner::regrole) as description, n.oid::regnamespace::text as schema
    from pg_namespace as n
    where ${isOurs("n.oid", "pg_namespace", "n.oid")}`,

  "default acl of": `
    select format('%s in %s for type %s', d.defaclrole::regrole,
        case when d.defaclnamespace = 0 then 'every schema' else d.defaclnamespace::regnamespace::text end,
        d.defaclobjtype) as name,
      (select string_agg(item::text, ' ' order by item::text) from unnest(d.defaclacl) as item) as description,
      nullif(d.defaclnamespace, 0)::regnamespace::text as schema
    from pg_default_acl as d`,

  relation: `
    select ${KIND_OF_RELATION} as kind, c.oid::regclass::text as name, concat_ws(', ',
      case c.relkind when 'p' then 'partitioned' when 'c' then 'composite' end,
      case c.relpersistence when 'u' then 'unlogged' end,
      case when c.relispartition then 'partition ' || pg_get_expr(c.relpartbound, c.oid) end,
      case when q.seqrelid is not null then format('%s from %s by %s, %s to %s, cache %s',
        q.seqtypid::regtype, q.seqstart, q.seqincrement, q.seqmin, q.seqmax, q.seqcache) end,
      case when q.seqcycle then 'cycle' end,
      'owner ' || c.relowner::regrole,
      'with ' || array_to_string(c.reloptions, ', ')) as description,
      c.relnamespace::regnamespace::text as schema,
      (select format('%s.%I', d.refobjid::regclass, a.attname)
       from pg_depend as d join pg_attribute as a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
       where c.relkind = 'S' and d.classid = 'pg_class'::regclass and d.objid = c.oid
         and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i')) as owner
    from pg_class as c
    left join pg_sequence as q on q.seqrelid = c.oid
    where c.relkind in ('r', 'v', 'm', 'S', 'p', 'f', 'c') and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  "row-level security of": `
    select c.oid::regclass::text as name, concat_ws(', ', case when c.relrowsecurity then 'on' else 'off' end,
      case when c.relforcerowsecurity then 'forced' end) as description,
      c.relnamespace::regnamespace::text as schema, c.oid::regclass::text as owner
    from pg_class as c
    where c.relkind in ('r', 'p') and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  "replica identity of": `
    select c.oid::regclass::text as name, case c.relreplident when 'd' then 'default' when 'f' then 'full' when 'n' then 'nothing'
      else 'index ' || (select i.indexrelid::regclass from pg_index as i where i.indrelid = c.oid and i.indisreplident) end as description,
      c.relnamespace::regnamespace::text as schema, c.oid::regclass::text as owner
    from pg_class as c
    where c.relkind in ('r', 'p') and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  "definition of": `
    select c.oid::regclass::text as name, pg_get_viewdef(c.oid) as description,
      c.relnamespace::regnamespace::text as schema, c.oid::regclass::text as owner
    from pg_class as c
    where c.relkind in ('v', 'm') and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  // Columns are renumbered: a dropped column leaves a gap in attnum. An identity is one of the partitioned table: only since
  // PostgreSQL 17 its partitions have it too.
  column: `
    select format('%s.%I', c.oid::regclass, a.attname) as name, concat_ws(', ',
      format_type(a.atttypid, a.atttypmod),
      case when a.attnotnull then 'not null' end,
      case when not c.relispartition then case a.attidentity when 'a' then 'identity always' when 'd' then 'identity by default' end end,
      case a.attgenerated when '' then 'default ' else 'generated ' || a.attgenerated::text || ' ' end
        || pg_get_expr(d.adbin, d.adrelid),
      case when a.attcollation <> t.typcollation then 'collate ' || a.attcollation::regcollation end) as description,
      row_number() over (partition by c.oid order by a.attnum) as place,
      c.relnamespace::regnamespace::text as schema, c.oid::regclass::text as owner
    from pg_attribute as a
    join pg_class as c on c.oid = a.attrelid
    join pg_type as t on t.oid = a.atttypid
    left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attnum > 0 and not a.attisdropped
      and c.relkind in ('r', 'v', 'm', 'p', 'f', 'c') and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  // The column, or the domain, says whether it may be null. Before PostgreSQL 18 that is no constraint.
  constraint: `
    select format('%I on %s', o.conname,
        case when o.conrelid <> 0 then o.conrelid::regclass::text else o.contypid::regtype::text end) as name,
      pg_get_constraintdef(o.oid) as description,
      o.connamespace::regnamespace::text as schema,
      case when o.conrelid <> 0 then o.conrelid::regclass::text else o.contypid::regtype::text end as owner
    from pg_constraint as o
    where (o.contype <> 'n' or not o.convalidated) and ${isOurs("o.connamespace", "pg_constraint", "o.oid")}`,

  index: `
    select i.indexrelid::regclass::text as name,
      pg_get_indexdef(i.indexrelid) || case when i.indisvalid then '' else ', invalid' end as description,
      c.relnamespace::regnamespace::text as schema,
      case when o.oid is null then i.indrelid::regclass::text
        else format('%I on %s', o.conname, i.indrelid::regclass) end as owner
    from pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    left join pg_constraint as o on o.conindid = i.indexrelid and o.conrelid = i.indrelid and o.contype in ('p', 'u', 'x')
    where ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  function: `
    select p.oid::regprocedure::text as name, format('owner %s%s', p.proowner::regrole,
      case when p.prokind <> 'a' then e'\\n' || pg_get_functiondef(p.oid) end) as description,
      p.pronamespace::regnamespace::text as schema
    from pg_proc as p
    where ${isOurs("p.pronamespace", "pg_proc", "p.oid")}`,

  aggregate: `
    select a.aggfnoid::regprocedure::text as name,
      format('%s from %s of type %s, then %s',
        a.aggtransfn, a.agginitval, a.aggtranstype::regtype, a.aggfinalfn) as description,
      p.pronamespace::regnamespace::text as schema, p.oid::regprocedure::text as owner
    from pg_aggregate as a
    join pg_proc as p on p.oid = a.aggfnoid
    where ${isOurs("p.pronamespace", "pg_proc", "p.oid")}`,

  trigger: `
    select format('%I on %s', t.tgname, t.tgrelid::regclass) as name,
      pg_get_triggerdef(t.oid) || ${enabled("t.tgenabled")} as description,
      c.relnamespace::regnamespace::text as schema, c.oid::regclass::text as owner
    from pg_trigger as t
    join pg_class as c on c.oid = t.tgrelid
    where not t.tgisinternal and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  "event trigger": `
    select e.evtname as name, concat_ws(', ', 'on ' || e.evtevent, 'when ' || array_to_string(e.evttags, ' or '),
      'calls ' || e.evtfoid::regproc, 'owner ' || e.evtowner::regrole) || ${enabled("e.evtenabled")} as description,
      p.pronamespace::regnamespace::text as schema
    from pg_event_trigger as e
    join pg_proc as p on p.oid = e.evtfoid`,

  policy: `
    select format('%I on %s', p.polname, p.polrelid::regclass) as name, concat_ws(' ',
      case when p.polpermissive then 'permissive' else 'restrictive' end,
      case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete'
        else 'all' end,
      'to ' || (
        select string_agg(case role when 0 then 'public' else role::regrole::text end, ', ' order by role::regrole::text)
        from unnest(p.polroles) as role),
      'using ' || pg_get_expr(p.polqual, p.polrelid),
      'with check ' || pg_get_expr(p.polwithcheck, p.polrelid)) as description,
      c.relnamespace::regnamespace::text as schema, c.oid::regclass::text as owner
    from pg_policy as p
    join pg_class as c on c.oid = p.polrelid`,

  // Without arrays and row types, which exist with their element type or table. Composite types are relations too.
  type: `
    select t.oid::regtype::text as name, concat_ws(', ',
      case t.typtype when 'e' then 'enum' when 'd' then 'domain over ' || format_type(t.typbasetype, t.typtypmod)
        when 'r' then 'range' when 'm' then 'multirange' else 'base' end,
      (select string_agg(quote_literal(e.enumlabel), ' < ' order by e.enumsortorder)
       from pg_enum as e where e.enumtypid = t.oid),
      (select 'of ' || r.rngsubtype::regtype from pg_range as r where r.rngtypid = t.oid),
      case when t.typnotnull then 'not null' end,
      'default ' || t.typdefault,
      'owner ' || t.typowner::regrole) as description,
      t.typnamespace::regnamespace::text as schema
    from pg_type as t
    where t.typrelid = 0 and t.typcategory <> 'A' and ${isOurs("t.typnamespace", "pg_type", "t.oid")}`,

  publication: `
    select pubname as name, concat_ws(', ',
      case when pubinsert then 'insert' end, case when pubupdate then 'update' end, case when pubdelete then 'delete' end,
      case when pubtruncate then 'truncate' end, case when puballtables then 'all tables' end,
      case when pubviaroot then 'via the partitioned table' end) as description
    from pg_publication`,

  "published table": `
    select format('%s in publication %I', r.prrelid::regclass, p.pubname) as name, 'published' as description,
      c.relnamespace::regnamespace::text as schema, p.pubname as owner
    from pg_publication_rel as r
    join pg_publication as p on p.oid = r.prpubid
    join pg_class as c on c.oid = r.prrelid`,

  // Objects without a query above (operators, casts, statistics, …): only their existence.
  object: `
    select distinct o.identity as name, o.type as description, o.schema
    from pg_depend as d, pg_identify_object(d.classid, d.objid, 0) as o
    where d.objid >= 16384 and d.deptype <> 'e'
      and not d.classid = any (array['pg_class', 'pg_proc', 'pg_type', 'pg_constraint', 'pg_attrdef', 'pg_trigger',
        'pg_rewrite', 'pg_policy', 'pg_event_trigger', 'pg_namespace', 'pg_extension', 'pg_default_acl',
        'pg_publication', 'pg_publication_rel', 'pg_amop', 'pg_amproc']::regclass[])
      and not exists (
        select from pg_depend as member
        where member.classid = d.classid and member.objid = d.objid and member.deptype = 'e')
      and coalesce(o.schema, '') !~ '^(${LEFT_OUT})$'`,

  // Oids below 16384 are objects of initdb, which have comments themselves; of these only public gets our comment.
  "comment on": `
    select o.type || ' ' || named.name as name, d.description,
      case when o.type = 'schema' then o.identity else coalesce(o.schema, address.object_names[1]) end as schema,
      case when o.type ~ ' column$'
        then format('%I.%I.%I', address.object_names[1], address.object_names[2], address.object_names[3])
        else named.name end as owner
    from pg_description as d,
      pg_identify_object(d.classoid, d.objoid, d.objsubid) as o,
      pg_identify_object_as_address(d.classoid, d.objoid, d.objsubid) as address,
      -- The identity of a function names the schema of type json on some servers.
      lateral (
        select case when d.classoid = 'pg_proc'::regclass then d.objoid::regprocedure::text else o.identity end as name
      ) as named
    where (d.objoid >= 16384 or d.objoid = 'public'::regnamespace)
      and address.object_names[1] !~ '^(${LEFT_OUT})(\\.|$)'
      and not exists (
        select from pg_depend as member
        where member.classid = d.classoid and member.objid = d.objoid and member.deptype = 'e')`,

  ...GRANTS,
};
