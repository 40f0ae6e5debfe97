import { beforeAll, expect, test } from "vitest";
import { useService } from "../../support/http-client.ts";
import { sendJson } from "../../support/json.ts";

const client = useService({ DB_STATEMENT_TIMEOUT: "1000" });
const post = async (path: string, body: object) => {
  const { status, json } = await sendJson(client, path, body);
  return [status, json.error?.code];
};

/** Longer than any test may take. */
beforeAll(() =>
  client.sql(`
    create function internal.sleep(fields jsonb) returns jsonb language sql as 'select $1 from pg_sleep(600)';
    create function internal.sleep(id bigint, sign_in jsonb) returns void language sql as 'select from pg_sleep(600)';
    create function internal.slow_claims(id bigint, claims jsonb) returns jsonb language sql as 'select $2 from pg_sleep(600)';
    grant execute on function internal.sleep(jsonb), internal.sleep(bigint, jsonb), internal.slow_claims(bigint, jsonb)
      to auth_owner`),
);

const password = "Correct-Horse-7!";
const sessions = () => client.sql("select id from auth_private.sessions where user_id = 1");

test("a hook of sign-up has the time of a statement, DB_STATEMENT_TIMEOUT, and then there is no account", async () => {
  await client.sql("select auth.use_hook('before_sign_up', 'internal.sleep(jsonb)')");
  const newcomer = { name: "Grace", email: "grace@example.com", password };
  expect(await post("/auth/register", newcomer)).toEqual([504, "INTERNAL_ERROR"]);
  expect(await client.sql("select from auth_private.login_emails where email = $1", newcomer.email)).toEqual([]);
});

test("so has a hook of sign-in, and then there is no session", async () => {
  const before = await sessions();
  await client.sql("select auth.use_hook('after_sign_in', 'internal.sleep(bigint, jsonb)')");
  expect(await post("/auth/login", { username: "ada", password })).toEqual([504, "INTERNAL_ERROR"]);
  expect(await sessions()).toEqual(before);
});

test("so has the hook of claims, and then there is no session", async () => {
  await client.sql("select auth.use_hook('after_sign_in', null)");
  const before = await sessions();
  await client.sql("select auth.use_hook('claims', 'internal.slow_claims(bigint, jsonb)')");
  expect(await post("/auth/login", { username: "ada", password })).toEqual([504, "INTERNAL_ERROR"]);
  expect(await sessions()).toEqual(before);
});

test("so has the hook of claims at a refresh, whose token stays valid", async () => {
  await client.sql("select auth.use_hook('claims', null)");
  const { url, service } = client.service();
  const headers = { "content-type": "application/json", apikey: service.tokens.issueKey("anon") };
  const ofClient = async (token: string) => {
    const body = JSON.stringify({ refresh_token: token });
    const sent = await fetch(`${url}/auth/v1/token?grant_type=refresh_token`, { method: "POST", headers, body });
    return sent.status;
  };
  // On a busy machine any statement may take longer than the limit.
  const PATIENCE = { timeout: 120_000 };
  const signIn = async () => {
    let token = "";
    const login = async () => {
      token = (await sendJson(client, "/auth/login", { username: "ada", password })).json.refreshToken;
      return token;
    };
    await expect.poll(login, PATIENCE).toBeTypeOf("string");
    return token;
  };
  const [own, other] = [await signIn(), await signIn()];
  await client.sql("select auth.use_hook('claims', 'internal.slow_claims(bigint, jsonb)')");
  expect(await post("/auth/refresh", { refreshToken: own })).toEqual([504, "INTERNAL_ERROR"]);
  expect(await ofClient(other)).toBe(504);
  await client.sql("select auth.use_hook('claims', null)");
  await expect.poll(() => post("/auth/refresh", { refreshToken: own }), PATIENCE).toEqual([200, undefined]);
  await expect.poll(() => ofClient(other), PATIENCE).toBe(200);
});
