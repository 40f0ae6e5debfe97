import { expect, test } from "vitest";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { failureOf, PASSWORD, useAuth } from "./support.ts";

const server = await startMailServer();
const LIMIT = 4;
let now = Date.now();
const settings = {
  ...server.settings,
  EMAIL_CONFIRM: "claim",
  recentSignIn: 600,
  mailsPerRecipient: LIMIT,
};
const { client, newUser, send, sql } = useAuth("bigint", settings, () => now);

const NEW = "Another-Horse-9?";

/** A user whose sign-in is too old to change the password. */
async function userOfOldSession(isConfirmed = true) {
  const user = await newUser();
  if (isConfirmed)
    await sql(
      `update auth_private.accounts set email_confirmed_at = now()
       where user_id = (select user_id from auth_private.login_emails where email = $1)`,
      user.email,
    );
  now += 601_000;
  return user;
}
async function codeTo(email: string) {
  const mail = await server.next(email, /sign in/i);
  return /^\d{6}$/m.exec(mail.text)![0];
}

test("a number that the database cannot store is refused before an e-mail is sent", async () => {
  const data = { n: JSON.rawJSON("1e400000") };
  const body = { email: "huge@test.example", data };
  expect(await send("POST /auth/v1/otp", { body })).toMatchObject({
    status: 400,
    json: { error_code: "validation_failed" },
  });
});

test("reauthenticate sends a code that replaces a recent sign-in, once", async () => {
  const { client: own, email } = await userOfOldSession();
  const change = (nonce?: string) => own.auth.updateUser({ password: NEW, ...(nonce && { nonce }) });
  expect(failureOf(await change())).toEqual([400, "reauthentication_needed"]);
  expect((await own.auth.reauthenticate()).error).toBeNull();
  const code = await codeTo(email);
  expect(failureOf(await change(code === "000000" ? "111111" : "000000"))).toEqual([422, "reauthentication_not_valid"]);
  expect((await change(code)).error).toBeNull();
  expect((await client().auth.signInWithPassword({ email, password: NEW })).error).toBeNull();
  expect(failureOf(await own.auth.updateUser({ password: `${NEW}!`, nonce: code }))).toEqual([
    ...[422, "reauthentication_not_valid"],
  ]);
});

test("the code of another user does not replace a recent sign-in", async () => {
  const { client: own } = await userOfOldSession();
  const other = await userOfOldSession();
  await other.client.auth.reauthenticate();
  const code = await codeTo(other.email);
  expect(failureOf(await own.auth.updateUser({ password: NEW, nonce: code }))).toEqual([
    ...[422, "reauthentication_not_valid"],
  ]);
});

test("the code confirms an e-mail that was not confirmed, and the session, its keys and its factors stay", async () => {
  const { client: own, email, id } = await userOfOldSession(false);
  const account = "select user_id from auth_private.accounts where public_id = $1";
  await sql(
    `insert into auth_private.api_keys (kind, user_id, name, prefix, key_hash)
     values ('user', (${account}), 'kept', 'cs', sha256('kept'))`,
    id,
  );
  expect((await own.auth.getUser()).data.user!.email_confirmed_at).toBeUndefined();
  expect((await own.auth.reauthenticate()).error).toBeNull();
  const { data, error } = await own.auth.updateUser({ password: NEW, nonce: await codeTo(email) });
  expect([error, data.user!.email_confirmed_at]).toEqual([null, expect.any(String)]);
  expect((await own.auth.getUser()).error).toBeNull();
  expect(await sql(`select revoked_at from auth_private.api_keys where user_id = (${account})`, id)).toEqual([
    { revoked_at: null },
  ]);
  const events = await sql(`select event from auth_private.security_events where user_id = (${account})`, id);
  expect(events.map(({ event }) => event)).toEqual(expect.arrayContaining(["email_confirmed", "password_changed"]));
  expect((await client().auth.signInWithPassword({ email, password: NEW })).error).toBeNull();
});

test("verifyOtp with the type email_change changes the e-mail with the token that the new address has received", async () => {
  const { client: own, id } = await newUser();
  const email = `changed-${id}@test.example`;
  const { data } = await own.auth.updateUser({ email });
  expect(data.user!.new_email).toBe(email);
  const { token } = linkIn(await server.next(email, /^Confirm/));
  const verify = (type: "email_change" | "magiclink") =>
    client().auth.verifyOtp({ token_hash: token, type, ...{ password: PASSWORD } });
  expect(failureOf(await verify("magiclink"))).toEqual([403, "otp_expired"]);
  const changed = await verify("email_change");
  expect([changed.error, changed.data.user!.id, changed.data.user!.email]).toEqual([null, id, email]);
  expect((await own.auth.getUser()).data.user!.email).toBe(email);
  expect(failureOf(await verify("email_change"))).toEqual([403, "otp_expired"]);
});

test("the user shows the e-mail that waits for its confirmation, also one that is taken, until the change ends", async () => {
  const { client: own, email: current } = await newUser();
  const shown = async () => {
    const { user } = (await own.auth.getUser()).data;
    return [user!.email, user!.new_email, user!.email_change_sent_at && "sent"];
  };
  const { email: taken } = await newUser();
  for (const email of ["waiting@test.example", taken]) {
    const { data, error } = await own.auth.updateUser({ email });
    expect([error, data.user!.email, data.user!.new_email]).toEqual([null, current, email]);
    expect(await shown()).toEqual([current, email, "sent"]);
  }
  expect((await own.auth.signOut({ scope: "others" })).error).toBeNull();
  expect(await shown()).toEqual([current, undefined, undefined]);
  const email = `waited-${Date.now()}@test.example`;
  await own.auth.updateUser({ email });
  const { token } = linkIn(await server.next(email, /^Confirm/));
  const sent = { token_hash: token, type: "email_change", ...{ password: PASSWORD } } as const;
  const { user } = (await client().auth.verifyOtp(sent)).data;
  expect([user!.email, user!.new_email]).toEqual([email, undefined]);
});

test("resend sends the confirmation of a change of the e-mail once more, named by the present or the new address", async () => {
  const { client: user, id, email: current } = await newUser();
  const email = `resent-${id}@test.example`;
  await user.auth.updateUser({ email });
  const own = { type: "email_change", password: PASSWORD } as const;
  const first = linkIn(await server.next(email, /^Confirm/)).token;
  const resend = async (named: string) => {
    expect((await client().auth.resend({ type: "email_change", email: named })).error).toBeNull();
    return linkIn(await server.next(email, /^Confirm/)).token;
  };
  const tokens = [first, await resend(current), await resend(email.toUpperCase())];
  expect(new Set(tokens).size).toBe(3);
  const expiries = await sql("select distinct expires_at from auth_private.one_time_tokens where email = $1", email);
  expect(expiries).toHaveLength(1);
  const changed = await client().auth.verifyOtp({ token_hash: tokens[2]!, ...own });
  expect([changed.error, changed.data.user!.email]).toEqual([null, email]);
  // The others are for a change from an e-mail that the account has no more.
  const again = await client().auth.verifyOtp({ token_hash: first, ...own });
  expect(failureOf(again)).toEqual([403, "otp_expired"]);
});

test("resend of a change answers the same without one and for an unknown address, and sends nothing", async () => {
  const { email } = await newUser();
  for (const each of [email, "never@test.example"]) {
    const { data, error } = await client().auth.resend({ type: "email_change", email: each });
    expect([data, error]).toEqual([{ user: null, session: null }, null]);
  }
  const left = () =>
    sql("select from auth_private.mails where email in ($1, 'never@test.example') and kind = 'change'", email);
  await expect.poll(left, { timeout: 120_000 }).toEqual([]);
  const tokens = "select from auth_private.one_time_tokens where email = $1 and data ? 'from'";
  expect(await sql(tokens, email)).toEqual([]);
  for (const type of ["sms", "phone_change"] as const)
    expect(failureOf(await client().auth.resend({ type, phone: "+4912345" }))).toEqual([
      ...[400, "phone_provider_disabled"],
    ]);
});

test("resend cannot send a new address more than mailsPerRecipient e-mails", async () => {
  const { client: own, id, email: current } = await newUser();
  const email = `flooded-${id}@test.example`;
  await own.auth.updateUser({ email });
  await server.next(email, /^Confirm/);
  for (let i = 0; i < LIMIT; i++) await client().auth.resend({ type: "email_change", email: current });
  await expect
    .poll(() => sql("select from auth_private.mails where kind = 'change'"), { timeout: 120_000 })
    .toEqual([]);
  const tokens = await sql("select from auth_private.one_time_tokens where email = $1", email);
  expect(tokens).toHaveLength(LIMIT);
});
