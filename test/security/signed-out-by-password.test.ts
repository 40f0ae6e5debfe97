import { expect, test } from "vitest";
import { failureOf, PASSWORD, useAuth } from "../parts/supabase-auth/support.ts";
import { appCode } from "../support/totp.ts";

const { client, newUser, send } = useAuth("bigint");

test("a person who knows the password alone ends no sign-in with both factors, and can sign out", async () => {
  const { client: own, email } = await newUser();
  const token = (await own.auth.getSession()).data.session!.access_token;
  const { secret } = (await send("POST /api/mfa/enable", { token })).json;
  await send(`POST /api/mfa/verify?code=${appCode(secret, Date.now())}`, { token });
  const me = async () => (await send("GET /auth/me", { token })).status;
  for (const scope of ["others", "global"] as const) {
    const limited = client();
    const { data } = await limited.auth.signInWithPassword({ email, password: PASSWORD });
    const theirs = data.session!.access_token;
    const signOut = await send(`POST /auth/v1/logout?scope=${scope}`, { token: theirs });
    expect([scope, signOut.status, signOut.json?.error_code]).toEqual(
      scope === "others" ? [scope, 401, "insufficient_aal"] : [scope, 204, undefined],
    );
    expect([await me(), (await own.auth.refreshSession()).error]).toEqual([200, null]);
    const left = (await send("GET /auth/v1/user", { token: theirs })).status;
    expect(left).toBe(scope === "others" ? 200 : 403);
  }
  const { data } = await client().auth.signInWithPassword({ email, password: PASSWORD });
  expect((await own.auth.signOut({ scope: "others" })).error).toBeNull();
  const ended = await send("GET /auth/v1/user", { token: data.session!.access_token });
  expect(failureOf({ error: { status: ended.status, code: ended.json.error_code } })).toEqual([
    403,
    "session_not_found",
  ]);
});
