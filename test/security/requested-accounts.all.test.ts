import { afterAll, beforeAll, expect, test } from "vitest";
import { NO_APPLICATION } from "../../app/load.ts";
import { readSurvey } from "../../parts/development/existing/survey.ts";
import { accountsFor } from "../../parts/development/init/database-accounts.ts";
import { planFor } from "../../parts/development/init/plan.ts";
import { EMBEDDED, type ForeignServer, startForeignServer } from "../modules/foreign-server.ts";
import type { TestDatabase } from "../support/database.ts";
import { sendTo } from "../support/resource-client.ts";
import { startTestService, type TestService } from "../support/service.ts";

/** The table of an application whose API lets visitors add themselves. */
const APPLICATION = `
  create table public.users (id uuid primary key default gen_random_uuid(), email text not null unique, name text not null,
    password_hash text, email_verified_at timestamptz);
  alter table public.users enable row level security;
  grant usage on schema public to anon, service_role;
  create policy "visitors add themselves" on public.users for insert to anon with check (true);
  grant insert on public.users to anon, service_role`;

/** Of `U*U`. */
const HASH = "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
const SETTINGS = {
  MODULES: "auth,tasks,channels",
  AUTH_USER_ID: "uuid",
  API_KEY_REQUIRED: "off",
  SIGNUP: "open",
  EMAIL_CONFIRM: "required",
  MAIL_URL: "keep",
};

let server: ForeignServer;
let database: TestDatabase;
let started: TestService;
beforeAll(async () => {
  server = await startForeignServer(undefined, EMBEDDED);
  database = await server.makeDatabase("shop", APPLICATION);
  const plan = await planFor(database.url, await readSurvey(database.owner));
  started = await startTestService(SETTINGS, database, undefined, undefined, { definition: NO_APPLICATION });
  await database.owner.query(`${plan.signIn.text}; ${accountsFor(plan)!.later}; notify pgrst, 'reload schema'`);
});
afterAll(async () => {
  await started?.stop();
  await server?.cluster.remove();
});

const userOf = (name: string) => ({
  email: `${name}@example.com`,
  name,
  password_hash: HASH,
  email_verified_at: "2020-01-01",
});
const signIn = async (name: string) =>
  (await sendTo(started.url, "POST /auth/login", { body: { username: `${name}@example.com`, password: "U*U" } }))
    .status;
const accountOf = async (name: string) =>
  (
    await database.owner.query(
      `select a.password_hash is not null as password, a.email_confirmed_at is not null as confirmed
       from auth_private.accounts as a where a.name = $1`,
      [name],
    )
  ).rows;

test.each(["anon", "service_role"] as const)(
  "a row that a request adds as %s brings no password to its account, and no confirmed e-mail",
  async (role) => {
    const key = started.service.tokens.issueKey(role);
    const headers = { apikey: key, authorization: `Bearer ${key}` };
    const add = async () => (await sendTo(started.url, "POST /rest/v1/users", { body: userOf(role), headers })).status;
    await expect.poll(add).toBe(201);
    expect(await accountOf(role)).toEqual([{ password: false, confirmed: false }]);
    expect(await signIn(role)).toBe(401);
  },
);

test("a row that another application adds brings both", async () => {
  await database.owner.query(
    "insert into public.users (email, name, password_hash, email_verified_at) values ($1, $2, $3, $4)",
    Object.values(userOf("other")),
  );
  expect(await accountOf("other")).toEqual([{ password: true, confirmed: true }]);
  expect(await signIn("other")).toBe(200);
});
