import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { loadApplication } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { doctor } from "../../parts/advisor/doctor/doctor.ts";
import { stopsStart } from "../../parts/development/existing/missing-rights.ts";
import { init } from "../../parts/development/init/init.ts";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";
import { applicationOf, connected, type ForeignServer, SERVERS, startForeignServer } from "./foreign-server.ts";

/** What docs/configuration.md asks a superuser for. The owner, who may make roles, makes the others. */
const BY_DBA = "create role service_role bypassrls; grant service_role to shop_owner with admin option;";
const NOTHING = "-- Nothing yet.\n";
const CURRENT = "create function public.hello() returns text language sql stable return 'Hello';\n";
const COMMITTED = `--! Previous: -\n--! Hash: sha1:${"0".repeat(40)}\n--! Message: m\n--! AllowInvalidHash\n\n`;

test("only the rights of the service key may be missing at the first start", () => {
  const stops = (...statements: string[]) =>
    stopsStart(
      statements.map((sql) => ({ sql, owner: null })),
      true,
    );
  const made = "create role service_role bypassrls;";
  expect(stops(made, "grant service_role to shop_owner with admin option;")).toBe(false);
  expect(stops("alter role service_role bypassrls;")).toBe(false);
  expect(stops(made, "grant service_role, shop_user to shop_owner with admin option;")).toBe(true);
  expect(stops("grant create on database shop to shop_owner;")).toBe(true);
});

describe.each(SERVERS)("on PostgreSQL $version, a copy that does not belong to the login of the URL", (version) => {
  let server: ForeignServer;
  let folder: string;
  beforeAll(async () => {
    server = await startForeignServer(BY_DBA, version);
    folder = await mkdtemp(join(tmpdir(), "missing-rights-"));
    for (const name of ["committed", "fixtures"]) await mkdir(join(folder, "db/migrations", name), { recursive: true });
    await writeFile(join(folder, "db/migrations/current.sql"), NOTHING);
    await writeFile(join(folder, "content-service.config.ts"), "export default {};");
  });
  afterAll(async () => {
    await server?.cluster.remove();
    await rm(folder, { recursive: true });
  });

  /** A database of `boss`, whose tables belong to `shop_owner`, as after `createdb --template`. */
  async function copied(name: string) {
    const root = await connected(server.cluster.url("postgres"));
    await root.query("do $$ begin create role boss login password 'boss'; exception when duplicate_object then end $$");
    await root.query(`create database ${name} owner boss`);
    await root.end();
    const superuser = await connected(server.cluster.url(name));
    await superuser.query(`create schema ext authorization shop_owner; create extension pg_trgm schema ext;
      grant execute on all functions in schema ext to shop_owner; grant create on schema public to shop_owner; set role shop_owner; ${applicationOf("uuid")} reset role;
      revoke create on schema public from shop_owner`);
    await superuser.end();
    const as = (username: string, password: string) =>
      Object.assign(new URL(server.cluster.url(name)), { username, password }).href;
    const url = as("shop_owner", "shop");
    const owner = await connected(as("boss", "boss"));
    onTestFinished(() => owner.end());
    const environment = { DATABASE_URL: url, JWT_SECRET, APPLICATION: folder };
    return { name, url, owner, environment };
  }

  const onDatabase = (name: string) => `grant create on database ${name} to shop_owner;`;
  const ON_PUBLIC = "grant create on schema public to shop_owner;";
  const BY = "As boss, or as a superuser of the server, run:";

  const startOnce = async (url: string, settings = {}) => {
    const owner = await connected(url);
    try {
      const definition = await loadApplication(folder);
      const database = { name: "copy", url, owner, drop: async () => {} };
      await (await startTestService(settings, database, undefined, undefined, { definition })).stop();
    } finally {
      await owner.end();
    }
  };

  test("init, doctor, migrate apply and a start name the statements, and their grantor", async () => {
    const { url, owner, environment, name } = await copied("gym");
    const both = [onDatabase(name), ON_PUBLIC];
    const app = join(folder, "app");
    const { stdout } = await outcomeOf(init(["--database", url, app]));
    expect(stdout).toContain(`1. ${BY}\n     ${both.join("\n     ")}\n   .env names the database ${name}. `);
    expect(stdout).toContain(
      " make a copy, as a superuser of the server (shop_owner may not), and name the copy in .env. ",
    );
    expect(stdout).toContain(`     createdb --owner=shop_owner --template=${name} ${name}_dev\n`);

    const root = await connected(server.cluster.url("postgres"));
    onTestFinished(() => root.end());
    await root.query("alter role shop_owner nocreaterole");
    const { stdout: without } = await outcomeOf(init(["--database", url, join(folder, "without")]));
    await root.query("alter role shop_owner createrole");
    expect(without).toContain(
      `1. As a superuser of the server, run:\n     ${["alter role shop_owner createrole;", ...both].join("\n     ")}\n`,
    );

    const before = await server.dump(name);
    const found = await outcomeOf(doctor([], environment));
    expect(found.exitCode).toBe(1);
    expect(found.stdout).toContain(`error     rights: ${BY} ${both.join(" ")}\n`);
    const refused = `\n${BY}\n  ${both.join("\n  ")}`;
    await expect(startOnce(url)).rejects.toThrow(refused);
    await expect(startOnce(url, { PARTS: "-development" })).rejects.toThrow(
      /permission denied for database \w+(?:.|\n)*\nThe part development writes the SQL that gives a missing right: open it$/,
    );
    expect((await outcomeOf(migrationCommand(["apply"], { environment }))).stderr).toContain(refused);
    expect(await server.dump(name)).toBe(before);

    // The second right is missing only when something is made in schema public.
    await owner.query(onDatabase(name));
    await startOnce(url);
    const later = await outcomeOf(doctor([], environment));
    expect(later.stdout).toContain(`warning   rights: ${BY} ${ON_PUBLIC}\n`);
    await writeFile(join(folder, "db/migrations/current.sql"), CURRENT);
    onTestFinished(() => writeFile(join(folder, "db/migrations/current.sql"), NOTHING));
    const apply = () => outcomeOf(migrationCommand(["apply"], { environment }));
    expect((await apply()).stderr).toMatch(
      /^current\.sql, line 1: permission denied for schema public \(42501\)\n(?:.|\n)*\nThe login of DATABASE_URL lacks this right: (?:.|\n)*\nAs boss, or as a superuser of the server, run:\n {2}grant create on schema public to shop_owner;\n$/,
    );
    await owner.query(ON_PUBLIC);
    expect((await apply()).exitCode).toBe(0);
    expect((await outcomeOf(doctor([], environment))).stdout).toMatch(/^ok +rights: /m);
  });

  test("a committed migration that is refused names the statement too, and leaves nothing behind", async () => {
    const { url, owner, name } = await copied("club");
    await owner.query(onDatabase(name));
    const file = join(folder, "db/migrations/committed/000001-hello.sql");
    await writeFile(file, COMMITTED + CURRENT);
    onTestFinished(() => rm(file));
    const before = await server.dump(name);
    await expect(startOnce(url)).rejects.toThrow(
      /000001-hello\.sql.*: permission denied for schema public \(42501\)\n(.|\n)*\nAs boss, .* run:\n {2}grant create on schema public to shop_owner;$/,
    );
    expect(await server.dump(name)).toBe(before);
    await owner.query(ON_PUBLIC);
    await startOnce(url);
  });

  test("without createrole a start and doctor are refused with the statement, and with MIGRATE=check it serves", async () => {
    const { url, owner, environment, name } = await copied("pool");
    await owner.query(onDatabase(name));
    await startOnce(url);
    const root = await connected(server.cluster.url("postgres"));
    onTestFinished(() => root.end());
    await root.query("alter role shop_owner nocreaterole");
    await expect(startOnce(url)).rejects.toThrow("shop_owner lacks createrole: a start makes the logins");
    const found = await outcomeOf(doctor([], environment));
    expect(found.exitCode).toBe(1);
    expect(found.stdout).toContain(
      `error     rights: As a superuser of the server, run: alter role shop_owner createrole; ${ON_PUBLIC}\n`,
    );
    const checked = await outcomeOf(doctor([], { ...environment, MIGRATE: "check" }));
    expect(checked.stdout).toContain(`warning   rights: ${BY} ${ON_PUBLIC}\n`);
    await startOnce(url, { MIGRATE: "check" });
    await root.query("alter role shop_owner createrole");
    await startOnce(url);
  });
});
