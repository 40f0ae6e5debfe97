import { describe, expect, test } from "vitest";
import { connect } from "../../support/graphql-client.ts";
import { send } from "../../support/http-client.ts";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";
import { failureOf, signedIn } from "./session-client.ts";

const { service, api, failure, enrol, login, codeOf, signIn, sql } = useFactors({ GRAPHQL_DOCUMENTS: "any" });

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const basic = { authorization: `Basic ${Buffer.from(`ada:${PASSWORD}`).toString("base64")}` };
const PATHS = ["/auth/keys", "/rest/v1/articles?limit=1", "/tasks"];
const statuses = (headers: Readonly<Record<string, string>>) =>
  Promise.all(
    PATHS.map(async (path) => {
      const apikey = service().service.tokens.issueKey("anon");
      return (await api(path, { headers: { ...headers, apikey } })).status;
    }),
  );
const VALID = [200, 200, 200];
const ENDED = [401, 401, 401];
const refresh = async (refreshToken: string) => (await api("POST /auth/refresh", { body: { refreshToken } })).json;

/** Enables the factor of ada with these headers. */
async function enable(headers: Readonly<Record<string, string>>): Promise<string> {
  const { json } = await api("POST /api/mfa/enable", { headers });
  const { status, text } = await api(`POST /api/mfa/verify?code=${codeOf(json.secret)}`, { headers });
  if (status !== 200) throw new Error(text);
  return json.secret;
}

const newBrowser = () => signedIn({ send: (path, sent) => send(service().url + path, sent) }, "ada");

describe("enabling a second factor with a token", () => {
  test("ends all other tokens and the session of the user at once", async () => {
    const [own, other] = [(await login("ada")).json, (await login("ada")).json];
    const browser = await newBrowser();
    expect(await statuses(bearer(other.accessToken))).toEqual(VALID);
    await enable(bearer(own.accessToken));
    expect(await statuses(bearer(other.accessToken))).toEqual(ENDED);
    expect((await refresh(other.refreshToken)).error.code).toBe("VERIFICATION_FAILED");
    expect(failureOf(await browser.me()).slice(0, 2)).toEqual([401, "AUTH_REQUIRED"]);
  });

  test("keeps the sign-in that enables it: its access tokens and its refresh token", async () => {
    const first = (await login("ada")).json;
    const own = await refresh(first.refreshToken);
    await enable(bearer(own.accessToken));
    for (const { accessToken } of [first, own]) expect(await statuses(bearer(accessToken))).toEqual(VALID);
    const next = await refresh(own.refreshToken);
    for (const { accessToken } of [first, own, next]) expect(await statuses(bearer(accessToken))).toEqual(VALID);
  });

  test("keeps nothing that a later sign-out ends", async () => {
    const own = (await login("ada")).json;
    await enable(bearer(own.accessToken));
    expect((await api("POST /auth/logout", { headers: bearer(own.accessToken) })).status).toBe(200);
    expect(await statuses(bearer(own.accessToken))).toEqual(ENDED);
    expect((await refresh(own.refreshToken)).error.code).toBe("VERIFICATION_FAILED");
  });

  test("closes the WebSockets of other sign-ins with 4403, and keeps its own", async () => {
    const [own, other] = [await signIn("ada"), await signIn("ada")];
    const [stays, ends] = [own, other].map((token) => connect(service(), { headers: bearer(token) }));
    const closed = new Promise((resolve) => ends!.on("closed", resolve));
    for (const client of [stays!, ends!]) await client.subscribe("subscription { onArticleCreated { id } }");
    await enable(bearer(own));
    expect(await closed).toMatchObject({ code: 4403 });
    expect(await stays!.run("{ me { id } }")).toEqual({ data: { me: { id: "1" } } });
  });

  test("ends Basic authentication, also for a password that was verified a moment before", async () => {
    expect((await api("/auth/keys", { headers: basic })).status).toBe(200);
    await enrol("ada");
    expect((await failure("/auth/keys", { headers: basic })).slice(0, 2)).toEqual([401, "MFA_REQUIRED"]);
  });

  test("keeps API keys, which are credentials of their own, and other users", async () => {
    const token = await signIn("ada");
    const { key, id } = (await api("POST /auth/keys", { headers: bearer(token), body: { name: "import" } })).json;
    const bob = bearer(await signIn("bob"));
    await enable(bearer(token));
    expect((await api("/tasks", { headers: { "x-api-key": key } })).status).toBe(200);
    expect(await statuses(bob)).toEqual(VALID);
    await sql("delete from auth_private.api_keys where id = $1", id);
  });
});

describe("enabling a second factor with a session", () => {
  test("keeps the session and ends all tokens", async () => {
    const other = (await login("ada")).json;
    const browser = await newBrowser();
    const headers = { cookie: browser.cookie, ...(await browser.csrf()) };
    await enable(headers);
    expect((await browser.me()).status).toBe(200);
    expect((await api("POST /tasks", { headers, body: {} })).status).not.toBe(401);
    expect(await statuses(bearer(other.accessToken))).toEqual(ENDED);
    expect((await refresh(other.refreshToken)).error.code).toBe("VERIFICATION_FAILED");
  });
});

describe("enabling a second factor with Basic credentials", () => {
  test("ends every sign-in, as the password alone no longer signs the user in", async () => {
    const other = (await login("ada")).json;
    await enable(basic);
    expect(await statuses(bearer(other.accessToken))).toEqual(ENDED);
    expect((await failure("/auth/keys", { headers: basic })).slice(0, 2)).toEqual([401, "MFA_REQUIRED"]);
  });
});
