import pg from "pg";
import { MODULES, type Module } from "../modules/modules.ts";
import { quoteIdentifier } from "../sql.ts";
import { modulesFor } from "./foreign-auth.ts";
import { inTransaction, readModules } from "./modules.ts";
import { IS_MADE, loginName, MADE } from "./provision.ts";

/** An object of the application, `policy owners on table public.notes`, and a statement that shows it; "" if there is none. */
export type Dependent = { readonly object: string; readonly sql: string };

/** What stays after modules were removed: roles that something else uses. */
export type Removed = { readonly keptRoles: readonly string[] };

/** What keeps modules from being removed. */
export type Obstacles = {
  /** What would be dropped with them. */
  readonly dependents: readonly Dependent[];
  /** Functions whose text names their schemas: PostgreSQL does not know whether they use them. */
  readonly mentions: readonly Dependent[];
  /** Modules that stay and need them. */
  readonly neededBy: readonly string[];
  /** The connections of a service that runs. */
  readonly connections: number;
  /** The schemas that would be dropped. */
  readonly schemas: readonly string[];
};

/** Finds what keeps modules from being removed. */
export async function findObstacles(client: pg.Client, chosen: readonly Module[]): Promise<Obstacles> {
  return inTransaction(client, async () => {
    const modules = await asInstalled(client, chosen);
    // Names are then written with their schemas.
    await client.query("set local search_path = ''");
    const schemas = schemasOf(modules);
    const functions = modules.flatMap(({ callerFunctions }) => callerFunctions);
    const dependents = await client.query<Dependent>(DEPENDENTS, [schemas, functions, EVENT_TRIGGERS]);
    const mentions = await client.query<Dependent>(MENTIONS, [schemasOf(MODULES), mentionOf(schemas, functions)]);
    const connections = await client.query(
      "select count(*)::integer as count from pg_stat_activity where datname = current_database() and usename = any ($1)",
      [await loginsOf(client, MODULES)],
    );
    return {
      dependents: dependents.rows,
      mentions: mentions.rows,
      neededBy: await dependentModules(client, modules),
      connections: connections.rows[0].count,
      schemas: modules.flatMap((module) => module.schemas),
    };
  });
}

/** A schema `auth` of something else stays. */
const asInstalled = async (client: pg.Client, chosen: readonly Module[]): Promise<readonly Module[]> =>
  (await modulesFor(client)).filter(({ name }) => chosen.some((module) => module.name === name));

/** Every module needs `caller`, and no other one. */
async function dependentModules(client: pg.Client, removed: readonly Module[]): Promise<readonly string[]> {
  if (!removed.some(({ name }) => name === "caller")) return [];
  const installed = (await readModules(client, { modules: [] })).filter(({ version }) => version !== null);
  return installed.map(({ name }) => name).filter((name) => !removed.some((module) => module.name === name));
}

/**
 * What `drop … cascade` would drop of the application. A dependent object in a schema of the modules is theirs, and so is a part of
 * their objects, such as an index. Policies are always of the application: the modules have none.
 */
const DEPENDENTS = `
  with recursive edges as (
    select d.classid, d.objid, d.objsubid, d.refclassid, d.refobjid,
      not (
        d.classid <> 'pg_policy'::regclass and (d.deptype <> 'n' or home.schema = any ($1))
        or d.classid = 'pg_event_trigger'::regclass
          and exists (select from pg_event_trigger as e where e.oid = d.objid and e.evtname = any ($3))
        or d.classid = 'pg_trigger'::regclass
          and exists (
            select from pg_trigger as t
            where t.oid = d.objid and (t.tgname like '\\_500\\_outbox\\_%' or t.tgname = '_050_sign_up'))
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
    end as sql
  from own as o
  join edges as e on e.refclassid = o.classid and e.refobjid = o.objid
  where e.is_foreign and (e.classid, e.objid) not in (select classid, objid from own)
  order by object`;

/** Functions with a text as their body, which PostgreSQL reads only when they run. */
const MENTIONS = `
  select pg_describe_object('pg_proc'::regclass, p.oid, 0) as object, 'select pg_get_functiondef(' || p.oid || ')' as sql
  from pg_proc as p
  join pg_language as l on l.oid = p.prolang
  join pg_namespace as n on n.oid = p.pronamespace
  where l.lanname in ('sql', 'plpgsql') and p.prosrc ~ $2 and n.nspname <> all ($1)
  order by object`;

/** `\m(tasks|graphile_worker)\.`, or with `|\mauth\.(is_email|use_hook)\M` for what a module adds to `auth`. */
function mentionOf(schemas: readonly string[], functions: readonly string[]): string {
  const added = functions.length > 0 ? `|\\mauth\\.(${functions.join("|")})\\M` : "";
  return `\\m(${schemas.join("|")})\\.${added}`;
}

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
      return { keptRoles: await dropRoles(client, logins) };
    }
    return { keptRoles: await dropRoles(client, [...logins, ...(await rolesOfService(client))]) };
  });
}

async function dropPublication(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select evtname as name from pg_event_trigger where evtname = any ($1)",
    [EVENT_TRIGGERS],
  );
  for (const { name } of rows) await client.query(`drop event trigger ${quoteIdentifier(name)}`);
  await client.query("drop publication if exists content_changes");
}

const EVENT_TRIGGERS = ["announce_schema_change", "announce_schema_drop", "protect_published_writes"];

/** With `caller` the ledger goes. */
const schemasOf = (modules: readonly Module[]): readonly string[] =>
  modules.flatMap(({ name, schemas }) => (name === "caller" ? [...schemas, "content_service"] : schemas));

/** The logins of modules in this database that the service has made. */
async function loginsOf(client: pg.Client, modules: readonly Module[]): Promise<readonly string[]> {
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
async function dropRoles(client: pg.Client, roles: readonly string[]): Promise<readonly string[]> {
  const kept: string[] = [];
  for (const role of roles) {
    const { rowCount } = await client.query(
      `select from pg_auth_members as m join pg_roles as r on r.oid = m.roleid join pg_roles as u on u.oid = m.member
       where r.rolname = $1 and u.rolname <> current_user
       union all
       select from pg_db_role_setting as s join pg_roles as r on r.oid = s.setrole
       where r.rolname = $1 and s.setdatabase <> (select oid from pg_database where datname = current_database())`,
      [role],
    );
    if (rowCount! > 0 || !(await dropRole(client, role))) kept.push(role);
  }
  return kept;
}

/** Returns whether it could be dropped. */
async function dropRole(client: pg.Client, role: string): Promise<boolean> {
  const { rows } = await client.query<{ name: string }>("select current_database() as name");
  const name = quoteIdentifier(role);
  await client.query("savepoint role");
  try {
    await client.query(`revoke connect on database ${quoteIdentifier(rows[0]!.name)} from ${name}`);
    await client.query(`drop role ${name}`);
    return true;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError)) throw error;
    await client.query("rollback to savepoint role");
    return false;
  }
}
