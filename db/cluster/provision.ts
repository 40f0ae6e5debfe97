import { createHash } from "node:crypto";
import type pg from "pg";
import { MODULE_NAMES, type ModuleName } from "../../config/modules.ts";
import { quoteIdentifier } from "../sql.ts";
import { withClient } from "./client.ts";
import { isOtherPassword, LOCK, passwordOf, passwordStatement } from "./login-passwords.ts";

/** A role for changes without credentials. If it is not open, no login may become it. */
export type Editor = { readonly role: string; readonly isOpen: boolean };

/** Connection strings of the login roles: one per pool, so that no pool can assume the roles of another. */
export type Logins = {
  /** Becomes anon or authenticated, by the caller's token, and the editors that are open. */
  readonly data: string;
  /** Becomes admin, so that no function that others may call can become it. */ readonly admin: string;
  /** Becomes service_role only. */ readonly service: string;
  /** Executes auth_api only. */ readonly auth: string;
  /** Becomes tasks_owner only. */ readonly tasks: string;
  /** Reads committed changes by replication. */ readonly changes: string;
};

export type Kind = keyof Logins;

/** One login for everything. */
export const loginsAt = (url: string): Logins => ({
  ...{ data: url, admin: url, service: url },
  ...{ auth: url, tasks: url, changes: url },
});

const MEMBER_OF: Record<Kind, readonly string[]> = {
  data: ["anon", "authenticated"],
  admin: ["admin"],
  service: ["service_role"],
  auth: [],
  tasks: ["tasks_owner"],
  changes: ["changes_owner"],
};

const KINDS = Object.keys(MEMBER_OF) as Kind[];

/** The names of all logins of a database. */
export const loginNames = (database: string): readonly string[] => KINDS.map((kind) => loginName(database, kind));

/** The comment of roles that the service has made, here and in db/modules/caller/roles.sql. */
export const MADE = "Made by Content Service.";

/** Whether the service has made the role `r`, for a query. Its first versions made logins without the comment, but with a setting. */
export const IS_MADE = `(
  shobj_description(r.oid, 'pg_authid') is not distinct from '${MADE}'
  or exists (
    select from pg_db_role_setting as s join pg_database as d on d.oid = s.setdatabase
    where s.setrole = r.oid and d.datname = current_database() and 'search_path=public, extensions' = any (s.setconfig)))`;

/**
 * Rejects if a login of the application has the name of one that the service would make: it would get another password. A role that
 * cannot log in may have been created before a backup was restored.
 */
export async function refuseForeignLogins(client: pg.Client): Promise<void> {
  const { rows: here } = await client.query<{ name: string }>("select current_database() as name");
  const { rows } = await client.query<{ name: string; sql: string }>(
    `select r.rolname as name, quote_ident(r.rolname) as sql from pg_roles as r
     where r.rolname = any ($1) and r.rolcanlogin and not ${IS_MADE} order by r.rolname`,
    [loginNames(here[0]!.name)],
  );
  if (rows.length === 0) return;
  const names = rows.map(({ name }) => name).join(", ");
  const comments = rows.map(({ sql }) => `comment on role ${sql} is '${MADE}';`).join(" ");
  throw new Error(
    `the service makes logins for the database ${here[0]!.name}, and does not take over those that it has not made: ${names}. ` +
      `Rename them, or the database. If nothing uses them, let the service have them: ${comments}`,
  );
}

/**
 * Creates the login roles of this database, or updates their passwords, and returns their connection strings.
 * Roles belong to the whole server, so their names begin with the database's name. Passwords are derived from `secret`.
 * `owner` creates them; they connect to `serviceUrl`, which may be a pooler. Anonymous callers have `anonymousRole`.
 */
export async function provisionLogins(
  owner: pg.Client,
  serviceUrl: string,
  secret: string,
  editors: readonly Editor[] = [],
  anonymousRole = "anon",
  recentSignIn = 600,
  modules: readonly ModuleName[] = MODULE_NAMES,
): Promise<Logins> {
  const { rows } = await owner.query<{ name: string }>("select current_database() as name");
  if (modules.includes("auth")) await storeSetting(owner, "recent_sign_in", recentSignIn);
  const options = { database: rows[0]!.name, serviceUrl, secret, modules, editors, anonymousRole };
  return {
    data: await createLogin(owner, "data", options),
    admin: await createLogin(owner, "admin", options),
    service: await createLogin(owner, "service", options),
    auth: await createLogin(owner, "auth", options),
    tasks: await createLogin(owner, "tasks", options),
    changes: await createLogin(owner, "changes", options),
  };
}

/** The same connection strings, without a change of the database, and the names of the logins that it does not have. */
export async function findLogins(
  owner: pg.Client,
  serviceUrl: string,
  secret: string,
): Promise<{ readonly logins: Logins; readonly missing: readonly string[] }> {
  const { rows: here } = await owner.query<{ name: string }>("select current_database() as name");
  const names = loginNames(here[0]!.name);
  const { rows } = await owner.query<{ name: string }>(
    "select name from unnest($1::text[]) as name where not exists (select from pg_roles where rolname = name) order by name",
    [names],
  );
  const urls = KINDS.map((kind, i) => [kind, urlOf(names[i]!, serviceUrl, secret)]);
  return { logins: Object.fromEntries(urls) as Logins, missing: rows.map(({ name }) => name) };
}

/** Stores a setting that functions of the database read. */
const storeSetting = (client: pg.Client, name: string, value: number) =>
  client.query(
    `insert into auth_private.settings as s values ($1, $2)
     on conflict (name) do update set value = excluded.value where s.value <> excluded.value`,
    [name, value],
  );

type LoginOptions = {
  readonly database: string;
  readonly serviceUrl: string;
  readonly secret: string;
  readonly modules: readonly ModuleName[];
  readonly editors: readonly Editor[];
  readonly anonymousRole: string;
};

/** Creates or updates one login role and returns its connection string. */
async function createLogin(client: pg.Client, kind: Kind, options: LoginOptions): Promise<string> {
  const { database, serviceUrl, secret } = options;
  const role = loginName(database, kind);
  const url = urlOf(role, serviceUrl, secret);
  await provision(client, { ...options, role, url, password: passwordOf(role, secret), kind });
  return url;
}

function urlOf(role: string, serviceUrl: string, secret: string): string {
  return Object.assign(new URL(serviceUrl), {
    username: encodeURIComponent(role),
    password: passwordOf(role, secret),
  }).href;
}

type Login = Pick<LoginOptions, "database" | "modules" | "editors" | "anonymousRole"> & {
  readonly role: string;
  readonly url: string;
  readonly password: string;
  readonly kind: Kind;
};

/** Rethrows. PostgreSQL says only `permission denied`. */
const explain =
  ({ user }: pg.Client) =>
  (error: pg.DatabaseError): never => {
    if (error.code !== "42501") throw error;
    throw new Error(
      `${user} lacks createrole: a start makes the logins of the service, or renews their passwords. As a superuser of the server, ` +
        `run: alter role ${quoteIdentifier(user!)} createrole. Or set MIGRATE=check, with which a start changes nothing`,
      { cause: error },
    );
  };

async function provision(client: pg.Client, login: Login): Promise<void> {
  const { database, role, password, kind, modules, editors, anonymousRole } = login;
  const name = quoteIdentifier(role);
  await client.query("begin");
  await client.query(LOCK);
  const { rows } = await client.query<{ comment: string | null; isFixed: boolean }>(
    `select shobj_description(r.oid, 'pg_authid') as comment,
       r.rolreplication and not owner.rolsuper and current_setting('server_version_num')::integer < 160000 as "isFixed"
     from pg_roles as r, pg_roles as owner where r.rolname = $1 and owner.rolname = current_user`,
    [role],
  );
  if (rows.length === 0) await client.query(`create role ${name} noinherit`).catch(explain(client));
  if (rows[0]?.comment !== MADE) await client.query(`comment on role ${name} is '${MADE}'`);
  if (rows[0]?.isFixed) await checkFixed(role, login.url);
  else await client.query(passwordStatement(role, password)).catch(explain(client));
  const inDatabase = `alter role ${name} in database ${quoteIdentifier(database)} set`;
  await client.query(`${inDatabase} search_path = public, extensions`);
  // The service reads some messages. Only superusers may choose their language.
  await client.query(
    `do $do$ begin if (select rolsuper from pg_roles where rolname = current_user) then ${inDatabase} lc_messages = 'C'; end if; end $do$`,
  );
  await client.query(`grant connect on database ${quoteIdentifier(database)} to ${name}`);
  for (const parent of MEMBER_OF[kind]) await client.query(`grant ${quoteIdentifier(parent)} to ${name}`);
  for (const editor of editors) {
    if (kind === "data" && editor.isOpen) await client.query(`grant ${quoteIdentifier(editor.role)} to ${name}`);
    else await revoke(client, editor.role, role);
  }
  if (kind === "data") await revoke(client, "admin", role);
  if (kind === "data") await letOwnerBecome(client, role);
  if (kind === "data" && modules.includes("tasks")) await grantTasks(client, anonymousRole, role);
  if (kind === "auth" && modules.includes("auth")) {
    await client.query(`grant usage on schema auth_api to ${name}`);
    await client.query(`grant execute on all functions in schema auth_api to ${name}`);
  }
  await client.query("commit");
}

/** Before PostgreSQL 16 only a superuser may change a login with the attribute replication, such as its password. */
async function checkFixed(role: string, url: string): Promise<void> {
  await withClient(url, async () => {}).catch((error: Error) => {
    if (!isOtherPassword(error)) throw error;
    throw new Error(
      `the login ${role} has another password, perhaps because JWT_SECRET has changed, and before PostgreSQL 16 only a superuser may ` +
        `change a login with the attribute replication: let one run alter role ${quoteIdentifier(role)} noreplication, start the service, ` +
        `and then let a superuser run alter role ${quoteIdentifier(role)} replication`,
    );
  });
}

/** Commands of the owner read the schema with the rights of callers. Since PostgreSQL 16 the creator of a role may not act as it. */
async function letOwnerBecome(client: pg.Client, login: string): Promise<void> {
  const { rows } = await client.query<{ may: boolean }>(
    `select pg_has_role($1,
       case when current_setting('server_version_num')::integer >= 160000 then 'set' else 'member' end) as may`,
    [login],
  );
  if (!rows[0]!.may) await client.query(`grant ${quoteIdentifier(login)} to current_user`);
}

/**
 * Grants an anonymous role other than `anon` the rights that `anon` has on tasks. The DBA grants its other rights. A role
 * that has not been granted to the login gets nothing.
 */
async function grantTasks(client: pg.Client, role: string, login: string): Promise<void> {
  const { rows } = await client.query<{ signature: string }>(
    `select f.oid::regprocedure::text as signature from pg_proc as f, pg_roles as r
     where f.pronamespace = 'tasks'::regnamespace and has_function_privilege('anon', f.oid, 'execute')
       and r.rolname = $1 and r.rolname <> 'anon' and pg_has_role($2::name, r.oid, 'member')`,
    [role, login],
  );
  if (rows.length === 0) return;
  const name = quoteIdentifier(role);
  await client.query(`grant usage on schema tasks to ${name}`);
  await client.query(`grant execute on function ${rows.map(({ signature }) => signature).join(", ")} to ${name}`);
}

/** Since PostgreSQL 16 a revoke affects the grants of one grantor, and the service may have run with another owner. */
async function revoke(client: pg.Client, role: string, login: string): Promise<void> {
  const { rows } = await client.query<{ grantor: string }>(
    `select pg_get_userbyid(grantor) as grantor from pg_auth_members
     where roleid = (select oid from pg_roles where rolname = $1) and member = (select oid from pg_roles where rolname = $2)`,
    [role, login],
  );
  for (const { grantor } of rows) {
    const names = [login, grantor].map(quoteIdentifier);
    const text = `revoke ${quoteIdentifier(role)} from ${names[0]} granted by ${names[1]}`;
    await client.query(text).catch((error: Error) => {
      throw new Error(`before the start a superuser, or the role ${grantor}, must run: ${text}`, { cause: error });
    });
  }
}

/** The logins that take on the roles of callers, for the owner. With MIGRATE=off, its own login does. */
export async function loginsOfCallers(
  owner: Pick<pg.ClientBase, "query">,
  { isManaged }: { readonly isManaged: boolean },
): Promise<readonly string[]> {
  const { rows } = await owner.query<{ database: string; login: string }>(
    "select current_database() as database, current_user as login",
  );
  const { database, login } = rows[0]!;
  return isManaged ? [loginName(database, "data"), loginName(database, "admin")] : [login];
}

/** `content` → `content_data`; a name longer than 63 bytes is replaced by a hash. */
export function loginName(database: string, kind: Kind): string {
  const name = `${database}_${kind}`;
  if (Buffer.byteLength(name) <= 63) return name;
  return `${createHash("sha256").update(database).digest("hex").slice(0, 40)}_${kind}`;
}
