import type pg from "pg";

/** The roles that requests run with, except the one that bypasses policies. */
const CALLERS = ["anon", "authenticated", "admin"];
/** Those, and the roles that own what the service adds. */
const ROLES = [...CALLERS, "service_role", "auth_owner", "tasks_owner", "changes_owner"];

type Found = {
  readonly name: string;
  /** Which role it is a member of; itself if it has the rights by itself. */
  readonly through: string;
  /** The role to which that one is granted, quoted for SQL: the first, or a role of which it is a member. */
  readonly holder: string;
  readonly isSuperuser: boolean;
  readonly isOwner: boolean;
  readonly database: string;
};

/**
 * Rejects if a role of the service is a superuser, owns the database, or bypasses policies: it was there before, such as the superuser
 * `admin` that POSTGRES_USER names. The same if a role of callers is a member of a superuser or owner: no policy of a table applies to
 * members of its owner. Members of a role with `bypassrls` do not bypass policies.
 */
export async function refusePrivilegedRoles(client: pg.Client): Promise<void> {
  const { rows } = await client.query<Found>(
    `with holders as (
       select oid as holder, oid as role from pg_roles where rolname = any ($1)
       union all
       select member, roleid from pg_auth_members)
     select r.rolname as name, o.rolname as through, h.holder::regrole::text as holder, o.rolsuper as "isSuperuser",
       is_owner as "isOwner", current_database() as database
     from pg_roles as r, holders as h join pg_roles as o on o.oid = h.role,
       lateral (select o.rolname = current_user
         or o.oid = (select datdba from pg_database where datname = current_database()) as is_owner) as owner
     where r.rolname = any ($1) and case
       when h.holder = h.role then r.oid = o.oid
         and (o.rolsuper or is_owner or (o.rolbypassrls and r.rolname = any ($2)))
       else r.rolname = any ($2) and not r.rolsuper and (o.rolsuper or is_owner) and pg_has_role(r.oid, h.holder, 'member') end
     order by h.holder <> h.role, h.holder <> r.oid, r.rolname, o.rolname`,
    [ROLES, CALLERS],
  );
  const [found] = rows;
  if (found !== undefined) throw new Error(`${causeOf(found)}. ${cureOf(found)}`);
}

function causeOf({ name, through, isSuperuser, isOwner, database }: Found): string {
  const owner = `the owner of the database ${database}, or the login of DATABASE_URL`;
  const what = isSuperuser ? "a superuser" : isOwner ? owner : null;
  const is =
    what === null
      ? "bypasses policies"
      : through === name
        ? `is ${what}`
        : `is a member of ${through}, which is ${what}`;
  return `the role ${name} ${is}: the service uses the role of this name for requests, or for what it adds, and no policy would apply to them`;
}

function cureOf({ name, through, holder, isSuperuser, isOwner }: Found): string {
  if (through !== name) return `As a superuser, run: revoke ${through} from ${holder}`;
  if (!isSuperuser && !isOwner) return `As a superuser, run: alter role ${name} nobypassrls`;
  return (
    `As another superuser, run: alter role ${name} rename to ${name}_login. ` +
    `Use the new name in DATABASE_URL; the start makes the role ${name}`
  );
}
