import type pg from "pg";

/**
 * What the roles of requests, and every role, would get on each new object of this login in every schema, with the statements that take
 * it away and give it back. Postgres itself lets every role use functions and types.
 */
const GRANTS = `
  select format('alter default privileges revoke %s on %s from %s', g.privilege_type, k.kind, r.name) as "revoke",
    format('alter default privileges grant %s on %s to %s', g.privilege_type, k.kind, r.name)
      || case when g.is_grantable then ' with grant option' else '' end as "grant"
  from pg_default_acl as d
  cross join lateral aclexplode(d.defaclacl) as g
  cross join lateral (select case d.defaclobjtype when 'r' then 'tables' when 'S' then 'sequences' when 'f' then 'functions'
    when 'T' then 'types' when 'n' then 'schemas' end as kind) as k
  cross join lateral (
    select case g.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(g.grantee)) end as name) as r
  where d.defaclnamespace = 0 and d.defaclrole = quote_ident(current_user)::regrole and k.kind is not null
    and g.grantee <> d.defaclrole
    and case g.grantee
      when 0 then d.defaclobjtype not in ('f', 'T')
      else exists (
        select from pg_roles as c
        where c.rolname in ('anon', 'authenticated', 'admin') and pg_has_role(c.oid, g.grantee, 'member'))
    end`;

/** Does the work in the open transaction so that the roles of requests get only what its statements grant. */
export async function withoutDefaultPrivileges(client: pg.ClientBase, work: () => Promise<void>): Promise<void> {
  const { rows } = await client.query<{ revoke: string; grant: string }>(GRANTS);
  for (const { revoke } of rows) await client.query(revoke);
  await work();
  for (const { grant } of rows) await client.query(grant);
}
