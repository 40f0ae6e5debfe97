/** The objects of one kind, as SQL. */
type Source = {
  /** If not the key. */
  readonly kind?: string;
  readonly name: string;
  /** What it is, without its name. */
  readonly text: string;
  /** Its schema, and the object without which it does not exist. */
  readonly in?: string;
  /** Its catalog, oid and column, for comments. */
  readonly id?: string;
  /** The number of a column. */
  readonly place?: string;
  readonly acl?: string;
  readonly from: string;
};

/** Of a part of a table or view. */
const PART = "c.schema, c.name";

/** Whether a trigger runs, if it is not as usual. */
const enabled = (column: string) =>
  `case ${column} when 'O' then '' when 'D' then ', disabled' when 'A' then ', also on replicas' else ', only on replicas' end`;

/** A null acl means the default, which is stored explicitly after a grant and a revoke. */
const acl = (column: string, type: string, grantor: string) => `coalesce(${column}, acldefault(${type}, ${grantor}))`;

const SOURCES: Readonly<Record<string, Source>> = {
  role: {
    name: "r.rolname",
    text: `concat_ws(', ', case when r.rolsuper then 'superuser' end, case when r.rolbypassrls then 'bypassrls' end,
      case when r.rolcreaterole then 'createrole' end, case when r.rolcreatedb then 'createdb' end,
      case when r.rolreplication then 'replication' end, case when not r.rolinherit then 'noinherit' end)`,
    from: "role as r",
  },
  membership: {
    name: "member.rolname || ' in ' || r.rolname",
    // PostgreSQL 15 has no options of a membership but admin.
    text: `concat_ws(', ', case when m.admin_option then 'admin' end,
      case when coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, member.rolinherit) then 'inherit' end,
      case when coalesce((to_jsonb(m) ->> 'set_option')::boolean, true) then 'set' end)`,
    from: `pg_auth_members as m join role as r on r.oid = m.roleid join pg_roles as member on member.oid = m.member
      where not member.rolcanlogin or member.rolname = current_user`,
  },
  setting: {
    name: "coalesce(r.rolname, 'every role')",
    text: "array_to_string(s.setconfig, ', ')",
    from: `pg_db_role_setting as s left join pg_roles as r on r.oid = s.setrole
      where s.setdatabase in (0, (select oid from pg_database where datname = current_database())) and r.rolcanlogin is not true`,
  },
  extension: {
    name: "extname",
    text: "'in schema ' || extnamespace::regnamespace",
    in: "extnamespace::regnamespace::text, null",
    id: "'pg_extension'::regclass, oid, 0",
    from: "pg_extension where extname <> 'plpgsql'",
  },
  schema: {
    name: "n.name",
    text: "'owner ' || n.nspowner::regrole",
    in: "n.name, null",
    id: "'pg_namespace'::regclass, n.oid, 0",
    acl: acl("n.nspacl", "'n'", "n.nspowner"),
    from: "schema as n",
  },
  "default acl of": {
    name: `format('%s in %s for type %s', d.defaclrole::regrole,
      case when d.defaclnamespace = 0 then 'every schema' else d.defaclnamespace::regnamespace::text end, d.defaclobjtype)`,
    text: "(select string_agg(item::text, ' ' order by item::text) from unnest(d.defaclacl) as item)",
    in: "nullif(d.defaclnamespace, 0)::regnamespace::text, null",
    from: "pg_default_acl as d",
  },
  relation: {
    kind: "c.kind",
    name: "c.name",
    text: `concat_ws(', ', case c.relkind when 'p' then 'partitioned' when 'c' then 'composite' end,
        case c.relpersistence when 'u' then 'unlogged' end,
        case when c.relispartition then 'partition ' || pg_get_expr(c.relpartbound, c.oid) end,
        (select format('%s from %s by %s, %s to %s, cache %s%s', q.seqtypid::regtype, q.seqstart, q.seqincrement, q.seqmin, q.seqmax,
          q.seqcache, case when q.seqcycle then ', cycle' end) from pg_sequence as q where q.seqrelid = c.oid),
        'owner ' || c.relowner::regrole, 'with ' || array_to_string(c.reloptions, ', '),
        case when c.relrowsecurity then 'row-level security' end, case when c.relforcerowsecurity then 'forced' end,
        'replica identity ' || case when c.kind = 'table' then case c.relreplident when 'f' then 'full' when 'n' then 'nothing'
          when 'i' then (select i.indexrelid::regclass::text from pg_index as i where i.indrelid = c.oid and i.indisreplident) end end)
      || case when c.relkind in ('v', 'm') then e'\\n' || pg_get_viewdef(c.oid) else '' end`,
    in: `c.schema, (
      select format('%s.%I', d.refobjid::regclass, a.attname)
      from pg_depend as d join pg_attribute as a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
      where c.relkind = 'S' and d.classid = 'pg_class'::regclass and d.objid = c.oid
        and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i'))`,
    id: "'pg_class'::regclass, c.oid, 0",
    acl: `case c.relkind when 'c' then (select ${acl("t.typacl", "'T'", "t.typowner")} from pg_type as t where t.oid = c.reltype)
      else ${acl("c.relacl", `(case c.relkind when 'S' then 's' else 'r' end)::"char"`, "c.relowner")} end`,
    from: "relation as c",
  },
  // Columns are renumbered: a dropped column leaves a gap in attnum. An identity is one of the partitioned table: only since
  // PostgreSQL 17 its partitions have it too.
  column: {
    name: "format('%s.%I', c.name, a.attname)",
    text: `concat_ws(', ', format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
      case when not c.relispartition then case a.attidentity when 'a' then 'identity always' when 'd' then 'identity by default' end end,
      case a.attgenerated when '' then 'default ' else 'generated ' || a.attgenerated::text || ' ' end || pg_get_expr(d.adbin, d.adrelid),
      case when a.attcollation <> t.typcollation then 'collate ' || a.attcollation::regcollation end)`,
    in: PART,
    id: "'pg_class'::regclass, c.oid, a.attnum",
    place: "row_number() over (partition by c.oid order by a.attnum)",
    acl: "a.attacl",
    from: `relation as c join pg_attribute as a on a.attrelid = c.oid join pg_type as t on t.oid = a.atttypid
      left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attnum > 0 and not a.attisdropped and c.relkind <> 'S'`,
  },
  // The column, or the domain, says whether it may be null. Before PostgreSQL 18 that is no constraint.
  constraint: {
    name: "format('%I on %s', o.conname, coalesce(c.name, o.contypid::regtype::text))",
    text: "pg_get_constraintdef(o.oid)",
    in: "n.name, coalesce(c.name, o.contypid::regtype::text)",
    id: "'pg_constraint'::regclass, o.oid, 0",
    from: `pg_constraint as o join schema as n on n.oid = o.connamespace left join relation as c on c.oid = o.conrelid
      where o.contype <> 'n' or not o.convalidated`,
  },
  index: {
    name: "i.indexrelid::regclass::text",
    text: "pg_get_indexdef(i.indexrelid) || case when i.indisvalid then '' else ', invalid' end",
    in: "c.schema, case when o.oid is null then c.name else format('%I on %s', o.conname, c.name) end",
    id: "'pg_class'::regclass, i.indexrelid, 0",
    from: `pg_index as i join relation as c on c.oid = i.indrelid
      left join pg_constraint as o on o.conindid = i.indexrelid and o.conrelid = i.indrelid and o.contype in ('p', 'u', 'x')`,
  },
  function: {
    name: "p.oid::regprocedure::text",
    text: `'owner ' || p.proowner::regrole || case when p.prokind <> 'a' then e'\\n' || pg_get_functiondef(p.oid)
      else format(', aggregate from %s by %s to %s, then %s', a.agginitval, a.aggtransfn, a.aggtranstype::regtype, a.aggfinalfn) end`,
    in: "n.name, null",
    id: "'pg_proc'::regclass, p.oid, 0",
    acl: acl("p.proacl", "'f'", "p.proowner"),
    from: "pg_proc as p join schema as n on n.oid = p.pronamespace left join pg_aggregate as a on a.aggfnoid = p.oid",
  },
  trigger: {
    name: "format('%I on %s', t.tgname, c.name)",
    text: `pg_get_triggerdef(t.oid) || ${enabled("t.tgenabled")}`,
    in: PART,
    id: "'pg_trigger'::regclass, t.oid, 0",
    from: "pg_trigger as t join relation as c on c.oid = t.tgrelid where not t.tgisinternal",
  },
  "event trigger": {
    name: "e.evtname",
    text: `concat_ws(', ', 'on ' || e.evtevent, 'when ' || array_to_string(e.evttags, ' or '),
      'calls ' || e.evtfoid::regproc, 'owner ' || e.evtowner::regrole) || ${enabled("e.evtenabled")}`,
    in: "p.pronamespace::regnamespace::text, null",
    id: "'pg_event_trigger'::regclass, e.oid, 0",
    from: "pg_event_trigger as e join pg_proc as p on p.oid = e.evtfoid",
  },
  policy: {
    name: "format('%I on %s', p.polname, c.name)",
    text: `concat_ws(' ', case when p.polpermissive then 'permissive' else 'restrictive' end,
      case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete' else 'all' end,
      'to ' || (
        select string_agg(case role when 0 then 'public' else role::regrole::text end, ', ' order by role::regrole::text)
        from unnest(p.polroles) as role),
      'using ' || pg_get_expr(p.polqual, p.polrelid), 'with check ' || pg_get_expr(p.polwithcheck, p.polrelid))`,
    in: PART,
    id: "'pg_policy'::regclass, p.oid, 0",
    from: "pg_policy as p join relation as c on c.oid = p.polrelid",
  },
  // Without arrays and row types, which exist with their element type or table. Composite types are relations.
  type: {
    name: "t.oid::regtype::text",
    text: `concat_ws(', ', case t.typtype when 'e' then 'enum' when 'd' then 'domain over ' || format_type(t.typbasetype, t.typtypmod)
        when 'r' then 'range' when 'm' then 'multirange' else 'base' end,
      (select string_agg(quote_literal(e.enumlabel), ' < ' order by e.enumsortorder) from pg_enum as e where e.enumtypid = t.oid),
      (select 'of ' || r.rngsubtype::regtype from pg_range as r where r.rngtypid = t.oid),
      case when t.typnotnull then 'not null' end, 'default ' || t.typdefault, 'owner ' || t.typowner::regrole)`,
    in: "n.name, null",
    id: "'pg_type'::regclass, t.oid, 0",
    acl: acl("t.typacl", "'T'", "t.typowner"),
    from: "pg_type as t join schema as n on n.oid = t.typnamespace where t.typrelid = 0 and t.typcategory <> 'A'",
  },
  publication: {
    name: "pubname",
    text: `concat_ws(', ', case when pubinsert then 'insert' end, case when pubupdate then 'update' end,
      case when pubdelete then 'delete' end, case when pubtruncate then 'truncate' end,
      case when puballtables then 'all tables' end, case when pubviaroot then 'via the partitioned table' end)`,
    from: "pg_publication",
  },
  "published table": {
    name: "format('%s in publication %I', c.oid::regclass, p.pubname)",
    text: "'published'",
    in: "c.relnamespace::regnamespace::text, p.pubname",
    from: `pg_publication_rel as r join pg_publication as p on p.oid = r.prpubid join pg_class as c on c.oid = r.prrelid`,
  },
  // Objects without an entry above (operators, casts, statistics, …): only their existence.
  object: {
    name: "o.identity",
    text: "o.type",
    in: "o.schema, null",
    id: "d.classid, d.objid, 0",
    from: `(select distinct classid, objid from pg_depend where objid >= 16384) as d, pg_identify_object(d.classid, d.objid, 0) as o
      where not d.classid = any (array['pg_class', 'pg_proc', 'pg_type', 'pg_constraint', 'pg_attrdef', 'pg_trigger', 'pg_rewrite',
        'pg_policy', 'pg_event_trigger', 'pg_namespace', 'pg_extension', 'pg_default_acl', 'pg_publication', 'pg_publication_rel',
        'pg_amop', 'pg_amproc']::regclass[])`,
  },
};

/** Objects whose schema has such a name are left out. */
const LEFT_OUT = "^(pg_.*|information_schema|content_service|graphile_migrate|graphile_worker)$";

/** Selects the objects of a database, and the grants and comments on each. */
export const OBJECTS = `
  with schema as (
    select *, oid::regnamespace::text as name from pg_namespace where nspname !~ '${LEFT_OUT}'
  ),
  -- Those that no one can log in with, which migrations create.
  role as (
    select * from pg_roles where not rolcanlogin and rolname !~ '^pg_'
  ),
  relation as (
    select c.*, c.oid::regclass::text as name, n.name as schema, case c.relkind when 'f' then 'foreign table' when 'v' then 'view'
      when 'm' then 'materialized view' when 'S' then 'sequence' when 'c' then 'type' else 'table' end as kind
    from pg_class as c join schema as n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'f', 'v', 'm', 'S', 'c')
  ),
  every (kind, name, description, place, schema, owner, class, oid, part, acl) as (${Object.entries(SOURCES)
    .map(
      ([key, source]) => `
    select ${source.kind ?? `'${key}'`}, ${source.name}::text, ${source.text}, ${source.place ?? "null::int"}, ${source.in ?? "null, null"},
      ${source.id ?? "null::oid, null::oid, 0"}, ${source.acl ?? "null::aclitem[]"}
    from ${source.from}`,
    )
    .join("\n    union all")}
  ),
  object as (
    select * from every as o
    where coalesce(schema, '') !~ '${LEFT_OUT}'
      and not exists (select from pg_depend as d where d.classid = o.class and d.objid = o.oid and d.deptype = 'e')
  )
  select kind, name, description, place::int, schema, owner from object
  union all
  select 'grants on', format('%s %s to %s', kind, name, case g.grantee when 0 then 'public' else g.grantee::regrole::text end),
    string_agg(lower(g.privilege_type) || case when g.is_grantable then ' with grant option' else '' end, ', ' order by g.privilege_type),
    null, schema, name
  from object, aclexplode(acl) as g
  group by kind, name, schema, g.grantee
  union all
  select 'comment on', kind || ' ' || name, d.description, null, schema, name
  from object join pg_description as d on d.classoid = class and d.objoid = oid and d.objsubid = part`;
