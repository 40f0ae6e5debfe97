import { expect, test } from "vitest";
import { oidcEntry, useFederated } from "../rest-gateway/auth/federated/support.ts";
import { linkIn, startMailServer } from "../support/mail-server.ts";
import { WebClient } from "../support/web-client.ts";

// A person creates an account for the e-mail of another one, and waits until its owner signs in to it.

const server = await startMailServer();
const { service, signIn } = useFederated({
  entries: (idp) => [oidcEntry(idp, { signUp: true })],
  settings: { ...server.settings, EMAIL_CONFIRM: "claim" },
});

async function post(path: string, body: object, headers = {}) {
  const sent = { "content-type": "application/json", ...headers };
  const response = await fetch(service().url + path, { method: "POST", headers: sent, body: JSON.stringify(body) });
  return { status: response.status, json: (await response.json()) as any };
}

test("an attacker who has created an account at a provider, without a password, keeps nothing of it when the owner of its e-mail signs in", async () => {
  const email = "mary@acme.example";
  const { json: theirs } = await signIn(new WebClient(), "/auth/oidc/acme?mode=token");
  expect(theirs.user).toMatchObject({ email, emailConfirmed: false, hasPassword: false });
  const headers = { authorization: `Bearer ${theirs.accessToken}` };
  const other = "mallory@test.example";
  expect((await post("/auth/email", { email: other }, headers)).status).toBe(202);
  const change = linkIn(await server.next(other)).token;

  expect((await post("/auth/login/mail", { email })).status).toBe(202);
  const { status, json: owner } = await post("/auth/login/link", { token: linkIn(await server.next(email)).token });
  expect([status, owner.user.id]).toEqual([200, theirs.user.id]);

  expect((await fetch(`${service().url}/auth/me`, { headers })).status).toBe(401);
  expect((await post("/auth/refresh", { refreshToken: theirs.refreshToken })).status).toBe(401);
  expect((await post("/auth/confirm", { token: change })).status).toBe(401);
  expect((await signIn(new WebClient(), "/auth/oidc/acme?mode=token")).status).toBe(409);
  expect((await post("/auth/refresh", { refreshToken: owner.refreshToken })).status).toBe(200);
});
