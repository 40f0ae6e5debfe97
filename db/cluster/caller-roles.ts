import type pg from "pg";

/** The roles that requests run with, and those that own what the service adds. */
const ROLES = ["anon", "authenticated", "admin", "service_role", "auth_owner", "tasks_owner", "changes_owner"];

type Found = { readonly name: string; readonly isSuperuser: boolean; readonly database: string };

/**
 * Rejects if a role of the service is a superuser, or owns the database: it was there before, such as the superuser `admin` that
 * POSTGRES_USER names. No policy would apply to the requests that run with it.
 */
export async function refusePrivilegedRoles(client: pg.Client): Promise<void> {
  const { rows } = await client.query<Found>(
    `select r.rolname as name, r.rolsuper as "isSuperuser", current_database() as database
     from pg_roles as r
     where r.rolname = any ($1) and (
       r.rolsuper or r.rolname = current_user or r.oid = (select datdba from pg_database where datname = current_database()))
     order by r.rolname`,
    [ROLES],
  );
  const [found] = rows;
  if (found === undefined) return;
  const { name, isSuperuser, database } = found;
  throw new Error(
    `the role ${name} ${isSuperuser ? "is a superuser" : `is the owner of the database ${database}, or the login of DATABASE_URL`}: ` +
      "the service uses the role of this name for requests, or for what it adds, and no policy would apply to them. As another superuser, " +
      `run: alter role ${name} rename to ${name}_login. Use the new name in DATABASE_URL; the start makes the role ${name}`,
  );
}
