import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { upgrade } from "../../cli/upgrade.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import { startTestService } from "../support/service.ts";
import { applicationOf, connected, type ForeignServer, SERVERS, startForeignServer } from "./foreign-server.ts";

const JWT_SECRET = "a secret of thirty-two bytes or more";
const CHANGE_OWNER = readFileSync("deploy/postgresql/change-owner.sql", "utf8");

describe.each(SERVERS)("on PostgreSQL $version, a database that a superuser has started the service on", (version) => {
  let server: ForeignServer;
  let url: string;
  beforeAll(async () => {
    server = await startForeignServer("", version);
    const root = await connected(server.cluster.url("postgres"));
    await root.query("create database content");
    await root.end();
    const superuser = await connected(server.cluster.url("content"));
    await superuser.query(`create schema ext; create extension pg_trgm schema ext; ${applicationOf("uuid")}
      create type public.mood as enum ('good', 'bad'); create domain public.short as text check (length(value) < 9);
      create role anon; grant select on public.notes to anon; alter table public.notes enable row level security;
      create policy "notes are public" on public.notes for select to anon using (id > 0)`);
    await superuser.end();
    await startOnce(server.cluster.url("content"));
    url = Object.assign(new URL(server.cluster.url("content")), {
      username: "content_owner",
      password: "change me",
    }).href;
  });
  afterAll(() => server?.cluster.remove());

  const settings = { MIGRATE: "modules", MODULES: "auth,tasks,feed,channels", JWT_SECRET };

  const startOnce = async (of: string, given = settings) => {
    const owner = await connected(of);
    const database = { name: "content", url: of, owner, drop: async () => {} };
    try {
      await (await startTestService(given, database, undefined, undefined, { definition: NO_APPLICATION })).stop();
    } finally {
      await owner.end();
    }
  };

  test("says to another login whose the modules are, and gets another owner with the statements of the documentation", async () => {
    const superuser = await connected(server.cluster.url("content"));
    onTestFinished(() => superuser.end());
    const [make, ...rest] = CHANGE_OWNER.split(/(?<=;)\n/);
    await superuser.query(make!);
    const environment = { ...settings, DATABASE_URL: url };
    const refused =
      "the modules of the service in this database belong to the login postgres, and content_owner may not use them";
    const found = await outcomeOf(doctor([], environment));
    expect([found.exitCode, found.stdout]).toEqual([1, expect.stringContaining(`\nerror     migrations: ${refused}`)]);
    expect(await outcomeOf(upgrade([], environment))).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining(refused),
    });
    await expect(startOnce(url)).rejects.toThrow(refused);

    // The first start has made it.
    await superuser.query(rest.filter((statement) => !statement.startsWith("create role service_role")).join("\n"));
    await startOnce(url);
    const cured = await outcomeOf(doctor([], environment));
    expect(cured.stdout.match(/^error .*/gm)).toBeNull();
    expect(cured.exitCode).toBe(0);
    const { rows: left } = await superuser.query(`select oid::regclass::text as name from pg_class
      where relowner = 'postgres'::regrole and oid >= 16384 and relkind in ('r', 'v', 'S') order by name`);
    expect(left).toEqual([]);

    if (version.version !== 15) return;
    const another = { ...settings, JWT_SECRET: JWT_SECRET.toUpperCase() };
    await expect(startOnce(url, another)).rejects.toThrow(
      'let one run alter role "content_changes" noreplication, start the service, and then',
    );
    await superuser.query("alter role content_changes noreplication");
    await startOnce(url, another);
  });
});
