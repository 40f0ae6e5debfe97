import pg from "pg";
import { MODULES, type Module } from "../modules/modules.ts";
import { quoteIdentifier } from "../sql.ts";
import { modulesFor } from "./foreign-auth.ts";
import { inTransaction } from "./modules.ts";
import { IS_MADE, loginName, MADE } from "./provision.ts";

export type KeptRole = { readonly name: string; readonly uses: readonly string[] };

/** What stays after modules were removed. */
export type Removed = {
  /** Roles that something else uses, each with that, such as `privileges for schema public`. */
  readonly keptRoles: readonly KeptRole[];
  /** Tables that roles may use without seeing a row: they have row-level security and no policy. */
  readonly closedTables: readonly string[];
};

/** A schema `auth` of something else stays. */
export const asInstalled = async (client: pg.Client, chosen: readonly Module[]): Promise<readonly Module[]> =>
  (await modulesFor(client)).filter(({ name }) => chosen.some((module) => module.name === name));

/**
 * Removes modules with everything in their schemas, their rows in the ledger, their logins, and, with `caller`, the ledger and the
 * roles that the service has made. A role that something else uses stays. The application must have nothing that depends on them.
 */
export async function removeModules(client: pg.Client, chosen: readonly Module[]): Promise<Removed> {
  return inTransaction(client, async () => {
    const modules = await asInstalled(client, chosen);
    const has = (name: Module["name"]) => modules.some((module) => module.name === name);
    if (has("feed")) await dropPublication(client);
    // A start also makes the logins of modules that it does not use.
    const logins = await loginsOf(client, has("caller") ? MODULES : modules);
    await client.query(`drop schema if exists ${schemasOf(modules).map(quoteIdentifier).join(", ")} cascade`);
    const { rows } = await client.query<{ signature: string }>(
      "select oid::regprocedure::text as signature from pg_proc where pronamespace = to_regnamespace('auth') and proname = any ($1)",
      [modules.flatMap(({ callerFunctions }) => callerFunctions)],
    );
    for (const { signature } of rows) await client.query(`drop function ${signature} cascade`);
    if (!has("caller")) {
      await client.query("delete from content_service.modules where module = any ($1)", [
        modules.map(({ name }) => name),
      ]);
      return { keptRoles: await dropRoles(client, logins), closedTables: await closedTables(client) };
    }
    const keptRoles = await dropRoles(client, [...logins, ...(await rolesOfService(client))]);
    return { keptRoles, closedTables: await closedTables(client) };
  });
}

async function closedTables(client: pg.Client): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    `
    select format('%I.%I', n.nspname, c.relname) as name
    from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
    where c.relrowsecurity and not exists (select from pg_policy as p where p.polrelid = c.oid) and n.nspname <> all ($1)
      and exists (
        select
        from (
          select acl from (values (c.relacl)) as own (acl)
          union all
          select attacl from pg_attribute where attrelid = c.oid and attacl is not null
        ) as granted, aclexplode(granted.acl) as g
        left join pg_roles as r on r.oid = g.grantee
        where not coalesce(pg_has_role(r.oid, c.relowner, 'usage') or r.rolbypassrls, false))
    order by name`,
    [schemasOf(MODULES)],
  );
  return rows.map(({ name }) => name);
}

async function dropPublication(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select evtname as name from pg_event_trigger where evtname = any ($1)",
    [EVENT_TRIGGERS],
  );
  for (const { name } of rows) await client.query(`drop event trigger ${quoteIdentifier(name)}`);
  await client.query("drop publication if exists content_changes");
}

export const EVENT_TRIGGERS = ["announce_schema_change", "announce_schema_drop", "protect_published_writes"];

/** With `caller` the ledger goes. */
export const schemasOf = (modules: readonly Module[]): readonly string[] =>
  modules.flatMap(({ name, schemas }) => (name === "caller" ? [...schemas, "content_service"] : schemas));

/** The logins of modules in this database that the service has made. */
export async function loginsOf(client: pg.Client, modules: readonly Module[]): Promise<readonly string[]> {
  const { rows: here } = await client.query<{ name: string }>("select current_database() as name");
  const names = modules.flatMap(({ logins }) => logins.map((kind) => loginName(here[0]!.name, kind)));
  const { rows } = await client.query<{ name: string }>(
    `select r.rolname as name from pg_roles as r where r.rolname = any ($1) and ${IS_MADE} order by r.rolname`,
    [names],
  );
  return rows.map(({ name }) => name);
}

/** Those of roles.sql. Logins of other databases have the same comment. */
const OF_CLUSTER = ["anon", "authenticated", "admin", "service_role", "auth_owner", "tasks_owner", "changes_owner"];

/** The roles that roles.sql has made: it marks them with a comment. */
async function rolesOfService(client: pg.Client): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    `select rolname as name from pg_roles
     where shobj_description(oid, 'pg_authid') = $1 and rolname = any ($2)
     -- admin is a member of authenticated.
     order by rolname = 'authenticated', rolname`,
    [MADE, OF_CLUSTER],
  );
  return rows.map(({ name }) => name);
}

/**
 * Drops the roles that nothing uses: PostgreSQL keeps one with rights or policies in any database of the server, and this function one
 * with a member, or with settings elsewhere than in this database. Returns those that are kept.
 */
async function dropRoles(client: pg.Client, roles: readonly string[]): Promise<readonly KeptRole[]> {
  const kept: KeptRole[] = [];
  for (const name of roles) {
    const { rows } = await client.query<{ use: string }>(
      `select 'its member ' || u.rolname as use
       from pg_auth_members as m join pg_roles as r on r.oid = m.roleid join pg_roles as u on u.oid = m.member
       where r.rolname = $1 and u.rolname <> current_user
       union all
       select coalesce('settings in the database ' || d.datname, 'settings in all databases')
       from pg_db_role_setting as s join pg_roles as r on r.oid = s.setrole left join pg_database as d on d.oid = s.setdatabase
       where r.rolname = $1 and d.datname is distinct from current_database()`,
      [name],
    );
    const uses = rows.length > 0 ? rows.map(({ use }) => use) : await dropRole(client, name);
    if (uses.length > 0) kept.push({ name, uses });
  }
  return kept;
}

/** Returns what uses the role; nothing if it was dropped. */
async function dropRole(client: pg.Client, role: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>("select current_database() as name");
  const name = quoteIdentifier(role);
  await client.query("savepoint role");
  try {
    await client.query(`revoke connect on database ${quoteIdentifier(rows[0]!.name)} from ${name}`);
    await client.query(`drop role ${name}`);
    return [];
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error;
    await client.query("rollback to savepoint role");
    return (error.detail ?? error.message).split("\n");
  }
}
