import type { ClientBase } from "pg";

/**
 * Describes a database, one sorted entry per object: `column public.users.age: 4 integer, …`. The text of a function or
 * comment may span several lines. Two databases with the same description serve the same API.
 * Not described: system schemas, the tables of graphile-migrate and graphile-worker, the record of the modules, members of extensions, data, and
 * login roles. Empties the connection's search_path, so that every name is written with its schema.
 */
export async function describeDatabase(client: ClientBase): Promise<string[]> {
  await client.query("select set_config('search_path', '', false)");
  const lines: string[] = [];
  for (const [kind, text] of Object.entries(QUERIES)) {
    const { rows } = await client.query<{ name: string; description: string }>(text);
    lines.push(...rows.map(({ name, description }) => `${kind} ${name}: ${description}`));
  }
  return lines.sort();
}

/**
 * `- ` marks entries of the first description only, `+ ` entries of the second only, sorted by name. Empty if equal.
 */
export function differences(first: readonly string[], second: readonly string[]): string[] {
  const missing = first.filter((line) => !second.includes(line)).map((line) => `- ${line}`);
  const added = second.filter((line) => !first.includes(line)).map((line) => `+ ${line}`);
  return [...missing, ...added].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : Number(nameOf(a) > nameOf(b))));
}

const nameOf = (line: string) => line.slice(2, line.indexOf(": "));

/** A null acl means the default, which is stored explicitly after a grant and a revoke. */
const acl = (column: string, kind: string, owner: string) => `
  (select string_agg(item::text, ' ' order by item::text)
   from unnest(coalesce(${column}, acldefault('${kind}', ${owner}))) as item)`;

const ROLES = `(select rolname, oid from pg_roles where not rolcanlogin and rolname !~ '^pg_')`;

/** Whether an object belongs to this project; `oid` is its number in the catalog `catalog`. */
const isOurs = (namespace: string, catalog: string, oid: string) => `
  ${namespace}::regnamespace::text !~ '^(pg_.*|information_schema|content_service|graphile_migrate|graphile_worker)$'
  and not exists (
    select from pg_depend as member
    where member.classid = '${catalog}'::regclass and member.objid = ${oid} and member.deptype = 'e')`;

/** Each query selects a name and a description. */
const QUERIES: Readonly<Record<string, string>> = {
  role: `
    select r.rolname as name, concat_ws(', ',
      case when r.rolsuper then 'superuser' end, case when r.rolbypassrls then 'bypassrls' end,
      case when r.rolcreaterole then 'createrole' end, case when r.rolcreatedb then 'createdb' end,
      case when r.rolreplication then 'replication' end, case when not r.rolinherit then 'noinherit' end) as description
    from pg_roles as r
    join ${ROLES} as ours using (oid)`,

  membership: `
    select member.rolname || ' in ' || role.rolname as name,
      format('admin %s, inherit %s, set %s', m.admin_option, m.inherit_option, m.set_option) as description
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
    select extname as name, 'in schema ' || extnamespace::regnamespace as description
    from pg_extension
    where extname <> 'plpgsql'`,

  schema: `
    select n.nspname as name,
      format('owner %s, acl %s', n.nspowner::regrole, ${acl("n.nspacl", "n", "n.nspowner")}) as description
    from pg_namespace as n
    where ${isOurs("n.oid", "pg_namespace", "n.oid")}`,

  "default acl of": `
    select format('%s in %s for type %s', d.defaclrole::regrole,
        case when d.defaclnamespace = 0 then 'every schema' else d.defaclnamespace::regnamespace::text end,
        d.defaclobjtype) as name,
      ${acl("d.defaclacl", "r", "d.defaclrole")} as description
    from pg_default_acl as d`,

  relation: `
    select c.oid::regclass::text as name, concat_ws(', ',
      case c.relkind when 'r' then 'table' when 'p' then 'partitioned table' when 'f' then 'foreign table'
        when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' when 'c' then 'composite type' end,
      case c.relpersistence when 'u' then 'unlogged' end,
      case when c.relispartition then 'partition ' || pg_get_expr(c.relpartbound, c.oid) end,
      'owner ' || c.relowner::regrole,
      case when c.relrowsecurity then 'row-level security' end || case when c.relforcerowsecurity then ' forced' else '' end,
      'with ' || array_to_string(c.reloptions, ', '),
      case when c.relkind in ('r', 'p') then 'replica identity ' || c.relreplident::text end,
      'acl ' || case c.relkind when 'S' then ${acl("c.relacl", "s", "c.relowner")}
        else ${acl("c.relacl", "r", "c.relowner")} end,
      pg_get_viewdef(c.oid)) as description
    from pg_class as c
    where c.relkind in ('r', 'v', 'm', 'S', 'p', 'f', 'c') and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  sequence: `
    select s.seqrelid::regclass::text as name,
      format('%s from %s by %s, %s to %s, cache %s, cycle %s', s.seqtypid::regtype, s.seqstart, s.seqincrement,
        s.seqmin, s.seqmax, s.seqcache, s.seqcycle) as description
    from pg_sequence as s
    join pg_class as c on c.oid = s.seqrelid
    where ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  // Columns are renumbered: a dropped column leaves a gap in attnum.
  column: `
    select format('%s.%I', c.oid::regclass, a.attname) as name, concat_ws(', ',
      row_number() over (partition by c.oid order by a.attnum) || ' ' || format_type(a.atttypid, a.atttypmod),
      case when a.attnotnull then 'not null' end,
      case a.attidentity when 'a' then 'identity always' when 'd' then 'identity by default' end,
      case a.attgenerated when '' then 'default ' else 'generated ' || a.attgenerated::text || ' ' end
        || pg_get_expr(d.adbin, d.adrelid),
      case when a.attcollation <> t.typcollation then 'collate ' || a.attcollation::regcollation end,
      'acl ' || ${acl("a.attacl", "c", "c.relowner")}) as description
    from pg_attribute as a
    join pg_class as c on c.oid = a.attrelid
    join pg_type as t on t.oid = a.atttypid
    left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attnum > 0 and not a.attisdropped
      and c.relkind in ('r', 'v', 'm', 'p', 'f', 'c') and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  constraint: `
    select format('%I on %s', o.conname,
        case when o.conrelid <> 0 then o.conrelid::regclass::text else o.contypid::regtype::text end) as name,
      pg_get_constraintdef(o.oid) as description
    from pg_constraint as o
    where ${isOurs("o.connamespace", "pg_constraint", "o.oid")}`,

  index: `
    select i.indexrelid::regclass::text as name,
      pg_get_indexdef(i.indexrelid) || case when i.indisvalid then '' else ', invalid' end as description
    from pg_index as i
    join pg_class as c on c.oid = i.indexrelid
    where ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  function: `
    select p.oid::regprocedure::text as name, format('owner %s, acl %s%s', p.proowner::regrole,
      ${acl("p.proacl", "f", "p.proowner")},
      case when p.prokind <> 'a' then e'\\n' || pg_get_functiondef(p.oid) end) as description
    from pg_proc as p
    where ${isOurs("p.pronamespace", "pg_proc", "p.oid")}`,

  aggregate: `
    select a.aggfnoid::regprocedure::text as name,
      format('%s from %s of type %s, then %s',
        a.aggtransfn, a.agginitval, a.aggtranstype::regtype, a.aggfinalfn) as description
    from pg_aggregate as a
    join pg_proc as p on p.oid = a.aggfnoid
    where ${isOurs("p.pronamespace", "pg_proc", "p.oid")}`,

  trigger: `
    select format('%I on %s', t.tgname, t.tgrelid::regclass) as name,
      pg_get_triggerdef(t.oid) || ', enabled ' || t.tgenabled::text as description
    from pg_trigger as t
    join pg_class as c on c.oid = t.tgrelid
    where not t.tgisinternal and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,

  "event trigger": `
    select e.evtname as name, concat_ws(', ', 'on ' || e.evtevent, 'when ' || array_to_string(e.evttags, ' or '),
      'calls ' || e.evtfoid::regproc, 'owner ' || e.evtowner::regrole, 'enabled ' || e.evtenabled::text) as description
    from pg_event_trigger as e`,

  policy: `
    select format('%I on %s', p.polname, p.polrelid::regclass) as name, concat_ws(' ',
      case when p.polpermissive then 'permissive' else 'restrictive' end,
      case p.polcmd when 'r' then 'select' when 'a' then 'insert' when 'w' then 'update' when 'd' then 'delete'
        else 'all' end,
      'to ' || (
        select string_agg(case role when 0 then 'public' else role::regrole::text end, ', ' order by role::regrole::text)
        from unnest(p.polroles) as role),
      'using ' || pg_get_expr(p.polqual, p.polrelid),
      'with check ' || pg_get_expr(p.polwithcheck, p.polrelid)) as description
    from pg_policy as p`,

  // Without arrays and row types, which exist with their element type or table. Composite types are relations too.
  type: `
    select t.oid::regtype::text as name, concat_ws(', ',
      case t.typtype when 'e' then 'enum' when 'd' then 'domain over ' || format_type(t.typbasetype, t.typtypmod)
        when 'c' then 'composite' when 'r' then 'range' when 'm' then 'multirange' else 'base' end,
      (select string_agg(quote_literal(e.enumlabel), ' < ' order by e.enumsortorder)
       from pg_enum as e where e.enumtypid = t.oid),
      (select 'of ' || r.rngsubtype::regtype from pg_range as r where r.rngtypid = t.oid),
      case when t.typnotnull then 'not null' end,
      'default ' || t.typdefault,
      'owner ' || t.typowner::regrole,
      'acl ' || ${acl("t.typacl", "T", "t.typowner")}) as description
    from pg_type as t
    left join pg_class as c on c.oid = t.typrelid
    where coalesce(c.relkind, 'c') = 'c' and t.typcategory <> 'A' and ${isOurs("t.typnamespace", "pg_type", "t.oid")}`,

  publication: `
    select pubname as name, format('all tables %s, insert %s, update %s, delete %s, truncate %s, via root %s: %s',
      puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot,
      (select string_agg(r.prrelid::regclass::text, ' ' order by r.prrelid::regclass::text)
       from pg_publication_rel as r where r.prpubid = p.oid)) as description
    from pg_publication as p`,

  // Objects without a query above (operators, casts, statistics, …): only their existence.
  object: `
    select distinct o.identity as name, o.type as description
    from pg_depend as d, pg_identify_object(d.classid, d.objid, 0) as o
    where d.objid >= 16384 and d.deptype <> 'e'
      and not d.classid = any (array['pg_class', 'pg_proc', 'pg_type', 'pg_constraint', 'pg_attrdef', 'pg_trigger',
        'pg_rewrite', 'pg_policy', 'pg_event_trigger', 'pg_namespace', 'pg_extension', 'pg_default_acl',
        'pg_publication', 'pg_publication_rel', 'pg_amop', 'pg_amproc']::regclass[])
      and not exists (
        select from pg_depend as member
        where member.classid = d.classid and member.objid = d.objid and member.deptype = 'e')
      and coalesce(o.schema, '') not in ('content_service', 'graphile_migrate', 'graphile_worker')`,

  // Oids below 16384 are objects of initdb, which have comments themselves; of these only public gets our comment.
  "comment on": `
    select o.type || ' ' || o.identity as name, d.description
    from pg_description as d,
      pg_identify_object(d.classoid, d.objoid, d.objsubid) as o,
      pg_identify_object_as_address(d.classoid, d.objoid, d.objsubid) as address
    where (d.objoid >= 16384 or d.objoid = 'public'::regnamespace)
      and address.object_names[1] !~ '^(content_service|graphile_migrate|graphile_worker)(\\.|$)'
      and not exists (
        select from pg_depend as member
        where member.classid = d.classoid and member.objid = d.objoid and member.deptype = 'e')`,
};
