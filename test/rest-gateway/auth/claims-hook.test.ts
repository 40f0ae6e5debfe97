import jwt from "jsonwebtoken";
import { expect, test } from "vitest";
import { useFactors } from "../../support/second-factor.ts";

const { service, api, login, now, sql } = useFactors();
const ADDRESS = { email: "ada@example.com" };

test("the claims of the hook are in the token, after a refresh too, and reach policies with every credential; it gets what the service knows, and sets nothing that the service sets", async () => {
  await sql(`create function internal.claims(id bigint, claims jsonb) returns jsonb language sql stable
    return jsonb_build_object('team', 'team ' || id, 'given', claims, 'sub', '3', 'role', 'admin', 'auth_time', 1)`);
  await sql("grant execute on function internal.claims(bigint, jsonb) to auth_owner");
  await sql("select auth.use_hook('claims', 'internal.claims(bigint, jsonb)')");
  await sql("create function public.team() returns text language sql stable return auth.claims() ->> 'team'");
  await sql("grant execute on function public.team() to authenticated");

  const { json: pair } = await login("ada");
  expect(jwt.decode(pair.accessToken)).toMatchObject({
    ...{ sub: "1", role: "authenticated", team: "team 1", auth_time: Math.floor(now() / 1000) },
    given: { name: "Ada Lovelace", role: "authenticated", permissions: [], ...ADDRESS, email_confirmed: false },
  });
  await sql("update auth_private.accounts set email_confirmed_at = now() where user_id = 1");
  const { json: next } = await api("POST /auth/refresh", { body: { refreshToken: pair.refreshToken } });
  expect(jwt.decode(next.accessToken)).toMatchObject({ team: "team 1", given: { ...ADDRESS, email_confirmed: true } });
  await sql("delete from auth_private.login_emails where user_id = 1");
  const { json: last } = await api("POST /auth/refresh", { body: { refreshToken: next.refreshToken } });
  expect((jwt.decode(last.accessToken) as any).given).not.toHaveProperty("email_confirmed");

  const bearer = { authorization: `Bearer ${next.accessToken}` };
  const { json: key } = await api("POST /auth/keys", { headers: bearer, body: { name: "program" } });
  const apikey = service().service.tokens.issueKey("anon");
  for (const headers of [{ ...bearer, apikey }, { apikey: key.key }])
    await expect
      .poll(async () => (await fetch(`${service().url}/rest/v1/rpc/team`, { headers })).json())
      .toBe("team 1");
});
