import { createHash, randomUUID } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { CLIENT_ID, newProviderKey } from "../../support/identity-provider.ts";
import { oidcEntry, useFederated } from "../federated/support.ts";
import { PASSWORD } from "./support.ts";

const federated = useFederated({
  entries: (idp) => [
    oidcEntry(idp, { name: "acme", signUp: true }),
    {
      ...{ name: "old", kind: "oauth2", clientId: "x", clientSecret: "y", userinfoUrl: `${idp.url}/me` },
      ...{ authorizationUrl: `${idp.url}/auth`, tokenUrl: `${idp.url}/token` },
    },
  ],
});
const { service, idp, sql } = federated;
const client = () =>
  createClient(service().url, service().service.tokens.issueKey("anon"), {
    auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  });

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
/** The claims of an ID token that the provider has issued just now. */
function claimsFor(subject: string, more: object = {}) {
  const now = Math.floor(Date.now() / 1000);
  const profile = { name: subject, email: `${subject}@example.com` };
  const claims = {
    iss: idp().url,
    aud: CLIENT_ID,
    sub: subject,
    iat: now,
    exp: now + 600,
    jti: randomUUID(),
    ...profile,
    ...more,
  };
  // Without those that are undefined.
  return JSON.parse(JSON.stringify(claims));
}
const signIn = (token: string, more: object = {}) =>
  client().auth.signInWithIdToken({ provider: "acme", token, ...more });

describe("supabase.auth.signInWithIdToken", () => {
  test("signs a user up and then in, by issuer and subject", async () => {
    const nonce = randomUUID();
    const first = await signIn(idp().sign(claimsFor("ida", { nonce: sha256(nonce) })), { nonce });
    expect([first.error, first.data.user!.email]).toEqual([null, "ida@example.com"]);
    expect(first.data.user!.app_metadata).toMatchObject({ provider: "acme" });
    const again = await signIn(idp().sign(claimsFor("ida", { email: "other@example.com" })));
    expect([again.error, again.data.user!.id]).toEqual([null, first.data.user!.id]);
    expect(await sql("select event from auth_private.security_events where event = 'login'")).toHaveLength(2);
  });

  test("accepts an access token whose hash is in the ID token", async () => {
    const half = createHash("sha256").update("access").digest().subarray(0, 16).toString("base64url");
    const token = () => idp().sign(claimsFor("hash", { at_hash: half }));
    expect((await signIn(token(), { access_token: "another" })).error!.message).toContain(
      "the access token is not that",
    );
    expect((await signIn(token(), { access_token: "access" })).error).toBeNull();
  });

  test("accepts a token once", async () => {
    const token = idp().sign(claimsFor("once"));
    expect((await signIn(token)).error).toBeNull();
    const used = { status: 400, message: "Bad ID token: it was used before" };
    expect((await signIn(token)).error).toMatchObject(used);
    // The identity has no account any more, and the thief of the token wants it.
    await sql("delete from auth_private.identities where subject = 'once'");
    const thief = client();
    await thief.auth.signUp({ email: "thief@example.com", password: PASSWORD });
    expect((await thief.auth.linkIdentity({ provider: "acme" as "google", token })).error).toMatchObject(used);
    expect(await sql("select from auth_private.identities where subject = 'once'")).toEqual([]);
  });

  const past = Math.floor(Date.now() / 1000) - 3600;
  test.each<[string, object, string]>([
    ["another issuer", { iss: "https://evil.example" }, "of another issuer"],
    ["another audience", { aud: "another-client" }, "not in audience"],
    ["several audiences and another party", { aud: [CLIENT_ID, "b"], azp: "b" }, "for another party"],
    ["an expiry in the past", { iat: past, exp: past + 60 }, "expired"],
    ["no expiry", { exp: undefined }, "has no expiry"],
    ["no subject", { sub: undefined }, "has no subject"],
    ["a nonce that the client has not sent", { nonce: "x" }, "the nonce is not that"],
  ])("refuses a token with %s", async (_what, claims, message) => {
    const { error } = await signIn(idp().sign(claimsFor("eve", claims)));
    expect(error).toMatchObject({ status: 400, message: expect.stringMatching(/^Bad ID token/) });
    expect(error!.message).toContain(message);
  });

  test("refuses a nonce that is not in the token, or that is not hashed there", async () => {
    for (const claims of [{}, { nonce: "raw" }])
      expect((await signIn(idp().sign(claimsFor("eve", claims)), { nonce: "raw" })).error!.message).toContain("nonce");
  });

  test("refuses a token that the provider has not signed", async () => {
    const forged = [
      idp().sign(claimsFor("eve"), {}, newProviderKey()),
      `${Buffer.from('{"alg":"none"}').toString("base64url")}.${Buffer.from(JSON.stringify(claimsFor("eve"))).toString("base64url")}.`,
      "no token",
    ];
    for (const token of forged)
      expect((await signIn(token)).error!.message).toBe("Bad ID token: no key of the provider has signed the ID token");
  });

  test("refuses a provider that is not configured, or is not one of OpenID Connect", async () => {
    for (const provider of ["google", "old"]) {
      const { error } = await client().auth.signInWithIdToken({ provider, token: idp().sign(claimsFor("eve")) });
      expect(error).toMatchObject({ status: 400, code: "provider_disabled" });
      expect(error!.message).toContain("not enabled");
    }
  });

  test("links the identity to the user of the session, and an e-mail links nothing", async () => {
    const own = client();
    const { data: user } = await own.auth.signUp({ email: "linked@example.com", password: PASSWORD });
    expect((await signIn(idp().sign(claimsFor("linked")))).error).toMatchObject({ code: "email_exists" });
    const { error } = await own.auth.linkIdentity({
      provider: "acme" as "google",
      token: idp().sign(claimsFor("linked")),
    });
    expect(error).toBeNull();
    const { data } = await signIn(idp().sign(claimsFor("linked")));
    expect(data.user!.id).toBe(user.user!.id);
    const taken = { provider: "acme" as "google", token: idp().sign(claimsFor("ida")) };
    expect((await own.auth.linkIdentity(taken)).error).toMatchObject({ code: "identity_already_exists" });
    expect((await client().auth.linkIdentity(taken)).error).not.toBeNull();
  });
});
