import jwt from "jsonwebtoken";
import { expect, test } from "vitest";
import { useFactors } from "../../support/second-factor.ts";

const { service, api, login, sql } = useFactors();

test("the claims of the hook are in the token, after a refresh too, and reach policies with every credential", async () => {
  await sql(`create function internal.claims(id bigint, claims jsonb) returns jsonb language sql stable
    return jsonb_build_object('team', 'team ' || id)`);
  await sql("grant execute on function internal.claims(bigint, jsonb) to auth_owner");
  await sql("select auth.use_hook('claims', 'internal.claims(bigint, jsonb)')");
  await sql("create function public.team() returns text language sql stable return auth.claims() ->> 'team'");
  await sql("grant execute on function public.team() to authenticated");

  const { json: pair } = await login("ada");
  expect(jwt.decode(pair.accessToken)).toMatchObject({ sub: "1", role: "authenticated", team: "team 1" });
  const { json: next } = await api("POST /auth/refresh", { body: { refreshToken: pair.refreshToken } });
  expect(jwt.decode(next.accessToken)).toMatchObject({ team: "team 1" });

  const bearer = { authorization: `Bearer ${next.accessToken}` };
  const { json: key } = await api("POST /auth/keys", { headers: bearer, body: { name: "program" } });
  const apikey = service().service.tokens.issueKey("anon");
  for (const headers of [{ ...bearer, apikey }, { apikey: key.key }])
    await expect
      .poll(async () => (await fetch(`${service().url}/rest/v1/rpc/team`, { headers })).json())
      .toBe("team 1");
});
