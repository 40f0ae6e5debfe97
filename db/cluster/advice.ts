import type pg from "pg";

/** Functions that set a role: in their text, or with `alter function … set role`. Those of extensions are left out. */
const ROLE_SETTERS = `
  select p.oid::regprocedure::text as name
  from pg_proc as p
  left join pg_depend as d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
  where p.oid >= 16384 and d.objid is null and p.prokind in ('f', 'p')
    and (
      coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) ~* any (array[
        '\\mset\\s+((local|session)\\s+)?(role|session\\s+authorization)\\M',
        '\\mset_config\\s*\\(\\s*''(role|session_authorization)'''
      ])
      or exists (select from unnest(p.proconfig) as setting where setting ~ '^(role|session_authorization)=')
    )
  order by name`;

/** One warning per function that sets a role, with what to do. */
export async function adviceOnRoles(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(ROLE_SETTERS);
  return rows.map(
    ({ name }) =>
      `the function ${name} sets a role: its callers get the rights of that role until the end of the request. ` +
      "Make it security definer instead, owned by a role with only the rights that it needs",
  );
}
