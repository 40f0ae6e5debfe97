import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { loadApplication, NO_APPLICATION } from "../../../app/load.ts";
import { outcomeOf } from "../../../cli/command.ts";
import { adviseCommand } from "../../../parts/advisor/advise.ts";
import { doctor } from "../../../parts/advisor/doctor/doctor.ts";
import { connected, type ForeignServer, SERVERS, startForeignServer } from "../../modules/foreign-server.ts";
import { hashCheaply } from "../../support/cluster.ts";
import type { TestDatabase } from "../../support/database.ts";
import { JWT_SECRET, startTestService } from "../../support/service.ts";

const HEADER = `--! Previous: -\n--! Hash: sha1:${"0".repeat(40)}\n--! Message: m\n--! AllowInvalidHash\n\n`;
const NOTES = `
  grant usage on schema public to anon, authenticated;
  create table public.notes (id int primary key, text text);
  alter table public.notes enable row level security;
  create policy "all read" on public.notes for select to anon using (id > 0);
  grant select on public.notes to anon;`;

describe.each(SERVERS)("on PostgreSQL $version, with an owner who may not do everything", (version) => {
  let server: ForeignServer;
  let folder: string;
  beforeAll(async () => {
    server = await startForeignServer(undefined, version);
    const root = await connected(server.cluster.url("postgres"));
    await root.query("alter role service_role nobypassrls");
    await root.end();
    folder = await mkdtemp(join(tmpdir(), "doctor-start-"));
    await mkdir(join(folder, "db/migrations/committed"), { recursive: true });
    await writeFile(join(folder, "db/migrations/committed/000001-notes.sql"), HEADER + NOTES);
    await writeFile(join(folder, "db/migrations/current.sql"), "create table public.later (id int primary key);");
    await writeFile(
      join(folder, "content-service.config.ts"),
      "export default { tasks: [{ name: 'digest', run: async () => {} }] };",
    );
    return async () => {
      await server.cluster.remove();
      await rm(folder, { recursive: true });
    };
  });

  type Case = {
    readonly settings: Readonly<Record<string, string>>;
    /** Before the first start, and between it and the second one, whose warnings are read. */
    readonly first: string;
    prepare(database: TestDatabase): Promise<unknown>;
    readonly warnings: readonly RegExp[];
  };
  const CASES: Readonly<Record<string, Case>> = {
    on: {
      settings: {},
      first: "",
      async prepare({ owner }) {
        const hash = await hashCheaply("Correct-Horse-7!");
        const register = "select auth_api.register($1, $2, $3)";
        await owner.query(register, [{ name: "Ada", email: "ada@example.com" }, "ada", hash]);
        await owner.query(`
          update content_service.modules set product_version = '99.0.0' where module = 'channels';
          insert into graphile_migrate.migrations values ('sha1:9', 'sha1:${"0".repeat(40)}', '000009.sql')`);
      },
      warnings: [
        /^the service key is off: /,
        /^changes cannot be read, because the login warned_on_changes may not replicate: /,
        /^changes of the schema are not announced by this database: /,
        /^db\/migrations\/current\.sql is not committed, /,
        /^a newer version of the service has migrated this database\. /,
        /^a newer version of the application has migrated this database\. .*: 000009\.sql$/,
      ],
    },
    modules: {
      settings: { MODULES: "auth" },
      first: NOTES,
      prepare: async () => {},
      warnings: [
        /^the service key is off: /,
        /^changes of the schema are not announced by this database: /,
        /^the tasks of the application are not run: /,
      ],
    },
    off: {
      settings: { DB_ANON_ROLE: "anon" },
      first: NOTES,
      async prepare({ name }) {
        const superuser = await connected(server.cluster.url(name));
        await superuser.query("alter role shop_owner set pgrst.server_port = '1'");
        await superuser.end();
      },
      warnings: [
        /^changes cannot be read, because /,
        /^changes of the schema are not announced by this database: /,
        /^the tasks of the application are not run: /,
        /^these settings in the database have no effect$/,
      ],
    },
  };

  test("before the first start doctor finds no error in what a start makes; afterwards a missing login is one, and an account that cannot get in a warning", async () => {
    const database = await server.makeDatabase("unstarted", NOTES);
    onTestFinished(database.drop);
    const environment = { MIGRATE: "modules", DATABASE_URL: database.url, JWT_SECRET };
    const { exitCode, stdout } = await outcomeOf(doctor([], environment));
    const subjects = new Set(stdout.match(/^(error|note) +\S+/gm));
    expect([exitCode, ...subjects]).toEqual([0, "note      roles:", "note      migrations:"]);
    const kept = { ...database, drop: async () => {} };
    await (
      await startTestService({ MIGRATE: "modules" }, kept, undefined, undefined, { definition: NO_APPLICATION })
    ).stop();
    // A hash that is cut off is no password.
    await database.owner.query(
      "select auth.add_account(gen_random_uuid(), 'Ada', 'ada@example.com', password_hash => '$2a$06$')",
    );
    const lockedOut =
      /^warning +accounts: 1 of 1 accounts have no password that can be verified, and the service sends no e-mails .*: set MAIL_URL/m;
    expect((await outcomeOf(doctor([], environment))).stdout).toMatch(lockedOut);
    const mailing = { ...environment, MAIL_URL: "keep" };
    expect((await outcomeOf(doctor([], mailing))).stdout).not.toMatch(lockedOut);
    await database.owner.query(`create table people (id uuid primary key);
      insert into people select user_id from auth_private.accounts union select gen_random_uuid(); select auth.use_users('people')`);
    expect((await outcomeOf(doctor([], mailing))).stdout).toMatch(
      /^note +accounts: 1 of 2 rows of public\.people have no account \(id [0-9a-f-]{36}\), .* auth\.try_add_account/m,
    );
    const superuser = await connected(server.cluster.url("unstarted"));
    await superuser.query("alter role unstarted_data rename to renamed_data");
    await superuser.end();
    expect(await outcomeOf(doctor([], environment))).toMatchObject({
      exitCode: 1,
      stdout: expect.stringMatching(/^error +roles: there is no login unstarted_data: start the service once/m),
    });
  });

  test.each(Object.keys(CASES))(
    "with MIGRATE=%s doctor finds whatever the log of a start warns about",
    async (migrate) => {
      const { first, prepare, warnings, ...each } = CASES[migrate]!;
      const settings = { MIGRATE: migrate, API_KEY_REQUIRED: "off", ...each.settings };
      const database = await server.makeDatabase(`warned_${migrate}`, first);
      onTestFinished(database.drop);
      const definition = await loadApplication(folder);
      const start = async () => {
        const lines: string[] = [];
        const log = pino({ level: "warn" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
        const kept = { ...database, drop: async () => {} };
        await (await startTestService(settings, kept, log, undefined, { definition })).stop();
        return lines;
      };
      await start();
      await prepare(database);
      const logged = await start();
      for (const warning of warnings) expect(logged).toContainEqual(expect.stringMatching(warning));

      const environment = { ...settings, DATABASE_URL: database.url, JWT_SECRET, APPLICATION: folder };
      const { stdout } = await outcomeOf(doctor([], environment));
      const found = stdout.split("\n").filter((line) => line.startsWith("warning "));
      const isFound = (text: string) => found.some((line) => line.includes(text.replace(/\s+/g, " ")));
      expect(logged.filter((text) => !isFound(text))).toEqual([]);
    },
  );

  test("without the module feed and a publication, that no changes are read is no fault", async () => {
    const database = await server.makeDatabase("without_feed", NOTES);
    onTestFinished(database.drop);
    const settings = { MIGRATE: "modules", MODULES: "auth" };
    const lines: { level: string | number; msg: string }[] = [];
    const log = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
    const service = await startTestService(settings, { ...database, drop: async () => {} }, log);
    await service.stop();
    const reason = "changes of tables are not read, because MODULES leaves out feed";
    expect(lines.filter(({ msg }) => /changes of tables|changes cannot/.test(msg))).toMatchObject([
      { level: 30, msg: reason },
    ]);

    const environment = { ...settings, DATABASE_URL: database.url, JWT_SECRET };
    expect((await outcomeOf(doctor([], environment))).stdout).toMatch(new RegExp(`^ok +changes: ${reason}$`, "m"));
    expect((await outcomeOf(adviseCommand([], environment))).stdout).not.toContain("changes-not-published");
    await database.owner.query("create publication content_changes");
    expect((await outcomeOf(doctor([], environment))).stdout).toMatch(
      /^warning +changes: changes cannot be read, because /m,
    );
  });
});
