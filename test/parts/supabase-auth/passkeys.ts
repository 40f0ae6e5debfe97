import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { Authenticator } from "../../support/authenticator.ts";
import { failureOf, type Kind, PASSWORD, useAuth } from "./support.ts";

/** With users of this type of ids. */
export function testPasskeys(kind: Kind): void {
  const { service, client, send, newUser, sql } = useAuth(kind);

  const newKey = () => new Authenticator(service().url.replace("127.0.0.1", "localhost"));
  const tokenOf = async ({ client }: Awaited<ReturnType<typeof newUser>>) =>
    (await client.auth.getSession()).data.session!.access_token;
  const codeOf = ({ status, json }: Awaited<ReturnType<typeof send>>) => [status, json?.error_code];

  /** A new user with a passkey, added at `/passkeys`, and the token of the session that has added it. */
  async function userWithPasskey() {
    const user = await newUser();
    const token = await tokenOf(user);
    const key = newKey();
    const { json } = await send("POST /auth/v1/passkeys/registration/options", { token, body: {} });
    const body = { challenge_id: json.challenge_id, credential: key.create(json.options) };
    const added = await send("POST /auth/v1/passkeys/registration/verify", { token, body });
    expect(added.json).toEqual({ id: expect.any(String), friendly_name: "node", created_at: expect.any(String) });
    return { ...user, key, token, id: added.json.id as string, used: body };
  }

  const challenge = async () => (await send("POST /auth/v1/passkeys/authentication/options", { body: {} })).json;

  test("GET /settings says that passkeys are enabled", async () => {
    expect((await send("GET /auth/v1/settings")).json.passkeys_enabled).toBe(true);
  });

  test("a credential is added once, and only with the challenge that it has signed", async () => {
    const { token, used } = await userWithPasskey();
    const verify = (body: object) => send("POST /auth/v1/passkeys/registration/verify", { token, body });
    const unknown = [400, "webauthn_challenge_not_found"];
    expect(codeOf(await verify(used))).toEqual(unknown);
    const { json } = await send("POST /auth/v1/passkeys/registration/options", { token, body: {} });
    const credential = newKey().create(json.options);
    expect(codeOf(await verify({ challenge_id: randomUUID(), credential }))).toEqual(unknown);
    const ofSignIn = newKey().create({ ...json.options, challenge: (await challenge()).options.challenge });
    expect(codeOf(await verify({ challenge_id: json.challenge_id, credential: ofSignIn }))).toEqual(unknown);
    const response = { ...credential.response, attestationObject: "o2NmbXQ" };
    const broken = { ...credential, response };
    expect(codeOf(await verify({ challenge_id: json.challenge_id, credential: broken }))).toEqual([
      ...[400, "webauthn_verification_failed"],
    ]);
    expect(codeOf(await verify({ challenge_id: json.challenge_id, credential: {} }))).toEqual([
      400,
      "validation_failed",
    ]);
    expect(codeOf(await verify({ challenge_id: "x", credential }))).toEqual([400, "validation_failed"]);
  });

  test("a password alone manages no passkeys of a user who has one", async () => {
    const { client, email, id, key } = await userWithPasskey();
    await client.auth.signInWithPassword({ email, password: PASSWORD });
    const token = (await client.auth.getSession()).data.session!.access_token;
    const requests = ["GET /auth/v1/passkeys", "POST /auth/v1/passkeys/registration/options", "POST /auth/v1/factors"];
    for (const request of [...requests, `PATCH /auth/v1/passkeys/${id}`, `DELETE /auth/v1/passkeys/${id}`]) {
      const body = request.startsWith("GET") ? {} : { body: { factor_type: "webauthn", friendly_name: "x" } };
      expect([request, ...codeOf(await send(request, { token, ...body }))]).toEqual([request, 403, "insufficient_aal"]);
    }
    expect(codeOf(await send(`DELETE /auth/v1/factors/${id}`, { token }))).toEqual([422, "insufficient_aal"]);

    const path = `POST /auth/v1/factors/${id}`;
    const { json } = await send(`${path}/challenge`, { token, body: {} });
    expect(json).toMatchObject({ type: "webauthn", webauthn: { type: "request" } });
    const verify = (challenge_id: string, credential_response: object) =>
      send(`${path}/verify`, { token, body: { challenge_id, webauthn: { type: "request", credential_response } } });
    const { key: other } = await userWithPasskey();
    const options = json.webauthn.credential_options.publicKey;
    expect(codeOf(await verify(json.id, other.get(options)))).toEqual([422, "mfa_verification_failed"]);
    expect(codeOf(await verify(randomUUID(), key.get(options)))).toEqual([422, "mfa_verification_failed"]);
    const raised = await verify(json.id, key.get(options));
    expect([raised.status, raised.json.user.factors]).toMatchObject([200, [{ id, factor_type: "webauthn" }]]);
    expect(codeOf(await verify(json.id, key.get(options)))).toEqual([422, "mfa_verification_failed"]);
  });

  test("an enrolment belongs to its session, and is removed as a factor is", async () => {
    const user = await newUser();
    const token = await tokenOf(user);
    const body = { factor_type: "webauthn", friendly_name: "Key" };
    const { json } = await send("POST /auth/v1/factors", { token, body });
    expect(json).toEqual({ id: expect.any(String), type: "webauthn", friendly_name: "Key" });
    const stranger = await tokenOf(await newUser());
    const path = `/auth/v1/factors/${json.id}`;
    expect(codeOf(await send(`POST ${path}/challenge`, { token: stranger, body: {} }))).toEqual([
      ...[422, "mfa_factor_not_found"],
    ]);
    const begun = await send(`POST ${path}/challenge`, { token, body: {} });
    expect(begun.json.webauthn).toMatchObject({ type: "create", credential_options: { publicKey: { rp: {} } } });
    expect((await send(`DELETE ${path}`, { token })).json).toEqual({ id: json.id });
    expect(codeOf(await send(`POST ${path}/challenge`, { token, body: {} }))).toEqual([422, "mfa_factor_not_found"]);
  });

  test("a signature that is not valid does not sign in, and one that is signs in once", async () => {
    const { key } = await userWithPasskey();
    const verify = (challenge_id: string, credential: object) =>
      send("POST /auth/v1/passkeys/authentication/verify", { body: { challenge_id, credential } });
    const { challenge_id: id, options } = await challenge();
    expect(codeOf(await verify(id, newKey().get(options)))).toEqual([400, "webauthn_verification_failed"]);
    expect(codeOf(await verify(randomUUID(), key.get(options)))).toEqual([400, "webauthn_challenge_not_found"]);
    expect((await verify(id, key.get(options))).json).toMatchObject({ access_token: expect.any(String) });
    expect(codeOf(await verify(id, key.get(options)))).toEqual([400, "webauthn_challenge_not_found"]);
    expect(codeOf(await send(`DELETE /auth/v1/passkeys/${randomUUID()}`, { token: "x" }))[0]).toBe(403);
  });

  test("auth.admin.passkey lists the passkeys of a user and deletes them, which ends the sign-ins with one alone", async () => {
    const { id: passkey, token, key } = await userWithPasskey();
    const { challenge_id, options } = await challenge();
    const body = { challenge_id, credential: key.get(options) };
    const byPasskey = (await send("POST /auth/v1/passkeys/authentication/verify", { body })).json.access_token;
    const { id } = (await send("GET /auth/v1/user", { token })).json;
    const { admin } = client("service_role").auth;
    const listed = await admin.passkey.listPasskeys({ userId: id });
    const times = { created_at: expect.any(String), last_used_at: expect.any(String) };
    expect([listed.error, listed.data]).toEqual([null, [{ id: passkey, friendly_name: "node", ...times }]]);
    const stranger = { userId: id, passkeyId: randomUUID() };
    expect(failureOf(await admin.passkey.deletePasskey(stranger))).toEqual([404, "webauthn_credential_not_found"]);
    expect(failureOf(await client().auth.admin.passkey.listPasskeys({ userId: id }))).toEqual([403, "not_admin"]);
    expect((await admin.passkey.deletePasskey({ userId: id, passkeyId: passkey })).error).toBeNull();
    expect((await admin.passkey.listPasskeys({ userId: id })).data).toEqual([]);
    expect(failureOf(await admin.passkey.deletePasskey({ userId: id, passkeyId: passkey }))[0]).toBe(404);
    expect(codeOf(await send("GET /auth/v1/user", { token: byPasskey }))).toEqual([403, "session_not_found"]);
    expect((await send("GET /auth/v1/user", { token })).status).toBe(200);
  });

  test("after one of two passkeys is deleted, a session proves the other one before it goes on", async () => {
    const user = await userWithPasskey();
    const { token, id } = user;
    const other = newKey();
    const begun = await send("POST /auth/v1/passkeys/registration/options", { token, body: {} });
    const body = { challenge_id: begun.json.challenge_id, credential: other.create(begun.json.options) };
    await send("POST /auth/v1/passkeys/registration/verify", { token, body });
    const { json } = await send("GET /auth/v1/user", { token });
    const { admin } = client("service_role").auth;
    expect((await admin.passkey.deletePasskey({ userId: json.id, passkeyId: id })).error).toBeNull();
    expect((await send("GET /auth/v1/user", { token })).json.factors).toHaveLength(1);
    expect(codeOf(await send("GET /auth/v1/passkeys", { token }))).toEqual([403, "insufficient_aal"]);
  });

  test("the events of a passkey that its user deletes are those of the other routes", async () => {
    const { token, id, email } = await userWithPasskey();
    expect((await send(`DELETE /auth/v1/passkeys/${id}`, { token })).status).toBe(204);
    const events = await sql(
      `select e.event, e.address is not null as from_client, e.detail ->> 'name' as name from auth_private.security_events as e
       join auth_private.login_emails as l using (user_id) where l.email = $1 and e.event ~ 'removed|disabled' order by e.id`,
      email,
    );
    expect(events).toEqual([
      { event: "passkey_removed", from_client: true, name: "node" },
      { event: "mfa_disabled", from_client: true, name: null },
    ]);
  });
}
