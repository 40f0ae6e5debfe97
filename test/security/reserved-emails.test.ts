import { createClient } from "@supabase/supabase-js";
import { expect, test } from "vitest";
import { type Client, useService } from "../support/http-client.ts";
import { sendJson } from "../support/json.ts";
import { linkIn, startMailServer } from "../support/mail-server.ts";

// A user changes their login e-mail from one address of other people to the next.

const PASSWORD = "Correct-Horse-7!";
const server = await startMailServer();
const LIMITS = { registrationsPerAddress: 1000, mailsPerAddress: 1000 };
const client = useService({ ...server.settings, ...LIMITS });
const silent = useService(LIMITS);

let count = 0;
const address = () => `ivy${++count}@test.example`;
const register = (at: Client, email: string) =>
  sendJson(at, "/auth/register", { name: "Ivy", email, password: PASSWORD });

/** The account of a user that has had these e-mails one after the other. */
async function moved(at: Client, emails: readonly string[]) {
  const { json } = await register(at, emails[0]!);
  const headers = { authorization: `Bearer ${json.accessToken}` };
  for (const email of emails.slice(1)) expect((await sendJson(at, "/auth/email", { email }, headers)).status).toBe(200);
  return { id: json.user.id, headers };
}
const reserved = async (at: Client, id: number) =>
  (
    await at.sql(
      "select email from auth_private.login_emails where user_id = $1 and released_at is not null order by email",
      id,
    )
  ).map(({ email }) => email);

test("addresses that were never confirmed are free at once: their owners sign up, in each way, and get no notice", async () => {
  const [first, ...others] = Array.from({ length: 25 }, address) as [string, ...string[]];
  const last = address();
  const { id } = await moved(client, [first, ...others, last]);
  expect(await reserved(client, id)).toEqual([first]);

  expect((await register(client, others[0]!)).status).toBe(201);
  const { url, service } = client.service();
  const { auth } = createClient(url, service.tokens.issueKey("anon"), { auth: { persistSession: false } });
  expect((await auth.signUp({ email: others[1]!, password: PASSWORD })).error).toBeNull();
  expect((await auth.signInWithOtp({ email: others[2]! })).error).toBeNull();
  const { token } = linkIn(await server.next(others[2]!, /^Sign in/));
  expect((await auth.verifyOtp({ token_hash: token, type: "email" })).data.user?.email).toBe(others[2]);

  expect((await server.next(first)).subject).toBe("The e-mail of your account has changed");
  expect(server.mails.filter(({ to }) => others.some((each) => to.includes(each)))).toEqual([]);
});

test("the first of them hears of the change, and is reserved as long as its link undoes it", async () => {
  const emails = [address(), address(), address()] as const;
  const { id, headers } = await moved(client, emails);
  expect((await register(client, emails[0])).status).toBe(409);
  const { token } = linkIn(await server.next(emails[0], /has changed$/));
  expect((await sendJson(client, "/auth/email/undo", { token })).status).toBe(200);
  expect((await client.send("/auth/me", { headers })).status).toBe(401);
  expect(await reserved(client, id)).toEqual([]);

  const [old, next] = [address(), address()];
  const { id: other } = await moved(client, [old, next]);
  const purge = (hours: number) =>
    client.sql(`select auth_api.purge(now() + interval '${hours} hours', '1 day', '90 days', '30 days')`);
  await purge(23);
  expect(await reserved(client, other)).toEqual([old]);
  await purge(25);
  expect([await reserved(client, other), (await register(client, old)).status]).toEqual([[], 201]);
});

test("none of them is reserved if the service sends no e-mails", async () => {
  const emails = [address(), address(), address()] as const;
  expect(await reserved(silent, (await moved(silent, emails)).id)).toEqual([]);
  expect((await register(silent, emails[0])).status).toBe(201);
});

test("one that was confirmed stays reserved, and each one hears of the change", async () => {
  const emails = [address(), address(), address()] as const;
  const { id, headers } = await moved(client, [emails[0]]);
  for (const [i, email] of emails.slice(1).entries()) {
    await client.sql("update auth_private.accounts set email_confirmed_at = now() where user_id = $1", id);
    expect((await sendJson(client, "/auth/email", { email }, headers)).status).toBe(200);
    expect((await server.next(emails[i]!)).subject).toBe("The e-mail of your account has changed");
  }
  expect(await reserved(client, id)).toEqual(emails.slice(0, 2));
  expect((await register(client, emails[0])).status).toBe(409);
});
