import { describe, expect, test } from "vitest";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";

const { service, api, failure, login, pass, signIn, epochOf } = useFactors({
  recentSignIn: 600,
  GRAPHQL_DOCUMENTS: "any",
});

const SECOND = 1000;
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const basic = { authorization: `Basic ${Buffer.from(`ada:${PASSWORD}`).toString("base64")}` };
const PASSWORD_NEEDED = [
  401,
  "PASSWORD_REQUIRED",
  "the sign-in is older than 600 seconds: sign in again, or send the password",
];
const WRONG_PASSWORD = [403, "PERMISSION_DENIED", "wrong password"];
const outcome = ([status, code]: readonly unknown[]) => [status, code];

/** Each change that a stolen token must not make, and its body without a confirmation. */
const CHANGES: readonly (readonly [request: string, body: object | undefined, success: number])[] = [
  ["POST /api/mfa/enable", undefined, 200],
  ["POST /auth/keys", { name: "import" }, 201],
];

describe.each(CHANGES)("%s", (request, body, success) => {
  const send = (headers: Readonly<Record<string, string>>, more?: object) =>
    failure(request, { headers, body: more ? { ...body, ...more } : body });

  test("needs no password for ten minutes after the sign-in, and then does", async () => {
    const headers = bearer(await signIn("ada"));
    pass(599 * SECOND);
    expect((await send(headers))[0]).toBe(success);
    pass(2 * SECOND);
    expect(await send(headers)).toEqual(PASSWORD_NEEDED);
    expect((await send(headers, { password: PASSWORD }))[0]).toBe(success);
    // The password confirms this change alone.
    expect(await send(headers)).toEqual(PASSWORD_NEEDED);
  });

  test("is rejected with a token that was refreshed from an older sign-in", async () => {
    const { refreshToken } = (await login("ada")).json;
    pass(601 * SECOND);
    const { accessToken } = (await api("POST /auth/refresh", { body: { refreshToken } })).json;
    expect(await send(bearer(accessToken))).toEqual(PASSWORD_NEEDED);
  });

  test("is rejected with a token that does not say when its sign-in was, as those issued before an upgrade", async () => {
    const { tokens } = service().service;
    const user = { id: "1", name: "Ada", role: "authenticated", permissions: [], epoch: await epochOf("ada") };
    expect(await send(bearer(tokens.issuePair(user).accessToken))).toEqual(PASSWORD_NEEDED);
  });

  test("is rejected in a session that began earlier", async () => {
    const sent = { username: "ada", password: PASSWORD };
    const cookie = (await api("POST /api/auth/login", { body: sent })).headers.get("set-cookie")!.split(";")[0]!;
    const csrf = async () => ({
      cookie,
      "x-csrf-token": (await api("/csrf-token", { headers: { cookie } })).json.csrfToken,
    });
    expect((await send(await csrf()))[0]).toBe(success);
    pass(601 * SECOND);
    expect(await send(await csrf())).toEqual(PASSWORD_NEEDED);
    expect((await send(await csrf(), { password: PASSWORD }))[0]).toBe(success);
  });

  test("needs no other confirmation with Basic credentials", async () => {
    expect((await send(basic))[0]).toBe(success);
  });

  test("rejects a wrong password, which counts as a failed login", async () => {
    const headers = bearer(await signIn("ada"));
    pass(601 * SECOND);
    for (let i = 0; i < 5; i++) expect(await send(headers, { password: "Wrong-Horse-77!" })).toEqual(WRONG_PASSWORD);
    expect(outcome(await send(headers, { password: PASSWORD }))).toEqual([429, "RATE_LIMITED"]);
    expect((await login("ada")).status).toBe(429);
  });

  test.each([
    [{ password: null }, 401, "PASSWORD_REQUIRED"],
    [{ password: 7 }, 400, "VALIDATION_ERROR"],
    [{ password: "" }, 403, "PERMISSION_DENIED"],
    [{ password: "a\0b" }, 403, "PERMISSION_DENIED"],
  ])("with an older sign-in and %j is %i", async (more, status, code) => {
    const headers = bearer(await signIn("ada"));
    pass(601 * SECOND);
    expect(outcome(await send(headers, more))).toEqual([status, code]);
  });
});

test("a recent sign-in enables a factor without a body, whatever Content-Type it sends", async () => {
  const headers = { ...bearer(await signIn("ada")), "content-type": "application/json" };
  expect((await failure("POST /api/mfa/enable", { headers }))[0]).toBe(200);
  pass(601 * SECOND);
  expect(await failure("POST /api/mfa/enable", { headers })).toEqual(PASSWORD_NEEDED);
  expect(await failure("POST /api/mfa/enable", { headers, body: {} })).toEqual(PASSWORD_NEEDED);
  expect(outcome(await failure("POST /api/mfa/enable", { headers, body: "{" }))).toEqual([400, "INVALID_JSON"]);
});

test("a new password is a new sign-in", async () => {
  const headers = bearer(await signIn("bob"));
  pass(601 * SECOND);
  const [oldPassword, newPassword] = [PASSWORD, "Another-Horse-9?"];
  const { json } = await api("POST /auth/password", { headers, body: { oldPassword, newPassword } });
  const sent = { headers: bearer(json.accessToken), body: { name: "import" } };
  expect((await failure("POST /auth/keys", sent))[0]).toBe(201);
});

describe("deleting one's own user", () => {
  let count = 0;
  /** A new user, and headers of a sign-in of this age. */
  const newUser = async (seconds: number) => {
    const email = `dora${++count}@test.example`;
    const sent = { name: "Dora", email, password: PASSWORD };
    const { id } = (await api("POST /auth/register", { body: sent })).json.user;
    const { tokens } = service().service;
    const user = { id: String(id), name: "Dora", role: "authenticated", permissions: [] };
    const signedInAt = Date.now() - seconds * SECOND;
    return { id, headers: bearer(tokens.issuePair(user, { signedInAt, refreshToken: "" }).accessToken) };
  };
  const apikey = () => service().service.tokens.issueKey("anon");
  const remove = async (at: string, { id, headers }: Awaited<ReturnType<typeof newUser>>) => {
    if (at === "/graphql") {
      const body = { query: `mutation { deleteUser(id: ${id}) }` };
      const { json } = await api("POST /graphql", { headers, body });
      return [json.errors ? 401 : 204, json.errors?.[0].extensions.code];
    }
    const path = at === "/users" ? `/users/${id}?cascade=true` : `/rest/v1/users?id=eq.${id}`;
    const { status, json } = await api(`DELETE ${path}`, { headers: { ...headers, apikey: apikey() } });
    return [status, json?.error?.code ?? json?.code];
  };

  test.each([
    ["/users", "PASSWORD_REQUIRED"],
    ["/rest/v1", "CS401"],
    ["/graphql", "PASSWORD_REQUIRED"],
  ])("over %s needs a recent sign-in: a stolen token does not delete its owner", async (at, code) => {
    const user = await newUser(601);
    expect(await remove(at, user)).toEqual([401, code]);
    expect((await api(`/users/${user.id}`)).status).toBe(200);
    expect(await remove(at, await newUser(590))).toEqual([204, undefined]);
  });

  test("is not possible with a key, but is for admins and the service key", async () => {
    const user = await newUser(0);
    const body = { name: "import", password: PASSWORD };
    const { key } = (await api("POST /auth/keys", { headers: user.headers, body })).json;
    const byKey = { id: user.id, headers: { authorization: `Bearer ${key}` } };
    expect(await remove("/users", byKey)).toEqual([401, "PASSWORD_REQUIRED"]);
    const admin = bearer(service().token("admin", { signedInAt: 0 }));
    expect(await remove("/users", { id: user.id, headers: admin })).toEqual([204, undefined]);
    expect(await remove("/users", { id: 3, headers: admin })).toEqual([401, "PASSWORD_REQUIRED"]);
    const other = await newUser(0);
    const serviceKey = { apikey: service().service.tokens.issueKey("service_role") };
    expect((await api(`DELETE /rest/v1/users?id=eq.${other.id}`, { headers: serviceKey })).status).toBe(204);
  });
});
