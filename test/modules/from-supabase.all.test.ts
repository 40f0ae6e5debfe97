import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@supabase/supabase-js";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { loadApplication } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { startTestCluster, type TestCluster } from "../../kit/cluster.ts";
import { init } from "../../parts/development/init/init.ts";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import { PROJECT } from "../support/command.ts";
import { createTestDatabase } from "../support/database.ts";
import { startTestService, type TestService } from "../support/service.ts";

const GARDEN = join(PROJECT, "test/modules/supabase-project");
const PASSWORD = "Tomatoes-22";

let home: string;
let folder: string;
let made: Awaited<ReturnType<typeof run>>;
let cluster: TestCluster;
let service: TestService;

const run = (...args: string[]) => outcomeOf(init(args));
/** Its roles are those of its own server. */
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), "from supabase "));
  folder = join(home, "garden");
  made = await run("--from-supabase", GARDEN, folder);
  await mkdir(join(folder, "node_modules"));
  await symlink(PROJECT, join(folder, "node_modules/content-service"));
  cluster = await startTestCluster();
  service = await start();
}, 120_000);
afterAll(async () => {
  await service?.stop();
  await cluster?.remove();
  await rm(home, { recursive: true });
});

async function start(): Promise<TestService> {
  const database = service?.database ?? (await createTestDatabase(cluster.url("postgres"), "template0"));
  const definition = await loadApplication(folder);
  return startTestService({ SEED: "demo" }, database, undefined, undefined, { definition, buildsGraphQL: true });
}

const client = (key: "anon" | "service_role" = "anon") =>
  createClient(service.url, service.service.tokens.issueKey(key), {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  });
const sql = async (text: string) => (await service.database.owner.query(text)).rows;
const profilesOf = async (caller: ReturnType<typeof client>) =>
  (await caller.from("profiles").select("full_name")).data;

test("init lists what is not served by file and line, with what to use instead", () => {
  expect(made).toMatchObject({ exitCode: 0, stderr: "" });
  const [, list] = /^3 migrations of Supabase .*\n\nNot served.*\n\n([\s\S]*)\n\nThe application is ready/m.exec(
    made.stdout,
  )!;
  expect(list).toBe(`\
  Instead: AUTH_RETURN_ORIGINS, with an origin: http or https, without * and env()
    config.toml:12  https://*.garden.example/**
  Instead: ACCESS_TOKEN_TTL=86400: at least a minute, at most a day
    config.toml:13  jwt_expiry = 604800
  Instead: AUTH_PROVIDERS (docs/federated-sign-in.md)
    config.toml:22  the provider github
  Instead: nothing, the service does not use this extension
    migrations/20260112093000_plots.sql:3  CREATE EXTENSION IF NOT EXISTS "pg_graphql" WITH SCHEMA "graphql" (a comment now)
  Instead: a storage server beside the service, named in STORAGE_URL; the service has no files
    migrations/20260120101500_photos.sql:1  insert into storage.buckets (id, name) values ('photos', 'photos') (a comment now)
    migrations/20260120101500_photos.sql:2  create policy "members add photos" on storage.objects for insert to au… (a comment now)
  Instead: a task: tasks.run(…) in SQL, and fetch in tasks/ (docs/applications.md, Tasks)
    migrations/20260120101500_photos.sql:14  create function announce_harvest() returns trigger language plpgsql se…
  Instead: a task with cron (docs/applications.md, Tasks)
    migrations/20260120101500_photos.sql:17  select cron.schedule('remind', '0 7 * * *', 'select 1') (a comment now)
  Instead: a route of the application (docs/applications.md, Routes), or the function where it runs now
    functions/remind/index.ts:1  the edge function remind`);
});

test("the settings are those of config.toml", async () => {
  expect((await loadApplication(folder)).config.settings).toEqual({
    AUTH_USER_ID: "uuid",
    DB_SCHEMAS: "public",
    DB_EXTRA_SEARCH_PATH: "public,extensions",
    DB_MAX_ROWS: "500",
    SIGNUP: "open",
    EMAIL_CONFIRM: "off",
    PASSWORD_RULES: "8,lower,upper,digit",
    ACCESS_TOKEN_TTL: "86400",
    AUTH_RETURN_ORIGINS: "http://127.0.0.1:3000,https://garden.example",
  });
});

test("a user of the seed signs in with the password of the seed, and its tables are in both interfaces", async () => {
  const ada = client();
  const { data, error } = await ada.auth.signInWithPassword({ email: "ada@garden.example", password: "Potatoes-1" });
  expect([error, data.user?.id]).toEqual([null, "00000000-0000-4000-8000-000000000001"]);
  expect(data.user?.email_confirmed_at).toBeDefined();
  expect(data.user).toMatchObject({
    user_metadata: { full_name: "Ada Lovelace" },
    app_metadata: { provider: "email", plan: "pro" },
  });
  expect(await profilesOf(ada)).toEqual([{ full_name: "Ada Lovelace" }]);
  const plots = await ada.from("plots").select("name").order("id");
  expect(plots.data).toEqual([{ name: "By the pond" }, { name: "Under the oak" }]);
  const headers = { authorization: `Bearer ${data.session!.access_token}` };
  const answer = await service.gql("{ plots { edges { node { name } } } profiles { edges { node { fullName } } } }", {
    headers,
  });
  expect(answer).toMatchObject({
    data: { plots: { edges: [{}, {}] }, profiles: { edges: [{ node: { fullName: "Ada Lovelace" } }] } },
  });
  expect(await sql("select provider, email from auth.identities")).toEqual([
    { provider: "email", email: "ada@garden.example" },
  ]);
  expect(await sql("select from auth.mfa_factors")).toEqual([]);
});

test("a trigger on auth.users makes the profile of a user who signs up, and the row follows the account", async () => {
  const eve = client();
  const credentials = { email: "eve@garden.example", password: PASSWORD };
  const { data } = await eve.auth.signUp({ ...credentials, options: { data: { full_name: "Eve Kahn" } } });
  const id = data.user!.id;
  expect(await profilesOf(eve)).toEqual([{ full_name: "Eve Kahn" }]);
  expect(await profilesOf(client())).toEqual([]);
  const changed = await eve.from("profiles").update({ full_name: "Eve" }).eq("id", id).select("full_name");
  expect(changed.data).toEqual([{ full_name: "Eve" }]);
  expect((await eve.from("plots").insert({ name: "At the gate" })).error).toBeNull();

  await eve.auth.updateUser({ data: { theme: "dark" } });
  await client().auth.signInWithPassword(credentials);
  const read = `select email, raw_user_meta_data as data, last_sign_in_at is not null as "hasSignedIn", encrypted_password, raw_app_meta_data
    from auth.users where id = '${id}'`;
  expect(await sql(read)).toEqual([
    {
      email: "eve@garden.example",
      data: { full_name: "Eve Kahn", theme: "dark" },
      hasSignedIn: true,
      encrypted_password: null,
      raw_app_meta_data: { provider: "email", providers: ["email"] },
    },
  ]);

  const sessions = `select created_at <= updated_at as "isUsed", not_after > now() as "isOpen", ip is not null and refreshed_at > now() at time zone 'UTC' - interval '1 hour' as "isRecent"
    from auth.sessions where user_id = '${id}'`;
  const open = { isUsed: true, isOpen: true, isRecent: true };
  expect(await sql(sessions)).toEqual([open, open]);
  await sql(`delete from auth.sessions where user_id = '${id}'`);
  expect(await sql(sessions)).toEqual([]);
  expect((await eve.auth.refreshSession()).error).toMatchObject({ name: "AuthApiError" });

  const nameless = { email: "bob@garden.example", password: PASSWORD, options: { data: { full_name: "" } } };
  expect((await client().auth.signUp(nameless)).error).not.toBeNull();
  expect(await sql("select from auth.users where email = 'bob@garden.example'")).toEqual([]);

  expect((await client("service_role").auth.admin.deleteUser(id)).error).toBeNull();
  expect(
    await sql(`${read} union all select null, null, null, null, null from public.profiles where id = '${id}'`),
  ).toEqual([]);
});

test("a request that inserts a user gives the account no password and no app_metadata, which rules trust", async () => {
  await sql(`create function public.invite(address text) returns void language sql security definer set search_path = '' as $$
    insert into auth.users (email, encrypted_password, raw_user_meta_data, raw_app_meta_data)
    values (address, extensions.crypt('Potatoes-3', extensions.gen_salt('bf', 4)), '{"full_name": "Flo"}', '{"plan": "pro"}')
  $$`);
  onTestFinished(() => void sql("drop function public.invite(text)"));
  const ada = client();
  await ada.auth.signInWithPassword({ email: "ada@garden.example", password: "Potatoes-1" });
  await expect.poll(async () => (await ada.rpc("invite", { address: "flo@garden.example" })).error).toBeNull();
  expect(
    await sql("select password_hash, user_metadata, app_metadata from auth_private.accounts where name = 'Flo'"),
  ).toEqual([{ password_hash: null, user_metadata: { full_name: "Flo" }, app_metadata: {} }]);
});

test("a unique column of a trigger's table that is taken is no account that exists", async () => {
  await sql("alter table public.profiles add constraint only_one unique (full_name)");
  onTestFinished(() => void sql("alter table public.profiles drop constraint only_one"));
  const signUp = (email: string) =>
    client().auth.signUp({ email, password: "Potatoes-2", options: { data: { full_name: "Ada Lovelace" } } });
  expect((await signUp("eve@garden.example")).error).toMatchObject({ status: 409, code: "conflict" });
  expect((await signUp("ada@garden.example")).error).toMatchObject({ status: 422, code: "user_already_exists" });
});

test("a later start leaves the rows as they are, and does not run the seed again", async () => {
  await service.service.stop();
  service = await start();
  expect(await sql("select name from public.plots where tenant_id is not null")).toEqual([{ name: "By the pond" }]);
  expect((await client().auth.signUp({ email: "tim@garden.example", password: PASSWORD })).error).toBeNull();
});

test("db/schema and the migrations agree, and db/schema/supabase has what runs", async () => {
  expect(await migrationCommand(["check"], { environment: { APPLICATION: folder } })).toMatch(
    /^schema\/ and migrations\/ create the same database/m,
  );
  const photos = await readFile(join(folder, "db/schema/supabase/20260120101500_photos.sql"), "utf8");
  expect(photos).toContain('\n-- create policy "members add photos" on storage.objects');
});

test("what cannot be read is refused with a sentence, and nothing is written", async () => {
  const refusal = async (...args: string[]) => {
    const { exitCode, stderr } = await run(...args);
    return [exitCode, stderr.replaceAll(home, "")];
  };
  const project = async (name: string, files: Record<string, string>) => {
    for (const [file, text] of Object.entries(files)) {
      await mkdir(join(home, name, "supabase", file, ".."), { recursive: true });
      await writeFile(join(home, name, "supabase", file), text);
    }
    return join(home, name);
  };
  const target = join(home, "new");
  expect(await refusal("--from-supabase", home, target)).toEqual([
    1,
    " has no supabase/migrations: name the folder of a Supabase project, or its folder supabase\n",
  ]);
  expect(await refusal("--from-supabase", await project("empty", { "config.toml": "" }), target)).toEqual([
    1,
    "/empty/supabase/migrations has no migrations, such as 20260102030405_init.sql: supabase db pull writes them\n",
  ]);
  const broken = { "config.toml": "[api]\nschemas = [", "migrations/1_a.sql": "select 1" };
  expect(await refusal("--from-supabase", await project("broken", broken), target)).toEqual([
    1,
    expect.stringMatching(/^config\.toml cannot be read: .*\n/),
  ]);
  const wrong = { ...broken, "config.toml": "[api]\nmax_rows = 'all'" };
  expect(await refusal("--from-supabase", await project("wrong", wrong), target)).toEqual([
    1,
    expect.stringContaining("at api.max_rows"),
  ]);
  expect(await refusal("--from-supabase", GARDEN, folder)).toEqual([
    1,
    expect.stringMatching(/^\/garden has these files already, and nothing was written: .*\n$/),
  ]);
  expect(await refusal("--from-supabase", GARDEN, "--bare", target)).toEqual([
    2,
    "--bare, --database and --from-supabase exclude each other; see npx content-service init --help\n",
  ]);
});
