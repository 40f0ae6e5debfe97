import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, onTestFinished } from "vitest";
import { defineResource } from "../../app/index.ts";
import { NO_APPLICATION } from "../../app/load.ts";
import { user } from "../../cli/user.ts";
import type { UserIdType } from "../../config/modules.ts";
import { hashCheaply } from "../support/cluster.ts";
import { CLIENT_ID, CLIENT_SECRET, IdentityProvider, signInAt } from "../support/identity-provider.ts";
import { sendTo } from "../support/resource-client.ts";
import { JWT_SECRET, startTestService } from "../support/service.ts";
import { appCode } from "../support/totp.ts";
import { WebClient } from "../support/web-client.ts";
import { applicationOf, blockOf, type ForeignServer, signInSql } from "./foreign-server.ts";

export const PASSWORD = "Correct-Horse-7!";
const MINUTE = 60_000;
/** Those of docs/existing-database.md: `MIGRATE=modules`. */
const DOCUMENTED = Object.fromEntries(
  blockOf("ini")
    .trim()
    .split("\n")
    .map((line) => line.split("=")),
);

/** The users of the other application as a resource, whose keys are integers or UUIDs. */
export const USERS = defineResource({
  name: "users",
  singular: "user",
  about: "Who signs in.",
  table: "public.users",
  fields: { id: {}, name: { write: "always", isRequired: true }, email: { write: "always", isRequired: true } },
  hasAccount: true,
});
const WITH_USERS = { ...NO_APPLICATION, config: { resources: [USERS] } };

export const ID_FORMS: Readonly<Record<UserIdType, RegExp>> = {
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  text: /^user-[0-9a-f-]{36}$/,
  bigint: /^\d+$/,
  integer: /^\d+$/,
};

const READ_THEMSELVES = `
  alter table public.users enable row level security;
  create policy "users read themselves" on public.users for select to authenticated using (id = (select auth.uid()));
  grant usage on schema public to authenticated;
  grant select on public.users to authenticated;
  notify pgrst, 'reload schema'`;

type Sent = { readonly body?: object; readonly token?: string | undefined; readonly apikey?: string };

/** A service beside the users of another application, whose schemas stay byte for byte. */
export async function startBeside(server: ForeignServer, name: string, type: UserIdType, clock?: () => number) {
  const database = await server.makeDatabase(name, applicationOf(type));
  const before = await server.dump(name);
  const idp = await IdentityProvider.start();
  const providers = join(tmpdir(), `${name}-${crypto.randomUUID()}.json`);
  const acme = { name: "acme", kind: "oidc", issuer: idp.url, clientId: CLIENT_ID, clientSecret: CLIENT_SECRET };
  await writeFile(providers, JSON.stringify([acme]));
  const others = type === "uuid" ? {} : { MODULES: "auth,tasks,channels", AUTH_USER_ID: type, INSTANCE_ID: "web1" };
  const provided = { AUTH_PROVIDERS: providers, AUTH_PROVIDERS_NETWORKS: "loopback", GRAPHQL_DOCUMENTS: "any" };
  const settings = { ...DOCUMENTED, ...others, ...provided };
  const definition = type === "text" ? NO_APPLICATION : WITH_USERS;
  const started = await startTestService(settings, database, undefined, clock, { definition });
  onTestFinished(async () => {
    await started.stop();
    idp.close();
    await rm(providers);
  });
  expect(await server.dump(name)).toBe(before);
  await database.owner.query(signInSql(type));
  const send = (request: string, { body, token, apikey }: Sent = {}) => {
    const authorization = token !== undefined && { authorization: `Bearer ${token}` };
    return sendTo(started.url, request, {
      body,
      headers: { ...authorization, ...(apikey !== undefined && { apikey }) },
    });
  };
  return { ...started, database, idp, send, environment: { ...settings, DATABASE_URL: database.url, JWT_SECRET } };
}

/** Everything that users do whose ids have this type. */
export async function showSignIn(server: ForeignServer, type: UserIdType): Promise<void> {
  let now = Date.now();
  const started = await startBeside(server, `shop_${type}`, type, () => now);
  const { service, send, idp, url } = started;
  const { owner } = started.database;
  const idOf = async (email: string) =>
    (await owner.query("select id::text from users where email = $1", [email])).rows[0].id;
  const fields = { name: "Ada", email: "ada@example.com" };
  await owner.query("select auth_api.register($1, 'ada', $2)", [fields, await hashCheaply(PASSWORD)]);
  await user(["create", "Bob", "bob@example.com"], started.environment, () => Readable.from([PASSWORD]));
  for (const email of [fields.email, "bob@example.com"]) expect(await idOf(email)).toMatch(ID_FORMS[type]);
  await owner.query("insert into notes select row_number() over (), id, 'of ' || name from users");
  const bob = { username: "bob@example.com", password: PASSWORD };
  expect((await send("POST /auth/login", { body: bob })).status).toBe(200);

  const login = await send("POST /auth/login", { body: { username: "ada", password: PASSWORD } });
  expect(login.status).toBe(200);
  const next = await send("POST /auth/refresh", { body: { refreshToken: login.json.refreshToken } });
  expect(next.status).toBe(200);
  const token = next.json.accessToken;
  const apikey = service.tokens.issueKey("anon");
  const notes = async (by: Sent) => (await send("GET /rest/v1/notes?select=text", by)).json;
  await expect.poll(() => notes({ token, apikey })).toEqual([{ text: "of Ada" }]);
  // Without the feed nothing announces changes of the schema.
  await owner.query("notify pgrst, 'reload schema'");
  const body = { query: "{ notes { edges { node { text } } } }" };
  await expect
    .poll(async () => (await send("POST /graphql", { token, body })).json)
    .toEqual({ data: { notes: { edges: [{ node: { text: "of Ada" } }] } } });
  const key = await send("POST /auth/keys", { token, body: { name: "program" } });
  expect(key.status).toBe(201);
  expect(await notes({ apikey: key.json.key })).toEqual([{ text: "of Ada" }]);

  // A token of this service for an id that no user can have.
  const pair = { refreshToken: "", signedInAt: now };
  const other = service.tokens.issuePair({ id: "no user", name: "", role: "authenticated", permissions: [] }, pair);
  expect((await send("GET /rest/v1/notes", { token: other.accessToken, apikey })).status).toBe(401);

  // What docs/deployment.md marks with (feed): without this module the service reads no changes.
  const slots = await owner.query("select from pg_replication_slots where database = current_database()");
  expect(slots.rowCount).toBe(0);

  await owner.query(READ_THEMSELVES);
  if (type !== "text") {
    const eve = { body: { name: "Eve", email: "eve@example.com", password: PASSWORD } };
    const registered = await send("POST /auth/register", eve);
    expect([registered.status, registered.json]).toMatchObject([201, { user: { name: "Eve", email: eve.body.email } }]);
    const { id } = registered.json.user;
    expect(await idOf(eve.body.email)).toBe(String(id));
    const read = await send(`GET /users/${id}`, { token: registered.json.accessToken });
    expect(read.json).toMatchObject({ email: eve.body.email });
    expect((await send("POST /auth/register", eve)).status).toBe(409);
  }

  const { secret } = (await send("POST /api/mfa/enable", { token })).json;
  const confirmed = await send(`POST /api/mfa/verify?code=${appCode(secret, now)}`, { token });
  expect([confirmed.status, confirmed.json.backupCodes]).toEqual([200, expect.any(Array)]);
  now += 2 * MINUTE;
  const again = { username: "ada@example.com", password: PASSWORD };
  expect((await send("POST /auth/login", { body: again })).status).toBe(401);
  expect((await send("POST /auth/login", { body: { ...again, code: appCode(secret, now) } })).status).toBe(200);

  await idp.register({ redirectUris: [`${url}/auth/oidc/acme/callback`] });
  const browser = new WebClient();
  const callback = await signInAt(browser, `${url}/auth/oidc/acme`, "mary");
  expect((await browser.request(callback.url)).status).toBe(200);
  const { json: me } = await browser.request(`${url}/api/auth/me`);
  expect(me).toMatchObject({ username: "mary@acme.example", role: "authenticated" });
  expect(await idOf("mary@acme.example")).toBe(String(me.userId));
  expect(typeof me.userId).toBe(type === "uuid" || type === "text" ? "string" : "number");

  await owner.query("delete from notes; delete from users");
  expect((await owner.query("select from auth_private.accounts")).rowCount).toBe(0);
}
