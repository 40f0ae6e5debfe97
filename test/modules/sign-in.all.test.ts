import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { defineResource } from "../../app/index.ts";
import { NO_APPLICATION } from "../../app/load.ts";
import { USER_ID_TYPES, type UserIdType } from "../../config/modules.ts";
import { hashCheaply } from "../support/cluster.ts";
import { CLIENT_ID, CLIENT_SECRET, IdentityProvider, signInAt } from "../support/identity-provider.ts";
import { sendTo } from "../support/resource-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { appCode } from "../support/totp.ts";
import { WebClient } from "../support/web-client.ts";
import { applicationOf, type ForeignServer, SERVERS, signInSql, startForeignServer } from "./foreign-server.ts";

const PASSWORD = "Correct-Horse-7!";
const EMAIL = "ada@example.com";
const MINUTE = 60_000;
const SETTINGS = { MIGRATE: "modules", MODULES: "auth", GRAPHQL_MAX_TABLES: "0", AUTH_PROVIDERS_LOOPBACK: "on" };

const users = defineResource({
  name: "users",
  singular: "user",
  about: "Who signs in.",
  table: "public.users",
  fields: { id: {}, name: { write: "always", isRequired: true }, email: { write: "always", isRequired: true } },
  hasAccount: true,
});
const definition = { ...NO_APPLICATION, config: { resources: [users] } };

const FORMS: Readonly<Record<UserIdType, RegExp>> = {
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

describe.each(SERVERS)("PostgreSQL $version", (version) => {
  let server: ForeignServer;
  let idp: IdentityProvider;
  let folder: string;
  beforeAll(async () => {
    server = await startForeignServer(undefined, version);
    idp = await IdentityProvider.start();
    folder = await mkdtemp(join(tmpdir(), "providers-"));
  });
  afterAll(async () => {
    await server?.cluster.remove();
    idp?.close();
    await rm(folder, { recursive: true });
  });

  /** A service beside the users of another application, whose ids have this type. */
  async function start(name: string, type: UserIdType, clock?: () => number) {
    const database = await server.makeDatabase(name, applicationOf(type));
    const before = await server.dump(name);
    const providers = join(folder, `${name}.json`);
    const acme = { name: "acme", kind: "oidc", issuer: idp.url, clientId: CLIENT_ID, clientSecret: CLIENT_SECRET };
    await writeFile(providers, JSON.stringify([acme]));
    const settings = { ...SETTINGS, AUTH_USER_ID: type, AUTH_PROVIDERS: providers };
    const started = await startTestService(settings, database, undefined, clock, { definition });
    onTestFinished(started.stop);
    expect(await server.dump(name)).toBe(before);
    await database.owner.query(signInSql(type));
    const send = (request: string, body?: object, token?: string) =>
      sendTo(started.url, request, { body, headers: token === undefined ? {} : { authorization: `Bearer ${token}` } });
    return { ...started, database, send };
  }

  const idsOf = async ({ database }: Pick<TestService, "database">) =>
    (await database.owner.query("select id::text from users order by email")).rows.map(({ id }) => id);

  test.each(USER_ID_TYPES)("users with %s ids enable a second factor, and sign in with a provider", async (type) => {
    let now = Date.now();
    const started = await start(`sign_in_${type}`, type, () => now);
    const { send, url, database } = started;
    await database.owner.query("select auth_api.register($1, null, null, null, $2)", [
      { name: "Ada", email: EMAIL },
      await hashCheaply(PASSWORD),
    ]);
    const login = { username: EMAIL, password: PASSWORD };
    const { accessToken } = (await send("POST /auth/login", login)).json;
    const { secret } = (await send("POST /api/mfa/enable", undefined, accessToken)).json;
    const confirmed = await send(`POST /api/mfa/verify?code=${appCode(secret, now)}`, undefined, accessToken);
    expect([confirmed.status, confirmed.json.backupCodes]).toEqual([200, expect.any(Array)]);
    now += 2 * MINUTE;
    expect((await send("POST /auth/login", login)).status).toBe(401);
    expect((await send("POST /auth/login", { ...login, code: appCode(secret, now) })).status).toBe(200);

    await idp.register({ redirectUris: [`${url}/auth/oidc/acme/callback`] });
    const browser = new WebClient();
    const callback = await signInAt(browser, `${url}/auth/oidc/acme`, "mary");
    expect((await browser.request(callback.url)).status).toBe(200);
    const { json: me } = await browser.request(`${url}/api/auth/me`);
    expect(me).toMatchObject({ username: "mary@acme.example", role: "authenticated" });
    const [ada, mary] = await idsOf(started);
    expect([ada, mary]).toEqual([expect.stringMatching(FORMS[type]), String(me.userId)]);
    expect(typeof me.userId).toBe(type === "uuid" || type === "text" ? "string" : "number");
  });

  // Keys of resources are integers or UUIDs.
  test.each(["uuid", "bigint", "integer"] as const)("users with %s ids register, and read themselves", async (type) => {
    const started = await start(`register_${type}`, type);
    const { send, database } = started;
    await database.owner.query(READ_THEMSELVES);
    const register = () => send("POST /auth/register", { name: "Ada", email: EMAIL, password: PASSWORD });
    const registered = await register();
    expect([registered.status, registered.json]).toMatchObject([201, { user: { name: "Ada", email: EMAIL } }]);
    const { id } = registered.json.user;
    expect(await idsOf(started)).toEqual([String(id)]);
    expect((await send(`GET /users/${id}`, undefined, registered.json.accessToken)).json).toMatchObject({
      email: EMAIL,
    });
    expect((await register()).status).toBe(409);
  });

  test("users who may not read their own row register all the same", async () => {
    const { send } = await start("sign_in_hidden", "uuid");
    const registered = await send("POST /auth/register", { name: "Ada", email: EMAIL, password: PASSWORD });
    expect([registered.status, registered.json]).toMatchObject([
      201,
      { user: { id: expect.stringMatching(FORMS.uuid) } },
    ]);
    expect(Object.keys(registered.json.user)).toEqual(["id"]);
    const created = await send("POST /users", { name: "Bob", email: "bob@example.com", password: PASSWORD });
    expect([created.status, created.text]).toEqual([201, ""]);
    expect((await send("POST /auth/login", { username: "bob@example.com", password: PASSWORD })).status).toBe(200);
  });
});
