import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { type ScratchCluster, startScratchCluster } from "../../cli/scratch-cluster.ts";
import { user } from "../../cli/user.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import { sendTo } from "../support/resource-client.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";
import { connected, DEBIAN_15, hasServer, SERVERS } from "./foreign-server.ts";

const run = promisify(execFile);

describe.skipIf(!hasServer)("a dump of the whole database", () => {
  let cluster: ScratchCluster;
  beforeAll(async () => {
    cluster = await startScratchCluster(DEBIAN_15);
  });
  afterAll(() => cluster?.remove());

  const start = async (name: string) => {
    const owner = await connected(cluster.url(name));
    return startTestService({ SEED: "demo" }, { name, url: cluster.url(name), owner, drop: () => owner.end() });
  };
  const psql = (...args: string[]) =>
    run(`${DEBIAN_15}/psql`, ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", ...args]);

  test("in the plain format is restored by psql, and the service starts on it", async () => {
    await psql("--command=create database made", "--command=create database restored", cluster.url("postgres"));
    await (await start("made")).stop();
    const file = join(mkdtempSync(join(tmpdir(), "content-service-dump-")), "content.sql");
    await run(`${DEBIAN_15}/pg_dump`, ["--format=plain", `--file=${file}`, cluster.url("made")]);
    await psql("--single-transaction", `--file=${file}`, cluster.url("restored"));

    // Logins belong to the server, and their names begin with that of the database.
    const environment = { DATABASE_URL: cluster.url("restored"), JWT_SECRET };
    const restored = await outcomeOf(doctor([], environment));
    expect(restored.stdout).toContain(
      "\nnote      roles: the modules are here, and not the logins restored_data, restored_admin, as after a restore ",
    );
    expect([restored.exitCode, restored.stdout.match(/^error .*/gm)]).toEqual([0, null]);
    const checked = await outcomeOf(doctor([], { ...environment, MIGRATE: "check" }));
    expect(checked.stdout.match(/^error .*/gm)).toEqual([
      expect.stringMatching(/: a start with MIGRATE=on makes them;/),
    ]);

    const { url, database, stop } = await start("restored");
    onTestFinished(stop);
    expect(await (await fetch(`${url}/users/1`)).json()).toMatchObject({ name: "Ada Lovelace" });
    // All of them: psql must end each statement where it ends.
    const routines =
      "select oid::regprocedure::text from pg_proc where pronamespace = 'tasks'::regnamespace order by 1";
    const made = await connected(cluster.url("made"));
    const expected = (await made.query(routines)).rows;
    await made.end();
    expect((await database.owner.query(routines)).rows).toEqual(expected);
  });
});

/** A superuser does this on both servers. */
const PREPARED = [
  "create role content_owner login createrole password 'secret'",
  "create role service_role bypassrls",
  "grant service_role to content_owner with admin option",
  "create database content owner content_owner",
];
const [BACKUP, , AS_OWNER] = [
  ...readFileSync("docs/operations.md", "utf8")
    .split("## Backup and restore\n")[1]!
    .matchAll(/```sh\n(.*?)```/gs),
].map(([, commands]) => commands!);

const PASSWORD = "Correct-Horse-7!";
const APPLICATION = `
  create role gym_member;
  create table public.members (id uuid primary key default gen_random_uuid(), email text not null unique);
  create table public.bookings (id integer primary key, member_id uuid not null references public.members, class text);
  insert into public.members (email) values ('ann@gym.example'), ('bea@gym.example');
  insert into public.bookings select row_number() over (), id, case when email ~ '^a' then 'Rowing' end from public.members;
  select auth.use_users('public.members');
  select auth.add_account(id, email, email) from public.members;
  alter table public.bookings enable row level security;
  grant usage on schema public to gym_member, auth_owner;
  grant select on public.bookings to gym_member;
  create policy "members see their own" on public.bookings to gym_member using (member_id = (select auth.uid()));
  grant gym_member to authenticated`;

describe.skipIf(!hasServer)("a backup of the runbook", () => {
  let source: ScratchCluster;
  let folder: string;
  const prepare = async (cluster: ScratchCluster) => {
    const superuser = await connected(cluster.url("postgres"));
    for (const statement of PREPARED) await superuser.query(statement);
    await superuser.end();
    return Object.assign(new URL(cluster.url("content")), { username: "content_owner", password: "secret" }).href;
  };
  const start = async (url: string) => {
    const owner = await connected(url);
    const database = { name: "content", url, owner, drop: () => owner.end() };
    return startTestService({ API_KEY_REQUIRED: "off" }, database, undefined, undefined, {
      definition: NO_APPLICATION,
    });
  };
  const shell = (script: string, environment: Readonly<Record<string, string>>) =>
    run("bash", ["-ec", script], {
      cwd: folder,
      env: { ...process.env, ...environment, PATH: `${DEBIAN_15}:${process.env.PATH}` },
    });
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), "content-service-backup-"));
    source = await startScratchCluster(DEBIAN_15);
    const url = await prepare(source);
    const service = await start(url);
    await service.database.owner.query(APPLICATION);
    await user(["password", "ann@gym.example"], { DATABASE_URL: url, JWT_SECRET }, () => Readable.from([PASSWORD]));
    await service.stop();
    const superuser = await connected(source.url("content"));
    await superuser.query(`create function public.announce_ddl() returns event_trigger language plpgsql as 'begin end';
      create event trigger announce_ddl on ddl_command_end execute function public.announce_ddl()`);
    await superuser.end();
    await shell(BACKUP!.replace("$(npx content-service url)", url), {});
  });
  afterAll(() => source?.remove());

  test.each(SERVERS)("is restored by an owner who is no superuser, on PostgreSQL $version", async ({ binaries }) => {
    const target = await startScratchCluster(binaries);
    onTestFinished(() => target.remove());
    const url = await prepare(target);
    await shell(AS_OWNER!, { OWNER_URL: url });
    const restored = await start(url);
    onTestFinished(restored.stop);
    const body = { username: "ann@gym.example", password: PASSWORD };
    const { accessToken } = (await sendTo(restored.url, "POST /auth/login", { body })).json;
    const headers = { authorization: `Bearer ${accessToken}` };
    expect((await sendTo(restored.url, "GET /rest/v1/bookings?select=class", { headers })).json).toEqual([
      { class: "Rowing" },
    ]);
  });
});
