import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { readSurvey } from "../../parts/development/existing/survey.ts";
import { planFor } from "../../parts/development/init/plan.ts";
import { EMBEDDED, type ForeignServer, startForeignServer } from "../modules/foreign-server.ts";
import type { TestDatabase } from "../support/database.ts";
import { sendTo } from "../support/resource-client.ts";
import { startTestService, type TestService } from "../support/service.ts";

/** As in a database of Supabase: every new function may be called by callers, and by a role of which they are members. */
const APPLICATION = `
  create role shop_member;
  alter default privileges in schema public grant execute on functions to anon, authenticated, shop_member;
  grant usage on schema public to anon, authenticated, shop_member;
  create table public.users (id uuid primary key default gen_random_uuid(), email text not null unique, name text not null);
  alter table public.users enable row level security;
  grant select on public.users to shop_member;
  insert into public.users (email, name) values ('ada@example.com', 'Ada')`;

const SETTINGS = { MODULES: "auth,tasks,channels", AUTH_USER_ID: "uuid", API_KEY_REQUIRED: "off", SIGNUP: "open" };

describe("with default privileges", () => {
  let server: ForeignServer;
  let database: TestDatabase;
  let started: TestService;
  beforeAll(async () => {
    server = await startForeignServer(undefined, EMBEDDED);
    database = await server.makeDatabase("shop", APPLICATION);
    const { signIn } = await planFor(database.url, await readSurvey(database.owner));
    started = await startTestService(SETTINGS, database, undefined, undefined, { definition: NO_APPLICATION });
    await database.owner.query(signIn.text);
    await database.owner.query(
      "create function public.hello() returns text language sql return 'hello'; notify pgrst, 'reload schema'",
    );
  });
  afterAll(async () => {
    await started?.stop();
    await server?.cluster.remove();
  });

  test.each([
    ["new_user", { fields: { email: "eve@example.com", name: "Eve" } }],
    ["new_email", { user_id: "00000000-0000-4000-8000-000000000000", email: "eve@example.com" }],
  ])("no caller may call the hook %s that init writes", async (name, body) => {
    // Others than these two may be called, and the catalog is current.
    await expect
      .poll(async () => (await sendTo(started.url, "POST /rest/v1/rpc/hello", { body: {} })).status)
      .toBe(200);
    expect(await sendTo(started.url, `POST /rest/v1/rpc/${name}`, { body })).toMatchObject({
      status: 401,
      json: { code: "42501" },
    });
    const { rows } = await database.owner.query(
      `select r.name from unnest(array['anon', 'authenticated', 'shop_member']) as r (name), pg_proc as p
       where p.proname = $1 and p.pronamespace = 'public'::regnamespace and has_function_privilege(r.name, p.oid, 'execute')`,
      [name],
    );
    expect(rows).toEqual([]);
  });
});
