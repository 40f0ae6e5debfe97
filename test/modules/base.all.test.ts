import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { installWithBase } from "../../cli/base.ts";
import { type ScratchCluster, startScratchCluster } from "../../cli/scratch-cluster.ts";
import type { ModuleName } from "../../config/modules.ts";
import { withClient } from "../../db/cluster/client.ts";
import { migrate } from "../../db/cluster/migrate.ts";
import { inNewDatabase } from "../../parts/development/migrations/compare.ts";
import { findDrift } from "../../parts/development/migrations/drift.ts";
import { SUPABASE } from "./supabase.ts";

/** The `db/` of an application. */
let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "base-"));
  onTestFinished(() => rm(home, { recursive: true }));
  await mkdir(join(home, "base"));
});
const write = (text: string) => writeFile(join(home, "base/schema.sql"), text);

describe("db/base", () => {
  let cluster: ScratchCluster;
  beforeAll(async () => {
    cluster = await startScratchCluster();
  });
  afterAll(() => cluster?.remove());

  const install = (...modules: readonly ModuleName[]) =>
    inNewDatabase(cluster, "installed", async (url) => {
      await installWithBase(url, join(home, "base"), { modules, userId: "" });
      const { rows } = await withClient(url, (client) =>
        client.query("select array_agg(module order by module) as modules from content_service.modules"),
      );
      return rows[0].modules;
    });

  test("with the schema auth of Supabase gets the other modules beside it", async () => {
    await write(`-- PostgreSQL database dump\n${SUPABASE}`);
    expect(await install("tasks", "feed")).toEqual(["caller", "feed", "tasks"]);
  });

  test("with schemas that the chosen modules need is refused as its database would be", async () => {
    await write(SUPABASE);
    await expect(install("auth", "tasks", "channels")).rejects.toThrow(
      "with names that its modules need: auth (module auth), realtime (module channels). To use the other modules, set MODULES=tasks.",
    );
  });

  test("may use the modules, if it has no schema of their names", async () => {
    await write("create table public.notes (owner_id uuid default auth.uid()); -- not as in create schema auth");
    expect(await install("auth")).toEqual(["auth", "caller"]);
  });

  test("with the schemas of the service is refused with the dump to make instead", async () => {
    await write('CREATE SCHEMA auth;\nCREATE SCHEMA IF NOT EXISTS "content_service";');
    await expect(install("auth")).rejects.toThrow(
      /^db\/base\/schema\.sql has the schemas of the service, .* append the statements of the other application to it, .* pg_dump --schema-only --no-owner --no-publications --no-subscriptions --exclude-schema=auth .*--exclude-schema=content_service --exclude-schema=graphile_migrate$/,
    );
  });

  test("with the schema auth of Supabase is what migrate check compares its database with", async () => {
    await write(SUPABASE);
    await mkdir(join(home, "migrations/committed"), { recursive: true });
    const installation = { folder: join(home, "migrations"), modules: ["tasks"] as const, userId: "" as const };
    const expected = await startScratchCluster();
    try {
      await inNewDatabase(cluster, "supabase", async (url) => {
        const change = (text: string) => withClient(url, (client) => client.query(text));
        await change("create role anon; create role authenticated; create role service_role bypassrls");
        await change(SUPABASE);
        await migrate(url, () => {}, installation);
        const drift = async () =>
          (await findDrift(url, expected, { ...installation, anonymousRole: "anon" })).drift.map(({ name }) => name);
        expect(await drift()).toEqual([]);
        await change("alter table public.todos add column is_done boolean");
        expect(await drift()).toEqual(["public.todos.is_done"]);
      });
    } finally {
      await expected.remove();
    }
  });
});
