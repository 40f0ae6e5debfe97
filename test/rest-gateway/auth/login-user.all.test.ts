import { expect, test } from "vitest";
import { CHALLENGE, continuationOf, oidcEntry, useFederated, VERIFIER } from "../../parts/federated/support.ts";
import { Authenticator } from "../../support/authenticator.ts";
import { CLIENT_ID } from "../../support/identity-provider.ts";
import { linkIn, startMailServer } from "../../support/mail-server.ts";
import { type ApiReply, sendTo } from "../../support/resource-client.ts";
import { appCode } from "../../support/totp.ts";
import { WebClient } from "../../support/web-client.ts";

const PASSWORD = "Correct-Horse-7!";
const server = await startMailServer();
const { idp, service, signIn } = useFederated({
  entries: (idp) => [oidcEntry(idp, { signUp: true })],
  settings: {
    ...server.settings,
    mailsPerAddress: 1000,
    SIGNUP: "anonymous",
    AUTH_RETURN_ORIGINS: "https://app.example",
  },
});

const send = (request: string, body?: object, headers = {}) => sendTo(service().url, request, { body, headers });
const wire = (request: string, body: object) =>
  send(request, body, { apikey: service().service.tokens.issueKey("anon") });
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

/** A new user, by registration. */
let count = 0;
async function newUser() {
  const email = `dora${++count}@test.example`;
  const { json } = await send("POST /auth/register", { name: "Dora", email, password: PASSWORD });
  return { email, id: json.user.id, headers: bearer(json.accessToken) };
}

/** Requests an e-mail that signs in. */
async function mailFor(email: string) {
  expect((await send("POST /auth/login/mail", { email })).status).toBe(202);
  const mail = await server.next(email, /sign in/i);
  return { token: linkIn(mail).token, code: /^(\d{6})$/m.exec(mail.text)![1]! };
}

/** Demands that a response has tokens and their user, as GET /auth/me and GET /auth/v1/user return it. */
async function expectUser({ status, json, text }: Pick<ApiReply, "status" | "json" | "text">) {
  expect([status, json?.user], text).toEqual([200, expect.anything()]);
  const token = json.accessToken ?? json.access_token;
  const own = await send(`GET ${json.accessToken ? "/auth/me" : "/auth/v1/user"}`, undefined, bearer(token));
  const { session: _, ...user } = own.json;
  expect([own.status, user]).toEqual([200, json.user]);
}

const credentialsOf = (email: string) => ({ email, password: PASSWORD });

test("every way to sign in at the own routes returns tokens with the user", async () => {
  const { email } = await newUser();
  await expectUser(await send("POST /auth/login", credentialsOf(email)));
  await expectUser(await send("POST /auth/login/link", { token: (await mailFor(email)).token }));
  await expectUser(await send("POST /auth/login/code", { email, code: (await mailFor(email)).code }));
  await expectUser(await signIn(new WebClient(), "/auth/oidc/acme?mode=token"));
  const page = await signIn(new WebClient(), `/auth/oidc/acme?mode=token&return_to=/app&code_challenge=${CHALLENGE}`);
  const signInCode = new URL(continuationOf(page)!).searchParams.get("sign_in_code")!;
  await expectUser(await send("POST /auth/federated/token", { signInCode, codeVerifier: VERIFIER }));
});

test("an invited user gets tokens with the user", async () => {
  const email = "invited@test.example";
  const key = bearer(service().service.tokens.issueKey("service_role"));
  expect((await send("POST /auth/invitations", { email }, key)).status).toBe(202);
  const { token } = linkIn(await server.next(email));
  await expectUser(await send("POST /auth/invitations/accept", { token, name: "Ivy", password: PASSWORD }));
});

test("a login that a code or a passkey completes returns tokens with the user", async () => {
  const { email, headers } = await newUser();
  const { secret } = (await send("POST /api/mfa/enable", {}, headers)).json;
  const code = appCode(secret, Date.now());
  const { backupCodes } = (await send("POST /api/mfa/verify", { code }, headers)).json;
  const { challenge } = (await send("POST /auth/login", credentialsOf(email))).json;
  await expectUser(await send("POST /auth/login", { challenge, code: backupCodes[0] }));
  await expectUser(await send("POST /auth/login", { ...credentialsOf(email), code: backupCodes[1] }));

  const other = await newUser();
  const key = new Authenticator(service().url.replace("127.0.0.1", "localhost"));
  const credential = key.create((await send("POST /auth/passkeys/options", {}, other.headers)).json);
  expect((await send("POST /auth/passkeys", { credential }, other.headers)).status).toBe(201);
  const passkey = key.get((await send("POST /auth/passkeys/challenge", {})).json);
  await expectUser(await send("POST /auth/login", { passkey }));
});

test("a login for a cookie returns the user", async () => {
  const { email } = await newUser();
  const { status, json, headers } = await send("POST /api/auth/login", { username: email, password: PASSWORD });
  const own = await send("GET /auth/me", undefined, { cookie: headers.get("set-cookie")!.split(";")[0]! });
  const { session: _, ...user } = own.json;
  expect([status, json.user]).toEqual([200, user]);
});

test("every way to sign in at /auth/v1 returns tokens with the user", async () => {
  const email = "eve@test.example";
  const signedUp = await wire("POST /auth/v1/signup", credentialsOf(email));
  await expectUser(signedUp);
  await expectUser(await wire("POST /auth/v1/signup", {}));
  await expectUser(await wire("POST /auth/v1/token?grant_type=password", credentialsOf(email)));
  const { refresh_token } = signedUp.json;
  await expectUser(await wire("POST /auth/v1/token?grant_type=refresh_token", { refresh_token }));
  await expectUser(await wire("POST /auth/v1/verify", { type: "magiclink", token_hash: (await mailFor(email)).token }));
  const confirmed = { type: "email", email, token: (await mailFor(email)).code };
  await expectUser(await wire("POST /auth/v1/verify", confirmed));

  const query = new URLSearchParams({
    ...{ provider: "acme", redirect_to: "https://app.example/", code_challenge: CHALLENGE },
    code_challenge_method: "s256",
  });
  const page = await signIn(new WebClient(), `/auth/v1/authorize?${query}`);
  const auth_code = new URL(continuationOf(page) ?? page.headers.get("location")!).searchParams.get("code");
  await expectUser(await wire("POST /auth/v1/token?grant_type=pkce", { auth_code, code_verifier: VERIFIER }));
  const [iss, iat] = [idp().url, Math.floor(Date.now() / 1000)];
  const claims = { iss, aud: CLIENT_ID, sub: "ida", name: "Ida", email: "ida@example.com", iat, exp: iat + 600 };
  const id_token = idp().sign({ ...claims, jti: "ida" });
  await expectUser(await wire("POST /auth/v1/token?grant_type=id_token", { provider: "acme", id_token }));
});
