import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { moduleCommand } from "../../cli/module.ts";
import type { TestDatabase } from "../support/database.ts";
import { startTestService } from "../support/service.ts";
import { applicationOf, connected, EMBEDDED, type ForeignServer, ROLES, startForeignServer } from "./foreign-server.ts";

/** What an application makes with the modules, and the objects that then depend on them. */
const USES = `
  alter table public.notes enable row level security;
  create policy "owners read their notes" on public.notes to authenticated using (owner_id = (select auth.uid()));
  create view public.mine as select id from public.notes where owner_id = auth.uid();
  alter table public.notes alter column owner_id set default auth.uid();
  create function public.me() returns uuid language sql stable return auth.uid();
  create function public.myself() returns uuid language sql stable as 'select auth.uid()';
  create function public.greet() returns trigger language plpgsql as 'begin perform auth.uid(); return new; end';
  create trigger greet before insert on public.notes for each row execute function public.greet();
  create table public.profiles (id auth.user_id primary key references auth_private.accounts,
    email text check (auth.is_email(email)));
  create trigger renamed before update on public.notes for each row when (new.owner_id <> auth.uid())
    execute function suppress_redundant_updates_trigger();
  create policy "everyone may listen" on realtime.messages for select to authenticated using (true);`;
const HOOK = `
  create function public.new_user(fields jsonb) returns uuid language sql as 'select gen_random_uuid()';
  grant usage on schema public to auth_owner; grant execute on function public.new_user(jsonb) to auth_owner;
  select auth.use_hook('new_user', 'public.new_user(jsonb)');`;
/** What is left of that, which nothing of the service needs. */
const UNDO =
  "revoke usage on schema public from auth_owner; alter table public.notes disable row level security; drop table public.profiles; drop function public.new_user(jsonb);";

const ALL = ["caller", "auth", "tasks", "feed", "channels"];

describe("modules of a database of another team", () => {
  let server: ForeignServer;
  beforeAll(async () => {
    // The service makes its roles itself.
    server = await startForeignServer("alter role shop_owner superuser", EMBEDDED);
  });
  afterAll(() => server?.cluster.remove());

  const settingsOf = ({ url }: TestDatabase, more = {}) => ({
    MIGRATE: "modules",
    MODULES: "auth,tasks,feed,channels",
    JWT_SECRET: "a secret of thirty-two bytes or more",
    ...more,
    DATABASE_URL: url,
  });
  const start = (database: TestDatabase) =>
    startTestService(
      { MIGRATE: "modules", MODULES: "auth,tasks,feed,channels" },
      { ...database, drop: async () => {} },
      undefined,
      undefined,
      {
        definition: NO_APPLICATION,
      },
    );
  const roles = async (name: string) => {
    const client = await connected(server.cluster.url("postgres"));
    const { rows } = await client.query(
      "select rolname from pg_roles where rolname = any ($1) or starts_with(rolname, $2) order by rolname",
      [ROLES, `${name}_`],
    );
    await client.end();
    return rows.map(({ rolname }) => rolname);
  };

  // First: later tests leave databases with modules, which use the roles too.
  test("roles that only another database uses stay, and so do logins that the service has not made", async () => {
    const database = await server.makeDatabase("shop_shared", applicationOf("uuid"));
    onTestFinished(() => database.drop());
    const other = await server.makeDatabase("warehouse", "create table public.stock (id integer primary key)");
    onTestFinished(() => other.drop());
    await (await start(database)).stop();
    await other.owner.query(`
      alter table public.stock enable row level security;
      create policy "everyone counts" on public.stock for select to admin using (true);
      alter role anon in database warehouse set statement_timeout = '3s'`);
    await database.owner.query(`
      drop owned by shop_shared_tasks; drop role shop_shared_tasks; create role shop_shared_tasks login`);
    expect(await moduleCommand(["remove", ...ALL, "--yes"], settingsOf(database))).toMatch(
      new RegExp(
        [
          "\nThese roles stay, because something uses them\\. .*:",
          "  admin: \\d objects? in database warehouse",
          "  anon: settings in the database warehouse",
          "  authenticated: its member admin\n$",
        ].join("\n"),
      ),
    );
    expect(await roles(database.name)).toEqual(["admin", "anon", "authenticated", "shop_shared_tasks"]);

    // A start would change the password of the login, so it is refused before it installs anything.
    const before = await server.dump(database.name);
    const reason =
      "the service makes logins for the database shop_shared, and does not take over those that it has not made: shop_shared_tasks. " +
      "Rename them, or the database. If nothing uses them, let the service have them: " +
      "comment on role shop_shared_tasks is 'Made by Content Service.';";
    await expect(start(database)).rejects.toThrow(reason);
    expect(await server.dump(database.name)).toBe(before);
    await database.owner.query("comment on role shop_shared_tasks is 'Made by Content Service.'");
    await (await start(database)).stop();
    await moduleCommand(["remove", ...ALL, "--yes"], settingsOf(database));
    expect(await roles(database.name)).toEqual(["admin", "anon", "authenticated"]);
    await other.owner.query(
      'drop policy "everyone counts" on public.stock; alter role anon in database warehouse reset all',
    );
    await (await start(database)).stop();
    await moduleCommand(["remove", ...ALL, "--yes"], settingsOf(database));
    expect(await roles(database.name)).toEqual([]);
  });

  test("they are removed without a trace, but not while the application uses them", async () => {
    const database = await server.makeDatabase("shop_removed", applicationOf("uuid"));
    onTestFinished(() => database.drop());
    const before = await server.dump(database.name);
    const environment = settingsOf(database);
    const { stop } = await start(database);
    await expect(moduleCommand(["remove", ...ALL, "--yes"], environment)).rejects.toMatchObject({
      exitCode: 1,
      message: expect.stringMatching(/^a service uses this database: stop it before /),
    });
    // What would be removed is shown all the same.
    expect(await moduleCommand(["remove", ...ALL], environment)).toMatch(
      /^Nothing was changed\. .* drops .* with all data\.\nA service uses this database: stop it before .*\nTo do it, run: .* module remove caller auth tasks feed channels --yes\n$/,
    );
    await stop();
    await database.owner.query("select auth.use_users('public.users')");
    await database.owner.query(`${USES} ${HOOK}`);
    await expect(moduleCommand(["remove", "caller"], environment)).rejects.toMatchObject({
      exitCode: 1,
      message: "these modules need caller, so remove them too: auth, tasks, feed, channels",
    });
    const refusal = await moduleCommand(["remove", ...ALL, "--yes"], environment).catch((error) => error);
    expect(refusal).toMatchObject({ exitCode: 1 });
    const [intro, ...lines] = refusal.message.split("\n");
    expect(intro).toBe(
      "nothing was removed: your application uses caller auth tasks feed channels. Drop or change all of these first. Below each is the select that shows it, if there is one, and then the statement that removes it:",
    );
    expect(lines.filter((line: string) => /^ {2}\w/.test(line))).toEqual([
      "  column id of table public.profiles",
      "  constraint profiles_email_check on table public.profiles",
      "  constraint profiles_id_fkey on table public.profiles",
      "  default value for column owner_id of table public.notes",
      "  function public.me()",
      "  policy everyone may listen on table realtime.messages",
      "  policy owners read their notes on table public.notes",
      "  rule _RETURN on view public.mine",
      "  trigger renamed on table public.notes",
      "  hook new_user: public.new_user(jsonb)",
      "  table of users: public.users",
    ]);
    const statements = lines.filter((line: string) => line.startsWith("    "));
    for (const line of statements.filter(
      (each: string) => each.startsWith("    select pg_") || each.includes("format_type"),
    ))
      expect([line, (await database.owner.query(line)).rows]).toEqual([line, [expect.anything()]]);
    const undo = statements.filter((each: string) => !/^ {4}select (pg_|format_type)/.test(each));
    expect(undo.map((line: string) => line.trim())).toEqual([
      "alter table public.profiles alter column id type uuid;",
      "alter table public.profiles drop constraint profiles_email_check;",
      "alter table public.profiles drop constraint profiles_id_fkey;",
      "alter table public.notes alter column owner_id drop default;",
      "drop function public.me();",
      'drop policy "everyone may listen" on realtime.messages;',
      'drop policy "owners read their notes" on public.notes;',
      "drop view public.mine;",
      "drop trigger renamed on public.notes;",
      "select auth.use_hook('new_user', null);",
      "select auth.use_users(null);",
    ]);
    for (const statement of undo) await database.owner.query(statement);
    await database.owner.query(UNDO);
    const plan = await moduleCommand(["remove", "caller", "auth", "tasks", "feed", "channels"], environment);
    expect(plan).toContain("function public.myself()");
    expect(plan).toMatch(/^ {2}function public\.greet\(\)\n.*\n {4}drop trigger greet on public\.notes;$/m);
    expect(plan).toMatch(/module remove caller auth tasks feed channels --yes\n$/);
    await database.owner.query("drop function public.myself(); drop function public.greet() cascade");

    expect(await roles(database.name)).toHaveLength(ROLES.length + 6);
    expect(await moduleCommand(["remove", ...ALL, "--yes"], environment)).toBe(
      "Removed: caller auth tasks feed channels. The next start installs what MODULES names.\n",
    );
    expect(await server.dump(database.name)).toBe(before);
    expect(await roles(database.name)).toEqual([]);
  });

  test("one is removed alone, and a start installs it again", async () => {
    const database = await server.makeDatabase("shop_again", applicationOf("uuid"));
    onTestFinished(() => database.drop());
    await (await start(database)).stop();
    const environment = settingsOf(database);
    const functions = "select proname from pg_proc where pronamespace = 'auth'::regnamespace order by proname";
    const namesOf = async () => (await database.owner.query(functions)).rows.map(({ proname }) => proname);
    const installed = await namesOf();
    await database.owner.query(`
      create function public.check_sign_up(fields jsonb) returns jsonb language sql as 'select fields';
      grant usage on schema public to auth_owner; grant execute on function public.check_sign_up(jsonb) to auth_owner;
      create table public.members (id uuid primary key); select auth.use_users('public.members');
      select auth.use_hook('before_sign_up', 'public.check_sign_up(jsonb)')`);
    await expect(moduleCommand(["remove", "auth", "--yes"], environment)).rejects.toThrow(
      /^nothing was removed: your application uses auth\. .*\n {2}hook before_sign_up: public\.check_sign_up\(jsonb\)\n {4}select auth\.use_hook\('before_sign_up', null\);\n {2}table of users: public\.members\n {4}select auth\.use_users\(null\);\nNo start runs your migrations again: /,
    );
    // Only of notes may others than the owner, and than roles that bypass policies, expect rows.
    await database.owner.query(`
      select auth.use_hook('before_sign_up', null), auth.use_users(null);
      create role shop_reader; create role shop_auditor bypassrls; create table secrets (); create table audits ();
      grant select (text) on notes to shop_reader; grant select on audits to shop_auditor, shop_owner;
      alter table notes enable row level security; alter table secrets enable row level security;
      alter table audits enable row level security`);
    expect(await moduleCommand(["remove", "auth", "--yes"], environment)).toMatch(
      /^Removed: auth\. .*\nThese tables have row-level security and no policy, .*: public\.notes\.\n$/,
    );
    expect(await namesOf()).toEqual(["claims", "email", "is_admin", "jwt", "role", "uid"]);
    expect(await roles(database.name)).not.toContain("shop_again_auth");
    const listed = await moduleCommand(["list"], environment);
    expect(listed).toMatch(/^module +version +code +next start\n/);
    expect(listed).toMatch(/^caller +[\d.]+ +of this version$/m);
    expect(listed).toMatch(/^auth +not installed +installs it$/m);
    await (await start(database)).stop();
    expect(await namesOf()).toEqual(installed);
    expect(await moduleCommand(["list"], environment)).not.toContain("installs");
    await expect(moduleCommand(["remove", "feed", "--yes"], environment)).resolves.toMatch(/^Removed: feed/);
    await expect(moduleCommand(["remove", "feed", "--yes"], environment)).rejects.toThrow(
      "the module feed is not installed",
    );
  });

  test("roles that something else uses stay", async () => {
    const database = await server.makeDatabase("shop_roles", applicationOf("uuid"));
    onTestFinished(() => database.drop());
    await (await start(database)).stop();
    await database.owner.query("create role shop_member in role authenticated; grant select on notes to anon");
    expect(await moduleCommand(["remove", ...ALL, "--yes"], settingsOf(database))).toMatch(
      /\nThese roles stay, because something uses them\. .*:\n(?:.*\n)* {2}anon: .*\n(?:.*\n)* {2}authenticated: .*its member shop_member\n/,
    );
    expect(await roles(database.name)).toEqual(expect.arrayContaining(["anon", "authenticated"]));
  });
});
