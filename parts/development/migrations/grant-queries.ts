/** Schemas whose objects are not described. */
export const LEFT_OUT = "content_service|graphile_migrate|graphile_worker";

/** Whether an object belongs to this project; `oid` is its number in the catalog `catalog`. */
export const isOurs = (namespace: string, catalog: string, oid: string) => `
  ${namespace}::regnamespace::text !~ '^(pg_.*|information_schema|${LEFT_OUT})$'
  and not exists (
    select from pg_depend as member
    where member.classid = '${catalog}'::regclass and member.objid = ${oid} and member.deptype = 'e')`;

/** `table`, as SQL names a relation. */
export const KIND_OF_RELATION = `
  case c.relkind when 'r' then 'table' when 'p' then 'table' when 'f' then 'foreign table' when 'v' then 'view'
    when 'm' then 'materialized view' when 'S' then 'sequence' when 'c' then 'type' end`;

type Grants = Readonly<Record<"on" | "acl" | "type" | "from" | "grantor" | "schema" | "owner" | "where", string>>;

/** The privileges of each grantee: `delete, select`. A null acl means the default, which is stored explicitly after a grant and a revoke. */
const grants = ({ on, acl, type, from, grantor, schema, owner, where }: Grants) => `
  select 'grants on' as kind, g.privileges as description, ${schema} as schema, ${owner} as owner,
    format('%s to %s', ${on}, case g.grantee when 0 then 'public' else g.grantee::regrole::text end) as name
  from ${from}
  cross join lateral (
    select grantee, string_agg(
      lower(privilege_type) || case when is_grantable then ' with grant option' else '' end, ', ' order by privilege_type
    ) as privileges
    from aclexplode(coalesce(${acl}, acldefault(${type}, ${grantor})))
    group by grantee
  ) as g
  where ${where}`;

/** Queries as those of objects, of the privileges on each object. */
export const GRANTS: Readonly<Record<string, string>> = {
  "grants on schema": grants({
    on: "'schema ' || n.oid::regnamespace",
    acl: "n.nspacl",
    type: "'n'",
    from: "pg_namespace as n",
    grantor: "n.nspowner",
    schema: "n.oid::regnamespace::text",
    owner: "n.oid::regnamespace::text",
    where: isOurs("n.oid", "pg_namespace", "n.oid"),
  }),

  "grants on relation": grants({
    on: `${KIND_OF_RELATION} || ' ' || c.oid::regclass`,
    acl: "c.relacl",
    type: `(case c.relkind when 'S' then 's' else 'r' end)::"char"`,
    from: "pg_class as c",
    grantor: "c.relowner",
    schema: "c.relnamespace::regnamespace::text",
    owner: "c.oid::regclass::text",
    where: `c.relkind in ('r', 'v', 'm', 'S', 'p', 'f') and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,
  }),

  "grants on column": grants({
    on: "format('column %s.%I', c.oid::regclass, a.attname)",
    acl: "a.attacl",
    type: "'c'",
    from: "pg_attribute as a join pg_class as c on c.oid = a.attrelid",
    grantor: "c.relowner",
    schema: "c.relnamespace::regnamespace::text",
    owner: "format('%s.%I', c.oid::regclass, a.attname)",
    where: `a.attacl is not null and a.attnum > 0 and not a.attisdropped and ${isOurs("c.relnamespace", "pg_class", "c.oid")}`,
  }),

  "grants on function": grants({
    on: "'function ' || p.oid::regprocedure",
    acl: "p.proacl",
    type: "'f'",
    from: "pg_proc as p",
    grantor: "p.proowner",
    schema: "p.pronamespace::regnamespace::text",
    owner: "p.oid::regprocedure::text",
    where: isOurs("p.pronamespace", "pg_proc", "p.oid"),
  }),

  "grants on type": grants({
    on: "'type ' || t.oid::regtype",
    acl: "t.typacl",
    type: "'T'",
    from: "pg_type as t left join pg_class as c on c.oid = t.typrelid",
    grantor: "t.typowner",
    schema: "t.typnamespace::regnamespace::text",
    owner: "t.oid::regtype::text",
    where: `coalesce(c.relkind, 'c') = 'c' and t.typcategory <> 'A' and ${isOurs("t.typnamespace", "pg_type", "t.oid")}`,
  }),
};
