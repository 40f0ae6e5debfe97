import pg from "pg";
import { beforeAll, describe, expect, test } from "vitest";
import { type Logins, provisionLogins } from "../../db/cluster/provision.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

const OURS = "('public', 'auth', 'internal', 'auth_api', 'auth_private')";
const API_ROLES = "('anon', 'authenticated', 'admin', 'users_editor', 'service_role')";

/** Rules for the whole database: a query for exceptions, a change that violates the rule, and the exceptions it causes. */
const RULES: readonly (readonly [rule: string, exceptions: string, breach: string, found: string[]])[] = [
  [
    "every table has row-level security",
    `select c.oid::regclass as name from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
     where (n.nspname in ${OURS} or n.nspname = 'tasks') and c.relkind in ('r', 'p') and not c.relrowsecurity`,
    "create table public.open (id int); create table tasks.open (id int)",
    ["open", "tasks.open"],
  ],
  [
    "every view reads with the privileges of the caller, except that of security events, which only the service may read",
    `select c.oid::regclass as name from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
     where n.nspname in ${OURS} and c.relkind in ('v', 'm')
       and not (c.oid = 'public.security_events'::regclass and c.relacl::text ~ '^{postgres=\\w+/postgres,service_role=r/postgres}$')
       and not exists (
       select from pg_options_to_table(c.reloptions) where option_name = 'security_invoker' and option_value::boolean)`,
    `create view public.all_users as select * from users;
     create view public.own_users with (security_invoker) as select * from users;
     create materialized view public.kept_users as select * from users`,
    ["all_users", "kept_users"],
  ],
  [
    "every security definer function belongs to auth_owner and has its search_path pinned",
    `select p.oid::regprocedure as name from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
     where n.nspname in ${OURS} and p.prosecdef
       and (p.proowner <> 'auth_owner'::regrole or coalesce(array_to_string(p.proconfig, ','), '') !~ '^search_path=""$')`,
    `create function auth_api.one() returns int language sql security definer return 1;
     alter function auth_api.one() owner to auth_owner;
     create function auth_api.two() returns int language sql security definer set search_path = '' return 2`,
    ["auth_api.one()", "auth_api.two()"],
  ],
  [
    "auth_owner and tasks_owner have no special privileges",
    `select rolname as name from pg_roles where rolname in ('auth_owner', 'tasks_owner')
     and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb or rolreplication or rolcanlogin
       or exists (select from pg_auth_members where member = pg_roles.oid))`,
    "grant service_role to auth_owner, tasks_owner",
    ["auth_owner", "tasks_owner"],
  ],
  [
    "no role of the API is a superuser, may log in or create roles or databases; only the service bypasses policies",
    `select rolname as name from pg_roles where rolname in ${API_ROLES}
     and (rolsuper or rolcanlogin or rolcreaterole or rolcreatedb or rolreplication
       or rolbypassrls <> (rolname = 'service_role'))`,
    "alter role anon bypassrls",
    ["anon"],
  ],
  [
    "no role of the API is a member of another, except admin of authenticated",
    `select m.member::regrole as name from pg_auth_members as m join pg_roles as r on r.oid = m.member
     where r.rolname in ${API_ROLES} and (r.rolname, m.roleid::regrole::text) <> ('admin', 'authenticated')`,
    "grant service_role to authenticated; grant pg_read_all_data to admin",
    ["admin", "authenticated"],
  ],
  [
    "no function is executable by PUBLIC",
    `select p.oid::regprocedure as name from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
     where (n.nspname in ${OURS} or n.nspname = 'tasks') and exists (
       select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) where grantee = 0)`,
    `grant execute on function auth.uid() to public; create function public.more() returns int return 1`,
    ["auth.uid()"],
  ],
  [
    "nothing in our schemas is granted to PUBLIC",
    `select c.oid::regclass::text as name from pg_class as c join pg_namespace as n on n.oid = c.relnamespace,
       aclexplode(c.relacl) as granted
     where n.nspname in ${OURS} and granted.grantee = 0
     union all
     select n.nspname from pg_namespace as n, aclexplode(n.nspacl) as granted
     where n.nspname in ${OURS} and granted.grantee = 0`,
    "grant select on users to public; grant usage on schema internal to public",
    ["internal", "users"],
  ],
  [
    "no role of the API may use auth_private, auth_api or the queue of tasks",
    `select role || ' in ' || schema as name
     from unnest(array['anon', 'authenticated', 'admin', 'users_editor', 'service_role']) as role,
       unnest(array['auth_private', 'auth_api', 'graphile_worker']) as schema
     where has_schema_privilege(role, schema, 'usage') or has_schema_privilege(role, schema, 'create')`,
    "grant usage on schema auth_api to authenticated",
    ["admin in auth_api", "authenticated in auth_api"],
  ],
  [
    "callers may execute only functions of auth that are for them",
    `select role || ' ' || p.oid::regprocedure as name
     from unnest(array['anon', 'authenticated', 'admin', 'users_editor', 'service_role']) as role, pg_proc as p
     where p.pronamespace = 'auth'::regnamespace and has_function_privilege(role, p.oid, 'execute')
       and p.proname not in ('claims', 'uid', 'is_admin', 'jwt', 'role', 'email', 'is_email', 'has_recent_sign_in', 'require_recent_sign_in')
       and not (role = 'service_role' and p.proname = 'remove_user')`,
    "grant execute on function auth.use_hook(text, regprocedure) to authenticated",
    ["admin auth.use_hook(text,regprocedure)", "authenticated auth.use_hook(text,regprocedure)"],
  ],
  [
    "every object of tasks belongs to tasks_owner, its functions have their search_path pinned, and callers may execute only those for callers",
    `select oid::regprocedure::text as name from pg_proc
     where pronamespace = 'tasks'::regnamespace and (
       proowner <> 'tasks_owner'::regrole
       or coalesce(array_to_string(proconfig, ','), '') !~ '^search_path=""$'
       or has_function_privilege('authenticated', oid, 'execute')
         and (not prosecdef or proname not in ('accept', 'find', 'list', 'cancel', 'keep_result', 'finish')))
     union all
     select oid::regclass::text from pg_class
     where relnamespace = 'tasks'::regnamespace and relowner <> 'tasks_owner'::regrole`,
    `create function tasks.one() returns int language sql set search_path = '' return 1;
     create function tasks.two() returns int language sql return 2; alter function tasks.two() owner to tasks_owner;
     create table tasks.other (id int); grant execute on function tasks.settle(uuid, integer) to authenticated;
     revoke all on function tasks.one(), tasks.two() from public`,
    ["tasks.one()", "tasks.other", "tasks.settle(uuid,integer)", "tasks.two()"],
  ],
  [
    "what belongs to an account is deleted with it, and an account with its user",
    `select conname as name from pg_constraint
     where contype = 'f' and confdeltype <> 'c' and (
       confrelid in ('auth_private.accounts'::regclass, 'auth_private.sessions'::regclass)
       or conrelid = 'auth_private.accounts'::regclass)`,
    "alter table auth_private.factors add column by auth.user_id references auth_private.accounts on delete set null",
    ["factors_by_fkey"],
  ],
  [
    "an editor of users has privileges only on users, and no other role may become one",
    `select c.oid::regclass::text as name from pg_class as c, aclexplode(c.relacl) as granted
     where granted.grantee = 'users_editor'::regrole and c.oid <> 'public.users'::regclass
     union all
     select p.oid::regprocedure::text from pg_proc as p, aclexplode(p.proacl) as granted
     where granted.grantee = 'users_editor'::regrole and p.oid <> all (array['internal.user_text(text, text)', 'auth.is_email(text)',
       'internal.has_text(text)']::regprocedure[])
     union all
     select m.member::regrole::text from pg_auth_members as m
     where m.roleid = 'users_editor'::regrole and not (select rolcanlogin from pg_roles where oid = m.member)`,
    "grant select on articles to users_editor; grant execute on function auth.uid() to users_editor; grant users_editor to anon",
    ["anon", "articles", "auth.uid()"],
  ],
  [
    "no role of the API has privileges in auth_private, on seeds or on tasks",
    `select c.oid::regclass as name from pg_class as c, aclexplode(c.relacl) as granted
     where c.relnamespace in ('auth_private'::regnamespace, 'internal'::regnamespace, 'tasks'::regnamespace)
       and granted.grantee::regrole::text not in ('auth_owner', 'tasks_owner', 'postgres')`,
    "grant select on auth_private.accounts, tasks.tasks to service_role",
    ["auth_private.accounts", "tasks.tasks"],
  ],
  [
    "no role of the API may create objects in a schema",
    `select role || ' in ' || nspname as name
     from unnest(array['anon', 'authenticated', 'admin', 'users_editor', 'service_role', 'auth_owner']) as role, pg_namespace
     where nspname in ('public', 'auth', 'internal', 'extensions') and has_schema_privilege(role, oid, 'create')`,
    "grant create on schema public to public",
    [
      "admin in public",
      "anon in public",
      "auth_owner in public",
      "authenticated in public",
      "service_role in public",
      "users_editor in public",
    ],
  ],
  [
    "only the service may truncate tables, and no role of the API may create triggers or references",
    `select role || ' ' || c.oid::regclass as name
     from unnest(array['anon', 'authenticated', 'admin', 'users_editor']) as role, pg_class as c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm')
       and has_table_privilege(role, c.oid, 'truncate, references, trigger')`,
    "grant all on comments to anon",
    ["anon comments"],
  ],
  [
    "insert and update are granted by column",
    `select role || ' ' || c.oid::regclass as name
     from unnest(array['anon', 'authenticated', 'admin', 'users_editor']) as role, pg_class as c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v')
       and has_table_privilege(role, c.oid, 'insert, update')`,
    "grant insert on comments to authenticated",
    ["admin comments", "authenticated comments"],
  ],
  [
    "every schema of the project has a comment",
    `select nspname as name from pg_namespace
     where nspname in ${OURS} and obj_description(oid, 'pg_namespace') is null`,
    "comment on schema auth is null",
    ["auth"],
  ],
  [
    "every table, view and column of public has a comment",
    `select c.oid::regclass::text || coalesce('.' || a.attname, '') as name
     from pg_class as c
     left join lateral (
       select 0 as attnum, null as attname
       union all
       select attnum, attname from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped
     ) as a on true
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'c')
       and not (c.relkind = 'c' and a.attnum = 0) -- a type, see below
       and (case a.attnum when 0 then obj_description(c.oid, 'pg_class') else col_description(c.oid, a.attnum) end) is null`,
    `create table public.notes (id int, text text); comment on column notes.id is 'Its number.';
     create type public.pair as (x int, y int)`,
    ["notes", "notes.text", "pair.x", "pair.y"],
  ],
  [
    "every function of public has a comment",
    `select oid::regprocedure as name from pg_proc
     where pronamespace = 'public'::regnamespace and obj_description(oid, 'pg_proc') is null`,
    "create function public.one() returns int return 1",
    ["one()"],
  ],
  [
    "every type of public has a comment",
    `select t.oid::regtype as name from pg_type as t left join pg_class as c on c.oid = t.typrelid
     where t.typnamespace = 'public'::regnamespace and t.typcategory <> 'A' and coalesce(c.relkind, 'c') = 'c'
       and obj_description(t.oid, 'pg_type') is null`,
    "create type public.mood as enum ('good'); create domain public.percent as int; create type public.pair as (x int)",
    ["mood", "pair", "percent"],
  ],
  [
    "every check, foreign key and unique index of public, except primary keys, has a comment: the client's message",
    `select conname as name from pg_constraint
     where connamespace = 'public'::regnamespace and contype in ('c', 'f', 'x', 'u') and conrelid <> 0
       and obj_description(oid, 'pg_constraint') is null
     union all
     select c.relname from pg_index as i join pg_class as c on c.oid = i.indexrelid
     where c.relnamespace = 'public'::regnamespace and i.indisunique and obj_description(c.oid, 'pg_class') is null
       and not exists (select from pg_constraint where conindid = c.oid)`,
    `alter table users add constraint users_not_me check (name <> 'me'); create unique index users_name_key on users (name)`,
    ["users_name_key", "users_not_me"],
  ],
  [
    "every foreign key declares its action on delete",
    `select conname as name from pg_constraint
     where connamespace::regnamespace::text in ${OURS} and contype = 'f' and confdeltype = 'a'`,
    "alter table users add column boss_id bigint references users; create index on users (boss_id)",
    ["users_boss_id_fkey"],
  ],
  [
    "every foreign key has an index that begins with its columns",
    `select o.conname as name from pg_constraint as o
     where o.connamespace::regnamespace::text in ${OURS} and o.contype = 'f' and not exists (
       select from pg_index as i
       where i.indrelid = o.conrelid and i.indpred is null
         and (i.indkey::int2[])[0:cardinality(o.conkey) - 1] @> o.conkey)`,
    `alter table users add column boss_id bigint references users on delete set null, add column text text;
     create index on users (text, boss_id)`,
    ["users_boss_id_fkey"],
  ],
  [
    "every policy except those for reading names its roles",
    `select polname as name from pg_policy where polroles = '{0}' and polcmd <> 'r'`,
    "create policy anything on users using (true)",
    ["anything"],
  ],
];

describe.each(RULES)("%s", (_rule, exceptions, breach, found) => {
  const names = async () => {
    const { rows } = await database.owner.query(`select name::text from (${exceptions}) as found order by 1`);
    return rows.map(({ name }) => name);
  };

  test("is true", async () => expect(await names()).toEqual([]));

  test("is not true after a change that violates it", async () => {
    await database.owner.query("begin");
    try {
      await database.owner.query(breach);
      expect(await names()).toEqual(found);
    } finally {
      await database.owner.query("rollback");
    }
  });
});

describe("the login roles", () => {
  let logins: Logins;
  const open: Partial<Record<keyof Logins, pg.Client>> = {};

  beforeAll(async () => {
    logins = await provisionLogins(database.owner, database.url, "a secret for the tests of roles");
    for (const kind of ["data", "admin", "service", "auth"] as const) {
      open[kind] = new pg.Client(logins[kind]);
      await open[kind].connect();
    }
    return async () => {
      for (const client of Object.values(open)) await client.end();
      for (const kind of Object.keys(logins)) {
        await database.owner.query(`drop owned by ${database.name}_${kind}`);
        await database.owner.query(`drop role ${database.name}_${kind}`);
      }
    };
  });

  /** The SQLSTATE of the first of these statements that is refused, or "done". */
  async function attempt(kind: keyof Logins, ...statements: string[]): Promise<string> {
    await open[kind]!.query("begin");
    try {
      for (const statement of statements) await open[kind]!.query(statement);
      return "done";
    } catch (error) {
      return (error as pg.DatabaseError).code!;
    } finally {
      await open[kind]!.query("rollback");
    }
  }

  test("are not superusers, may not create roles or databases, do not bypass policies and inherit nothing", async () => {
    const { rows } = await database.owner.query(
      `select rolname, rolsuper or rolcreaterole or rolcreatedb or rolreplication or rolbypassrls or rolinherit as special
       from pg_roles where rolname like $1 order by 1`,
      [`${database.name}\\_%`],
    );
    expect(rows).toEqual([
      { rolname: `${database.name}_admin`, special: false },
      { rolname: `${database.name}_auth`, special: false },
      { rolname: `${database.name}_changes`, special: false },
      { rolname: `${database.name}_data`, special: false },
      { rolname: `${database.name}_service`, special: false },
      { rolname: `${database.name}_tasks`, special: false },
    ]);
  });

  test.each([
    ["data", "anon", "done"],
    ["data", "authenticated", "done"],
    ["data", "admin", "42501"],
    ["data", "users_editor", "42501"],
    ["data", "service_role", "42501"],
    ["data", "auth_owner", "42501"],
    ["data", "postgres", "42501"],
    ["data", "pg_read_all_data", "42501"],
    ["admin", "admin", "done"],
    ["admin", "service_role", "42501"],
    ["admin", "users_editor", "42501"],
    ["admin", "auth_owner", "42501"],
    ["admin", "postgres", "42501"],
    ["service", "service_role", "done"],
    ["service", "anon", "42501"],
    ["service", "authenticated", "42501"],
    ["service", "admin", "42501"],
    ["service", "users_editor", "42501"],
    ["service", "auth_owner", "42501"],
    ["service", "postgres", "42501"],
    ["auth", "anon", "42501"],
    ["auth", "authenticated", "42501"],
    ["auth", "admin", "42501"],
    ["auth", "users_editor", "42501"],
    ["auth", "service_role", "42501"],
    ["auth", "auth_owner", "42501"],
    ["auth", "postgres", "42501"],
  ] as const)("%s becomes %s: %s", async (kind, role, expected) => {
    expect(await attempt(kind, `set local role ${role}`)).toBe(expected);
    expect(await attempt(kind, `select set_config('role', '${role}', true)`)).toBe(expected);
  });

  test.each(["data", "admin", "service", "auth"] as const)("%s may not become another login", async (kind) => {
    for (const other of ["data", "admin", "service", "auth"].filter((each) => each !== kind)) {
      expect(await attempt(kind, `set local role ${database.name}_${other}`)).toBe("42501");
      expect(await attempt(kind, `set session authorization ${database.name}_${other}`)).toBe("42501");
    }
  });

  test.each([
    ["anon", "service_role"],
    ["authenticated", "service_role"],
    ["anon", "admin"],
    ["authenticated", "admin"],
  ])("data that has become %s may not become %s", async (role, other) => {
    const become = `select set_config('role', '${other}', true)`;
    expect(await attempt("data", `set local role ${role}`, become)).toBe("42501");
    expect(await attempt("data", `select set_config('role', '${role}', true)`, become)).toBe("42501");
    expect(await attempt("data", `set local role ${role}`, `set local role ${other}`)).toBe("42501");
  });

  test("data of an earlier version loses its membership in admin", async () => {
    await database.owner.query(`grant admin to ${database.name}_data`);
    expect(await attempt("data", "set local role admin")).toBe("done");
    await provisionLogins(database.owner, database.url, "a secret for the tests of roles");
    expect(await attempt("data", "set local role admin")).toBe("42501");
  });

  test.each([
    ["data", "select from users"],
    ["data", "select from auth_private.accounts"],
    ["data", "select auth_api.find_account('ada')"],
    ["data", "create table public.mine (id int)"],
    ["service", "select from users"],
    ["service", "select auth_api.find_account('ada')"],
    ["auth", "select from users"],
    ["auth", "select from articles"],
    ["auth", "select from auth_private.accounts"],
    ["auth", "select from auth_private.refresh_tokens"],
    ["auth", "select auth.uid()"],
    ["auth", "select me()"],
    ["auth", "create function auth_api.more() returns int return 1"],
  ] as const)("%s, being itself, is refused: %s", async (kind, statement) => {
    // 42P01 and 42883: the search_path leaves out a schema that the role may not use.
    expect(await attempt(kind, statement)).toMatch(/^(42501|42P01|42883)$/);
  });

  test("auth may execute the functions of auth_api", async () => {
    const { rows } = await open.auth!.query("select auth_api.find_account('ada') ->> 'name' as name");
    expect(rows).toEqual([{ name: "Ada Lovelace" }]);
    expect(
      await attempt("auth", "select auth_api.start_session(1, 0, null, sha256('token'), null, null, now(), now(), 9)"),
    ).toBe("done");
  });

  const EDITOR = { role: "users_editor", isOpen: false };

  test("only data may become an editor, only if it is open, and no longer after it is closed", async () => {
    const secret = "a secret for the tests of roles";
    const become = (kind: keyof Logins) => attempt(kind, "select set_config('role', 'users_editor', true)");
    await provisionLogins(database.owner, database.url, secret, [{ ...EDITOR, isOpen: true }]);
    expect([await become("data"), await become("service"), await become("auth")]).toEqual(["done", "42501", "42501"]);
    expect(await attempt("data", "set local role users_editor", "delete from users where id = 4")).toBe("done");
    await provisionLogins(database.owner, database.url, secret, [EDITOR]);
    expect(await become("data")).toBe("42501");
  });

  test("a grant by another owner is revoked too", async () => {
    const [login, other] = [`${database.name}_data`, `${database.name}_other`];
    await database.owner.query(`create role ${other}; grant users_editor to ${other} with admin option`);
    await database.owner.query(`set role ${other}; grant users_editor to ${login}; reset role`);
    try {
      expect(await attempt("data", "set local role users_editor")).toBe("done");
      await provisionLogins(database.owner, database.url, "a secret for the tests of roles", [EDITOR]);
      expect(await attempt("data", "set local role users_editor")).toBe("42501");
    } finally {
      await database.owner.query(`drop role ${other}`);
    }
  });

  test("provisioning again sets the same passwords, and a new secret sets new ones", async () => {
    expect(await provisionLogins(database.owner, database.url, "a secret for the tests of roles")).toEqual(logins);
    const changed = await provisionLogins(database.owner, database.url, "another secret for the tests of roles");
    await expect(new pg.Client(logins.data).connect()).rejects.toMatchObject({ code: "28P01" });
    const client = new pg.Client(changed.data);
    await client.connect();
    await client.end();
  });
});
