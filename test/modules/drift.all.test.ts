import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { type ScratchCluster, startScratchCluster } from "../../cli/scratch-cluster.ts";
import { upgrade } from "../../cli/upgrade.ts";
import { MODULE_NAMES } from "../../config/modules.ts";
import { withClient } from "../../db/cluster/client.ts";
import { migrate } from "../../db/cluster/migrate.ts";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import type { TestDatabase } from "../support/database.ts";
import { startTestService } from "../support/service.ts";
import { CHANGES, FOUND, foundIn, HEADER, MIGRATION } from "./drift-objects.ts";
import {
  applicationOf,
  connected,
  EMBEDDED,
  type ForeignServer,
  signInSql,
  startForeignServer,
} from "./foreign-server.ts";

const SECRET = "a secret of thirty-two bytes or more";

let scratch: ScratchCluster;
beforeAll(async () => {
  scratch = await startScratchCluster();
});
afterAll(() => scratch?.remove());

/** `migrate check --database` of this database. All tests share the cluster on which migrations run again. */
async function check(
  { url }: { readonly url: string },
  folder: string | undefined,
  { args = [], ...settings }: { readonly args?: string[] } & Readonly<Record<string, any>> = {},
) {
  const environment = { DATABASE_URL: url, JWT_SECRET: SECRET, ...settings };
  const startScratch = async () => ({ ...scratch, remove: async () => {} });
  const options = { environment, startScratch, ...(folder !== undefined && { folder }) };
  return outcomeOf(migrationCommand(["check", "--database", ...args], options));
}

const SAME = /^The database \w+ is as its migrations make it \(\d+ objects\)\.\n$/m;
describe("migrate check --database", () => {
  let server: ForeignServer;
  let home: string;
  let folder: string;
  beforeAll(async () => {
    server = await startForeignServer(undefined, EMBEDDED);
    home = await mkdtemp(join(tmpdir(), "drift-"));
    folder = join(home, "db/migrations");
    await mkdir(join(folder, "committed"), { recursive: true });
    await mkdir(join(home, "db/schema"));
    await symlink("../schema", join(folder, "fixtures"));
    await writeFile(join(folder, "committed/000001-base.sql"), `${HEADER}${MIGRATION}`);
    return async () => {
      await server.cluster.remove();
      await rm(home, { recursive: true });
    };
  });

  /** A database of the superuser, with everything that the migrations make. */
  async function migrated(name: string): Promise<TestDatabase> {
    await withClient(server.cluster.url("postgres"), (root) => root.query(`create database ${name}`));
    const url = server.cluster.url(name);
    await migrate(url, () => {}, { folder, modules: MODULE_NAMES, userId: "" });
    const owner = await connected(url);
    onTestFinished(() => owner.end());
    return { name, url, owner, drop: async () => {} };
  }

  test("each object of the application and of the modules is named that is missing, changed or extra", async () => {
    const database = await migrated("changed");
    expect(await check(database, folder)).toEqual({ exitCode: 0, stdout: expect.stringMatching(SAME), stderr: "" });
    // Roles belong to the server, and so to the other tests too.
    onTestFinished(
      async () =>
        void (await database.owner.query("revoke service_role from anon; alter role authenticated nocreatedb")),
    );
    await database.owner.query(CHANGES);
    const { exitCode, stdout, stderr } = await check(database, folder);
    expect([exitCode, stderr]).toEqual([1, "the database differs from its migrations\n"]);
    expect(foundIn(stdout).toSorted()).toEqual(FOUND.toSorted());
    expect(stdout).toContain(`
  changed  column public.notes.title
             expected  text, not null, default ''::text
             actual    text, default ''::text
`);
    expect(stdout).toContain(`
  changed  function public.count_notes()
             expected  line 8: FROM public.notes n
                          WHERE (n.id > 0);
             actual    line 8: FROM public.notes n;
`);
    expect(stdout).toMatch(/^The database changed differs from its migrations in \d+ of \d+ objects\.\n$/m);

    // What the output says to do about the modules.
    const repair = /update content_service\.modules set code_hash = '';/.exec(stdout)![0];
    await database.owner.query(repair.replace(";", " where module in ('caller', 'auth', 'feed')"));
    const environment = { DATABASE_URL: database.url, JWT_SECRET: SECRET, MIGRATE: "modules" };
    expect(await upgrade(["--yes"], environment)).toMatch(/\nDone\. /);
    const after = foundIn((await check(database, folder)).stdout);
    const repaired = FOUND.filter((line) =>
      / (auth_api\.refuse_sign_up|_500_announce|announce_schema_drop|content_changes|auth\.is_admin|auth\.uid)/.test(
        line,
      ),
    );
    expect(repaired).toHaveLength(6);
    expect(after.filter((line) => repaired.includes(line))).toEqual([]);
  });

  test("--json has all definitions, and what a start would change is not drift", async () => {
    const database = await migrated("as_json");
    await database.owner.query(`
      create function public.announce_ddl() returns event_trigger language plpgsql as $$ begin notify pgrst, 'reload schema'; end $$;
      create event trigger announce_ddl on ddl_command_end execute function public.announce_ddl();
      update content_service.modules set code_hash = 'of another version' where module = 'auth';
      drop function auth_api.refuse_sign_up() cascade; drop index public.notes_author_idx;
      create schema others; create table others.things (id int);`);
    await writeFile(join(folder, "committed/000002-more.sql"), `${HEADER}create table public.more (id int);`);
    onTestFinished(() => rm(join(folder, "committed/000002-more.sql")));
    const { exitCode, stdout } = await check(database, folder, { args: ["--json"] });
    expect([exitCode, JSON.parse(stdout)]).toEqual([
      1,
      {
        database: "as_json",
        objects: expect.any(Number),
        drift: [
          {
            of: "application",
            ...{ state: "missing", kind: "index", name: "public.notes_author_idx", actual: null },
            expected: "CREATE INDEX notes_author_idx ON public.notes USING btree (author)",
          },
        ],
        notes: [
          "pending, and so not compared: the module auth: a start runs its code again",
          "pending, and so not compared: the migration 000002-more.sql of the application",
          "not compared, because no migration makes anything in them: others",
        ],
      },
    ]);
  });

  test("what a database has run of current.sql counts as a migration", async () => {
    const database = await migrated("current");
    const environment = { DATABASE_URL: database.url, JWT_SECRET: SECRET };
    await writeFile(join(folder, "current.sql"), "create table public.tags (id int primary key);");
    onTestFinished(() => rm(join(folder, "current.sql")));
    await migrationCommand(["apply"], { environment, folder });
    expect(await check(database, folder)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^note: db\/migrations\/current\.sql is not committed; /),
    });
    await database.owner.query("alter table public.tags add column name text");
    expect(foundIn((await check(database, folder)).stdout)).toEqual(["application", "extra column public.tags.name"]);
  });

  test("right after the start of an application with all modules there is no drift", async () => {
    await withClient(server.cluster.url("postgres"), (root) => root.query("create database demo"));
    const owner = await connected(server.cluster.url("demo"));
    const database = { name: "demo", url: server.cluster.url("demo"), owner, drop: () => owner.end() };
    const service = await startTestService({ SEED: "demo" }, database);
    onTestFinished(service.stop);
    const settings = { APPLICATION: "demo", AUTH_USER_ID: "bigint" };
    expect(await check(database, undefined, settings)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(SAME),
    });
  });

  test("with MIGRATE=modules only the modules are compared, beside tables of another team", async () => {
    const database = await server.makeDatabase("beside", applicationOf("uuid"));
    const settings = { MIGRATE: "modules", MODULES: "auth,tasks,feed,channels", GRAPHQL_DOCUMENTS: "any" };
    const options = { definition: NO_APPLICATION };
    const service = await startTestService(settings, database, undefined, undefined, options);
    onTestFinished(service.stop);
    await database.owner.query(signInSql("uuid"));
    await database.owner.query(`
      create table public.of_others (id int primary key); create schema others; create role reader;
      grant usage on schema auth to reader; create publication of_others for table public.of_others;
      create policy "members read" on realtime.messages for select to authenticated using (true);`);
    expect(await check(database, undefined, settings)).toEqual({
      exitCode: 0,
      stdout: expect.stringMatching(SAME),
      stderr: "",
    });
    await database.owner.query(`
      drop publication content_changes; drop function tasks.run(text, json); create index on tasks.tasks (id);
      alter table realtime.messages disable row level security;`);
    const { exitCode, stdout } = await check(database, undefined, settings);
    expect([exitCode, foundIn(stdout)]).toEqual([
      1,
      [
        "modules of the service",
        ...["missing publication content_changes", "changed table realtime.messages"],
        ...["missing function tasks.run(text,json)", "extra index tasks.tasks_id_idx"],
      ],
    ]);
  });

  test("a login without rights, a database without modules, MIGRATE=off and wrong options are refused with the reason", async () => {
    const database = await migrated("refused");
    await database.owner.query("create role nobody login password 'nobody'");
    const login = Object.assign(new URL(database.url), { username: "nobody", password: "nobody" }).href;
    expect(await check({ url: login }, folder)).toEqual({
      exitCode: 1,
      stdout: "",
      stderr: expect.stringMatching(
        /^the modules of the service in this database belong to the login \w+, and nobody may not use them: set DATABASE_URL to the URL of \w+, or .*\n$/,
      ),
    });
    const empty = { url: server.cluster.url("template1") };
    expect((await check(empty, folder)).stderr).toMatch(/^this database has nothing of the service yet: /);
    expect(await check(database, folder, { MIGRATE: "off" })).toMatchObject({
      exitCode: 2,
      stderr: "with MIGRATE=off no migration runs on the database: there is nothing to compare\n",
    });
    expect(await check(database, folder, { args: ["--all"] })).toMatchObject({ exitCode: 2 });
    await database.owner.query("insert into graphile_migrate.migrations values ('sha1:1', null, '000009.sql')");
    expect((await check(database, folder)).stderr).toMatch(
      /^a newer version of the application has migrated .*: 000009\.sql\n$/,
    );
  });
});
