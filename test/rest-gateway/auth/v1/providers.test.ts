import { createClient, type SupabaseClient } from "@supabase/supabase-js";
import { describe, expect, test } from "vitest";
import { WebClient } from "../../../support/web-client.ts";
import { continuationOf, hasSession, oidcEntry, useFederated } from "../federated/support.ts";
import { failureOf, PASSWORD } from "./support.ts";

const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split(".")[1]!, "base64url").toString());
const PAGE = "https://app.example";
const federated = useFederated({
  entries: (idp) => [
    oidcEntry(idp, { name: "acme", signUp: true }),
    oidcEntry(idp, { name: "staff", signUp: true, require: { sub: "nobody" } }),
  ],
  settings: { AUTH_RETURN_ORIGINS: PAGE },
});
const { service, sql } = federated;

const clientOf = (flowType: "pkce" | "implicit"): SupabaseClient =>
  createClient(service().url, service().service.tokens.issueKey("anon"), {
    auth: { flowType, persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
  });

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
