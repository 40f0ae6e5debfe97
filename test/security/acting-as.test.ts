import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { type ConsoleClient, consoleClient, textOf } from "../support/console-client.ts";
import { startTestService, type TestService } from "../support/service.ts";

const PASSWORD = "Correct-Horse-7!";

let service: TestService;
let admin: ConsoleClient;
beforeAll(async () => {
  service = await startTestService({ PARTS: "+console", API_KEY_REQUIRED: "off" });
  admin = await consoleClient(service, service.token("admin"));
  return () => service.stop();
});

const newEmail = () => `new-${randomUUID()}@example.com`;
const now = () => Math.floor(Date.now() / 1000);

/** Sends a request of the console as a caller, and keeps the changes. */
const tryAs = async (fields: Readonly<Record<string, string>>, operator = admin) =>
  textOf(await operator.send("/try", { kind: "rest", keep: "on", ...fields }));

/** A change of the e-mail of a user in the console. */
const changeEmail = (user: number, email: string) => ({
  method: "PATCH",
  path: `/rest/v1/users?id=eq.${user}`,
  body: JSON.stringify({ email }),
});

const asRole = (claims: object) => ({ as: "role", role: "authenticated", claims: JSON.stringify(claims) });

const emailOf = async (user: number) =>
  (await service.database.owner.query("select email from public.users where id = $1", [user])).rows[0].email;

const loginEmailOf = async (user: number) =>
  (
    await service.database.owner.query(
      "select email from auth_private.login_emails where user_id = $1 and released_at is null",
      [user],
    )
  ).rows[0].email;

const signIn = async (username: string) => {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ username, password: PASSWORD });
  return (await fetch(`${service.url}/auth/login`, { method: "POST", headers, body })).status;
};

/** The newest event of a user. */
const lastEvent = async (user: number | null, event: string) =>
  (
    await service.database.owner.query(
      `select operator, detail from public.security_events
       where user_id is not distinct from $1 and event = $2 order by id desc limit 1`,
      [user, event],
    )
  ).rows[0];

describe("a request that an operator tries", () => {
  test.each([
    ["when the user signed in", { auth_time: now() }, "auth_time"],
    ["the user and when they signed in", { sub: "2", auth_time: now() }, "auth_time"],
    ["a sign-in", { sid: randomUUID() }, "sid"],
    ["a session", { session_id: randomUUID() }, "session_id"],
    ["an epoch", { epoch: 0 }, "epoch"],
    ["methods of authentication", { amr: [{ method: "totp" }] }, "amr"],
    ["a level of assurance", { aal: "aal2" }, "aal"],
    ["a class of authentication", { acr: "2" }, "acr"],
    ["a second factor", { mfa: true }, "mfa"],
  ])("cannot claim %s for a role", async (_, claims, claim) => {
    const email = newEmail();
    const page = await tryAs({ ...changeEmail(2, email), ...asRole(claims) });
    expect(page).toContain(`Only a sign-in sets the claim “${claim}”`);
    expect(await emailOf(2)).not.toBe(email);
  });

  test.each([{ sub: "2" }, { sub: 2 }, { sub: "02" }])(
    "cannot claim the user of an account for a role: %j",
    async (claims) => {
      const email = newEmail();
      const page = await tryAs({ ...changeEmail(2, email), ...asRole(claims) });
      expect(page).toContain("To act as a user, choose “a user”");
      expect(await emailOf(2)).not.toBe(email);
    },
  );

  test("changes the e-mail of a user but not what the user signs in with, and the event names the operator", async () => {
    const [email, loginEmail] = [newEmail(), await loginEmailOf(2)];
    expect(await tryAs({ ...changeEmail(2, email), as: "user", user: "bob" })).toContain("Response: 204");
    expect(await emailOf(2)).toBe(email);
    expect(await loginEmailOf(2)).toBe(loginEmail);
    expect([await signIn(email), await signIn(loginEmail)]).toEqual([401, 200]);
    expect(await lastEvent(2, "email_changed")).toMatchObject({
      operator: "user 3",
      detail: { to: email, user: 2, role: "authenticated" },
    });
  });

  test("names the service key as the operator", async () => {
    const operator = await consoleClient(service, service.service.tokens.issueKey("service_role"));
    await tryAs({ ...changeEmail(2, newEmail()), as: "user", user: "bob" }, operator);
    expect(await lastEvent(2, "email_changed")).toMatchObject({ operator: "role service_role" });
  });

  test("is never that of a recent sign-in, whatever its claims are", async () => {
    const { owner } = service.database;
    await owner.query("begin");
    const claims = JSON.stringify({ sub: "2", role: "authenticated", auth_time: now() });
    const isRecent = async () => (await owner.query("select auth.has_recent_sign_in() as is")).rows[0].is;
    await owner.query("select set_config('request.jwt.claims', $1, true)", [claims]);
    expect(await isRecent()).toBe(true);
    await owner.query("select set_config('request.operator', 'user 3', true)");
    expect(await isRecent()).toBe(false);
    await owner.query("rollback");
  });

  test("creates no account", async () => {
    const email = newEmail();
    const body = JSON.stringify({ name: "Made in the console", email, password: PASSWORD });
    const page = await tryAs({ method: "POST", path: "/users", body });
    expect(page).toContain("Response: 403");
    expect(page).toContain("the console creates no accounts");
    expect(await signIn(email)).toBe(401);
  });

  test("creates a user without an account in its transaction, which is rolled back", async () => {
    const email = newEmail();
    const body = JSON.stringify({ name: "Tried", email });
    const tried = { kind: "rest", method: "POST", path: "/users", body };
    expect(textOf(await admin.send("/try", tried))).toContain("Response: 201");
    const { rowCount } = await service.database.owner.query("select from public.users where email = $1", [email]);
    expect(rowCount).toBe(0);
  });
});

describe("an event names the operator who acted for a user", () => {
  const patch = (email: string, headers: Readonly<Record<string, string>>) =>
    fetch(`${service.url}/rest/v1/users?id=eq.2`, {
      method: "PATCH",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ email }),
    });

  test("an administrator at the API", async () => {
    const response = await patch(newEmail(), { authorization: `Bearer ${service.token("admin")}` });
    expect(response.status).toBe(204);
    expect(await lastEvent(2, "email_changed")).toMatchObject({ operator: "user 3", detail: { user: 3 } });
  });

  test("the service key at the API", async () => {
    const key = service.service.tokens.issueKey("service_role");
    expect((await patch(newEmail(), { apikey: key })).status).toBe(204);
    expect(await lastEvent(2, "email_changed")).toMatchObject({ operator: "role service_role" });
  });

  test("a login that uses SQL", async () => {
    const { owner } = service.database;
    await owner.query("update auth_private.accounts set disabled_at = null where user_id = 4");
    expect(await lastEvent(4, "account_enabled")).toMatchObject({ operator: "login postgres" });
    await owner.query("select auth_api.note_event('key_created', null, null, null, now())");
    expect(await lastEvent(null, "key_created")).toMatchObject({ operator: "login postgres" });
  });

  test("a login that acts as a user in psql, which is no recent sign-in", async () => {
    const { owner } = service.database;
    const loginEmail = await loginEmailOf(2);
    await owner.query("begin");
    await owner.query("select auth.act_as('bob')");
    await owner.query("update public.users set email = $1 where id = 2", [newEmail()]);
    await owner.query("commit");
    expect(await lastEvent(2, "email_changed")).toMatchObject({ operator: "login postgres", detail: { user: 2 } });
    expect(await loginEmailOf(2)).toBe(loginEmail);
  });

  test("no operator for what users do themselves", async () => {
    expect((await patch(newEmail(), { authorization: `Bearer ${service.token("bob")}` })).status).toBe(204);
    expect(await lastEvent(2, "email_changed")).toMatchObject({ operator: null });
    expect(await lastEvent(2, "login_email_changed")).toMatchObject({ operator: null });
    await signIn("ada");
    expect(await lastEvent(1, "login")).toMatchObject({ operator: null });
  });
});
