import { describe, expect, test } from "vitest";
import { failureOf, useAuth } from "../parts/supabase-auth/support.ts";
import { linkIn, startMailServer } from "../support/mail-server.ts";
import { POLL } from "../support/until.ts";

// A thief with a stolen sign-in begins something, and the owner signs out before it is completed.

const server = await startMailServer();
const { client, newUser, send, sql } = useAuth("bigint", { ...server.settings, EMAIL_CONFIRM: "claim" });

/** The id in the application of the user with an e-mail. */
const idOf = async (email: string) =>
  (await sql("select user_id from auth_private.login_emails where email = $1", email))[0].user_id as string;

describe("a pending change of the e-mail", () => {
  const ends = {
    "with a sign-out everywhere": (owner: any) => owner.auth.signOut({ scope: "global" }),
    "with a sign-out of the other sessions": (owner: any) => owner.auth.signOut({ scope: "others" }),
    "when an operator signs the user out": async (_owner: any, email: string) => {
      await sql("select auth_api.end_sign_ins($1, null)", await idOf(email));
      return { error: null };
    },
  };
  test.each(Object.entries(ends))("a change of the e-mail that is not confirmed ends %s", async (_, signOut) => {
    const { client: thief, email } = await newUser();
    const owner = client();
    await owner.auth.signInWithPassword({ email, password: "Correct-Horse-7!" });
    const other = `thief-of-${email}`;
    expect((await thief.auth.updateUser({ email: other })).error).toBeNull();
    const { token } = linkIn(await server.next(other, /^Confirm/));
    expect((await signOut(owner, email)).error).toBeNull();
    expect((await send("POST /auth/confirm", { body: { token } })).status).toBe(401);
    expect(failureOf(await client().auth.verifyOtp({ token_hash: token, type: "email_change" }))).toEqual([
      ...[403, "otp_expired"],
    ]);
    await client().auth.resend({ type: "email_change", email: other });
    await expect.poll(() => sql("select from auth_private.mails where kind = 'change'"), POLL).toEqual([]);
    expect(await sql("select from auth_private.one_time_tokens where email = $1", other)).toEqual([]);
  });

  test("stays with a sign-out of one session", async () => {
    const { client: own, email } = await newUser();
    const other = `kept-of-${email}`;
    await own.auth.updateUser({ email: other });
    const { token } = linkIn(await server.next(other, /^Confirm/));
    await own.auth.signOut({ scope: "local" });
    expect((await send("POST /auth/confirm", { body: { token, password: "Correct-Horse-7!" } })).status).toBe(200);
  });
});

test("no identity is linked to an account whose session has ended meanwhile", async () => {
  const { client: own, email } = await newUser();
  const id = await idOf(email);
  const { data } = await own.auth.getClaims();
  const link = async (subject: string) => {
    const text = `select auth_api.link_identity(
      $1, $2, 'https://idp.example', $3, 'acme', null, null, 20, null, now()) ->> 'outcome' as outcome`;
    return (await sql(text, id, data!.claims.session_id, subject))[0].outcome;
  };
  expect(await link("before")).toBe("linked");
  await own.auth.signOut({ scope: "local" });
  expect(await link("after")).toBe("changed");
  expect(await sql("select subject from auth_private.identities where user_id = $1", id)).toEqual([
    { subject: "before" },
  ]);
});
