import type { SupabaseClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { signInAt as signInAtProvider } from "../../support/identity-provider.ts";
import { WebClient } from "../../support/web-client.ts";
import { continuationOf, hasSession, oidcEntry, useFederated } from "../federated/support.ts";
import { claimsOf, failureOf, flowClient, PASSWORD } from "./support.ts";

const PAGE = "https://app.example";
const federated = useFederated({
  entries: (idp) => [
    oidcEntry(idp, { name: "acme", signUp: true }),
    oidcEntry(idp, { name: "staff", signUp: true, require: { sub: "nobody" } }),
  ],
  settings: { AUTH_RETURN_ORIGINS: PAGE, SIGNUP: "anonymous" },
});
const { service, sql } = federated;

const clientOf = (flowType: "pkce" | "implicit") => flowClient(service(), flowType);

/** Signs in at the provider in a browser, and returns the URL at which the browser continues. */
async function signInAt(client: SupabaseClient, redirectTo = `${PAGE}/welcome?a=b`, login = "mary", provider = "acme") {
  const { data, error } = await client.auth.signInWithOAuth({
    provider: provider as "github",
    options: { redirectTo, skipBrowserRedirect: true },
  });
  if (error) throw error;
  const browser = new WebClient();
  const { pathname, search } = new URL(data.url);
  const callback = await federated.respond(browser, `${pathname}${search}`, login);
  const page = await browser.request(callback);
  return { page, callback, browser, url: continuationOf(page) ?? page.headers.get("location") ?? "" };
}

describe("supabase.auth.signInWithOAuth", () => {
  test("with PKCE returns a code, which the client exchanges once for a session", async () => {
    const client = clientOf("pkce");
    const { url, page } = await signInAt(client);
    const { origin, pathname, searchParams, hash } = new URL(url);
    expect([origin + pathname, searchParams.get("a"), hash]).toEqual([`${PAGE}/welcome`, "b", ""]);
    expect(hasSession(page)).toBe(false);
    const { data, error } = await client.auth.exchangeCodeForSession(searchParams.get("code")!);
    expect(error).toBeNull();
    expect(data.user).toMatchObject({ app_metadata: { provider: "acme", providers: ["acme"] } });
    expect(data.user!.identities).toEqual([expect.objectContaining({ provider: "acme", id: "mary" })]);
    expect(claimsOf(data.session!.access_token)).toMatchObject({ amr: [{ method: "oauth" }], role: "authenticated" });
    expect((await client.auth.refreshSession()).error).toBeNull();
  });

  test("a code is valid once, and only with the verifier of the client that has begun", async () => {
    const [client, thief] = [clientOf("pkce"), clientOf("pkce")];
    const { url } = await signInAt(client);
    const code = new URL(url).searchParams.get("code")!;
    await thief.auth.signInWithOAuth({ provider: "acme" as "github", options: { skipBrowserRedirect: true } });
    expect(failureOf(await thief.auth.exchangeCodeForSession(code))).toEqual([404, "flow_state_not_found"]);
    expect((await client.auth.exchangeCodeForSession(code)).error).toBeNull();
    const again = await fetch(`${service().url}/auth/v1/token?grant_type=pkce`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ auth_code: code, code_verifier: "x".repeat(43) }),
    });
    expect(again.status).toBe(404);
  });

  test("without PKCE returns the tokens in the fragment, which no server sees", async () => {
    const client = clientOf("implicit");
    const { url } = await signInAt(client);
    const { search, hash } = new URL(url);
    expect(search).toBe("?a=b");
    const sent = new URLSearchParams(hash.slice(1));
    expect([sent.get("token_type"), sent.get("expires_in")]).toEqual(["bearer", "3600"]);
    const tokens = { access_token: sent.get("access_token")!, refresh_token: sent.get("refresh_token")! };
    const { data, error } = await client.auth.setSession(tokens);
    expect([error, data.user!.app_metadata.provider]).toEqual([null, "acme"]);
  });

  test.each(["https://evil.example/", "//evil.example", "javascript:alert(1)", "mary@test.example"])(
    "replaces the return URL %s, which is not allowed",
    async (redirectTo) => {
      const { url } = await signInAt(clientOf("implicit"), redirectTo);
      expect(new URL(url).origin).toBe(new URL(service().url).origin);
    },
  );

  test("continues at the page of the client after a failure, with the reason", async () => {
    const { url } = await signInAt(clientOf("pkce"), `${PAGE}/welcome`, "mary", "staff");
    const { origin, searchParams, hash } = new URL(url);
    expect([origin, searchParams.get("error"), searchParams.get("error_code")]).toEqual([
      ...[PAGE, "access_denied", "signup_disabled"],
    ]);
    expect(new URLSearchParams(hash.slice(1)).get("error_description")).toMatch(/may not sign in/);
  });

  test("another browser cannot complete a sign-in", async () => {
    const client = clientOf("implicit");
    const { data } = await client.auth.signInWithOAuth({
      provider: "acme" as "github",
      options: { redirectTo: PAGE, skipBrowserRedirect: true },
    });
    const { pathname, search } = new URL(data.url!);
    const callback = await federated.respond(new WebClient(), `${pathname}${search}`);
    const page = await new WebClient().request(callback);
    expect([page.status, continuationOf(page)]).toEqual([401, undefined]);
  });

  test.each([
    ["an unknown provider", "provider=unknown"],
    ["no provider", ""],
    ["a plain challenge", `provider=acme&code_challenge=${"x".repeat(43)}&code_challenge_method=plain`],
    ["a short challenge", "provider=acme&code_challenge=x&code_challenge_method=s256"],
  ])("refuses %s", async (_what, query) => {
    const response = await fetch(`${service().url}/auth/v1/authorize?${query}`, { redirect: "manual" });
    expect([response.status, ((await response.json()) as any).error_code]).toEqual([400, "validation_failed"]);
  });
});

test("supabase.auth.unlinkIdentity keeps the last way to sign in", async () => {
  const client = clientOf("pkce");
  const { url } = await signInAt(client);
  await client.auth.exchangeCodeForSession(new URL(url).searchParams.get("code")!);
  const { data } = await client.auth.getUserIdentities();
  const [identity] = data!.identities;
  expect(failureOf(await client.auth.unlinkIdentity(identity!))).toEqual([422, "single_identity_not_deletable"]);
  expect((await client.auth.updateUser({ password: PASSWORD })).error).toBeNull();
  const both = (await client.auth.getUserIdentities()).data!.identities;
  expect(both.map(({ provider }) => provider).sort()).toEqual(["acme", "email"]);
  const ofPassword = both.find(({ provider }) => provider === "email")!;
  expect(failureOf(await client.auth.unlinkIdentity(ofPassword))).toEqual([422, "single_identity_not_deletable"]);
  expect((await client.auth.unlinkIdentity(identity!)).error).toBeNull();
  expect(failureOf(await client.auth.unlinkIdentity(identity!))).toEqual([422, "identity_not_found"]);
  expect(await sql("select from auth_private.identities where id = $1", identity!.identity_id)).toEqual([]);
  expect((await client.auth.getUser()).error).toBeNull();
});

describe("supabase.auth.linkIdentity", () => {
  let users = 0;
  const person = (login: string) => ({ name: login, email: `${login}@example.com`, email_verified: true });
  async function signedUp(flowType: "pkce" | "implicit") {
    const client = clientOf(flowType);
    const email = `link${++users}@test.example`;
    const { data, error } = await client.auth.signUp({ email, password: PASSWORD });
    expect(error).toBeNull();
    return { client, id: data.user!.id, email };
  }
  const linkUrl = (client: SupabaseClient) =>
    client.auth.linkIdentity({
      provider: "acme" as "github",
      options: { redirectTo: `${PAGE}/account`, skipBrowserRedirect: true },
    });
  /** Follows the URL that the client has received in a browser, to the page of the client. */
  async function follow(url: string | null, login: string, referer: string | null = PAGE) {
    federated.idp().people[login] = person(login);
    const browser = new WebClient();
    const begun = await browser.request(url!, referer === null ? {} : { headers: { referer: `${referer}/` } });
    if (begun.status !== 302) return { begun, url: "" };
    const { url: callback } = await signInAtProvider(browser, begun.headers.get("location")!, login);
    const page = await browser.request(callback);
    return { begun, url: continuationOf(page) ?? page.headers.get("location") ?? "" };
  }
  const providersOf = async (client: SupabaseClient) =>
    (await client.auth.getUserIdentities()).data!.identities.map(({ provider }) => provider).sort();

  test("with PKCE links the identity when the client exchanges the code, and the identity signs the same user in", async () => {
    const { client, id } = await signedUp("pkce");
    const { data, error } = await linkUrl(client);
    expect(error).toBeNull();
    const { url } = await follow(data!.url, "linked-pkce");
    expect(await providersOf(client)).toEqual(["email"]);
    const exchanged = await client.auth.exchangeCodeForSession(new URL(url).searchParams.get("code")!);
    expect([exchanged.error, exchanged.data.user!.id]).toEqual([null, id]);
    expect(await providersOf(client)).toEqual(["acme", "email"]);

    const other = clientOf("pkce");
    const { url: back } = await signInAt(other, `${PAGE}/`, "linked-pkce");
    const signedIn = await other.auth.exchangeCodeForSession(new URL(back).searchParams.get("code")!);
    expect(signedIn.data.user!.id).toBe(id);
  });

  test("without PKCE returns tokens of the user in the fragment", async () => {
    const { client, id } = await signedUp("implicit");
    const { url } = await follow((await linkUrl(client)).data!.url, "linked-implicit");
    const sent = new URLSearchParams(new URL(url).hash.slice(1));
    const tokens = { access_token: sent.get("access_token")!, refresh_token: sent.get("refresh_token")! };
    expect((await client.auth.setSession(tokens)).data.user!.id).toBe(id);
    expect(await providersOf(client)).toEqual(["acme", "email"]);
  });

  test("the URL is valid once, for a minute, and without PKCE only from the page that it returns to", async () => {
    const { client } = await signedUp("implicit");
    for (const referer of [null, "https://evil.example"]) {
      const { begun } = await follow((await linkUrl(client)).data!.url, "lured", referer);
      expect([begun.status, begun.json.error_code]).toEqual([400, "bad_oauth_state"]);
    }
    const { url } = (await linkUrl(client)).data!;
    expect((await new WebClient().request(url!, { headers: { referer: `${PAGE}/` } })).status).toBe(302);
    expect((await follow(url, "again")).begun.json.error_code).toBe("flow_state_not_found");
    expect(await providersOf(client)).toEqual(["email"]);
  });

  test("an identity of another account is refused, and an e-mail links nothing", async () => {
    const owner = await signedUp("pkce");
    const linked = await follow((await linkUrl(owner.client)).data!.url, "owned");
    await owner.client.auth.exchangeCodeForSession(new URL(linked.url).searchParams.get("code")!);
    const { client } = await signedUp("implicit");
    const { url } = await follow((await linkUrl(client)).data!.url, "owned");
    expect(new URLSearchParams(new URL(url).hash.slice(1)).get("error_code")).toBe("identity_already_exists");
    expect(await providersOf(client)).toEqual(["email"]);
    // The provider confirms an e-mail with which another account signs in.
    await clientOf("pkce").auth.signUp({ email: "same@example.com", password: PASSWORD });
    federated.idp().people.same = person("same");
    const other = clientOf("pkce");
    const { url: back } = await signInAt(other, `${PAGE}/`, "same");
    const refused = await other.auth.exchangeCodeForSession(new URL(back).searchParams.get("code")!);
    expect(failureOf(refused)).toEqual([422, "email_exists"]);
  });

  test("needs a user with a recent sign-in, whose session has not ended meanwhile", async () => {
    expect(failureOf(await linkUrl(clientOf("pkce")))[1]).toBeDefined();
    const { client } = await signedUp("pkce");
    await sql("update auth_private.sessions set started_at = started_at - interval '11 minutes'");
    expect(failureOf(await linkUrl(client))).toEqual([400, "reauthentication_needed"]);
    const { client: ended } = await signedUp("pkce");
    const { url } = await follow((await linkUrl(ended)).data!.url, "late");
    await sql("update auth_private.sessions set revoked_at = now() where revoked_at is null");
    const code = new URL(url).searchParams.get("code")!;
    expect((await ended.auth.exchangeCodeForSession(code)).error!.name).toBe("AuthSessionMissingError");
  });

  test("makes an anonymous user one like any other, with the e-mail of the identity if no other user has it", async () => {
    for (const [login, email] of [
      ["guest", "guest@example.com"],
      ["same", ""],
    ] as const) {
      const client = clientOf("pkce");
      const { data } = await client.auth.signInAnonymously();
      await sql("update auth_private.sessions set started_at = started_at - interval '11 minutes'");
      const { url } = await follow((await linkUrl(client)).data!.url, login);
      const exchanged = await client.auth.exchangeCodeForSession(new URL(url).searchParams.get("code")!);
      expect([exchanged.error, exchanged.data.user]).toEqual([
        null,
        expect.objectContaining({ id: data.user!.id, is_anonymous: false, email }),
      ]);
      expect(claimsOf(exchanged.data.session!.access_token).is_anonymous).toBe(false);
    }
  });
});
