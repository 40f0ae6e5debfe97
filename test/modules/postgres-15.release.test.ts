import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { outcomeOf } from "../../cli/command.ts";
import { moduleCommand } from "../../cli/module.ts";
import { startScratchCluster } from "../../cli/scratch-cluster.ts";
import { MODULE_NAMES } from "../../config/modules.ts";
import { withClient } from "../../db/cluster/client.ts";
import { migrate } from "../../db/cluster/migrate.ts";
import { migrationCommand } from "../../parts/development/migrations/migrate.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";
import { CHANGES, FOUND, foundIn, HEADER, MIGRATION } from "./drift-objects.ts";
import { applicationOf, DEBIAN, DEBIAN_15, hasServer, startForeignServer } from "./foreign-server.ts";

const MODULES = ["caller", "auth", "tasks", "feed", "channels"];

// Where PostgreSQL 15 differs from 18: who may grant a role, what the catalog has of an object, and what it writes of one.
describe.skipIf(!hasServer)("on PostgreSQL 15", () => {
  test("drift from the migrations, which run on PostgreSQL 18, is named object by object, and is nothing else", async () => {
    const cluster = await startScratchCluster(DEBIAN_15);
    const home = await mkdtemp(join(tmpdir(), "drift-"));
    const folder = join(home, "migrations");
    for (const name of ["committed", "fixtures"]) await mkdir(join(folder, name), { recursive: true });
    await writeFile(join(folder, "committed/000001-base.sql"), `${HEADER}${MIGRATION}`);
    onTestFinished(async () => {
      await cluster.remove();
      await rm(home, { recursive: true });
    });
    await withClient(cluster.url("postgres"), (root) => root.query("create database changed"));
    const url = cluster.url("changed");
    await migrate(url, () => {}, { folder, modules: MODULE_NAMES, userId: "" });
    const environment = { DATABASE_URL: url, JWT_SECRET };
    const check = () => outcomeOf(migrationCommand(["check", "--database"], { environment, folder }));
    expect(await check()).toMatchObject({ exitCode: 0, stderr: "" });
    await withClient(url, (owner) => owner.query(CHANGES));
    expect(foundIn((await check()).stdout).toSorted()).toEqual(FOUND.toSorted());
  });

  test("modules are removed without a trace, and roles that something uses stay", async () => {
    const server = await startForeignServer("alter role shop_owner superuser", DEBIAN);
    onTestFinished(() => server.cluster.remove());
    const database = await server.makeDatabase("shop", applicationOf("uuid"));
    const kept = { ...database, drop: async () => {} };
    const settings = { MIGRATE: "modules", MODULES: "auth,tasks,feed,channels" };
    const start = async () =>
      (await startTestService(settings, kept, undefined, undefined, { definition: NO_APPLICATION })).stop();
    const remove = () =>
      moduleCommand(["remove", ...MODULES, "--yes"], { ...settings, JWT_SECRET, DATABASE_URL: database.url });
    const roles = async () =>
      (await database.owner.query("select rolname from pg_roles where rolname !~ '^pg_' order by rolname")).rows.map(
        ({ rolname }) => rolname,
      );
    const before = [await server.dump("shop"), await roles()];
    await start();
    expect(await roles()).toContain("shop_data");
    expect(await remove()).toMatch(/^Removed: caller auth tasks feed channels\. [^\n]*\n$/);
    expect([await server.dump("shop"), await roles()]).toEqual(before);
    await start();
    await database.owner.query("create role shop_member in role authenticated; grant select on notes to anon");
    expect(await remove()).toMatch(/ {2}anon: .*\n(?:.*\n)* {2}authenticated: .*its member shop_member\n/);
    expect(await roles()).toEqual(["anon", "authenticated", "postgres", "shop_member", "shop_owner"]);
    await database.drop();
  });
});
