import type { SignInWithSSO } from "@supabase/supabase-js";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readRequest, SamlTestProvider } from "../../support/saml-provider.ts";
import { WebClient } from "../../support/web-client.ts";
import { continuationOf, hasSession, useFederated } from "../federated/support.ts";
import { failureOf, flowClient } from "./support.ts";

const PAGE = "https://app.example";
const UUID = "0e7f2c62-3b1c-4f5e-9b0e-6f6a5d1c2b3a";
const federated = useFederated({ entries: () => [], settings: { AUTH_RETURN_ORIGINS: PAGE } });
const { service } = federated;

let idp: SamlTestProvider;
async function configure(...entries: readonly object[]): Promise<void> {
  const metadata = `${idp.url}/metadata`;
  await federated.configure(entries.map((entry) => ({ kind: "saml", metadata, ...entry })));
  await service().service.reloadSettings();
}
beforeAll(async () => {
  idp = await SamlTestProvider.start();
  await configure({ name: "corp", domains: ["Corp.Example", "corp.test"] }, { name: UUID });
});
afterAll(() => idp?.close());

const clientOf = (flowType: "pkce" | "implicit") => flowClient(service(), flowType);

/** Opens the URL in a browser, signs in at the provider, and returns the page that receives the response. */
async function signInAt(url: string, provider: string) {
  const browser = new WebClient();
  const begun = await browser.request(url);
  const request = readRequest(begun.headers.get("location")!);
  const own = `${service().url}/auth/saml/${provider}`;
  const SAMLResponse = await idp.respond(request, `${own}/acs`, `${own}/metadata`);
  const body = new URLSearchParams({ SAMLResponse, RelayState: request.relayState });
  const page = await browser.request(`${own}/acs`, { method: "POST", body });
  return { page, url: new URL(continuationOf(page) ?? page.headers.get("location") ?? "") };
}

const post = (body: object) =>
  fetch(`${service().url}/auth/v1/sso`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    redirect: "manual",
  });

describe("supabase.auth.signInWithSSO", () => {
  test.each([
    ["the name of a provider", { providerId: "corp" }, "corp"],
    ["a domain of a provider", { domain: "CORP.example" }, "corp"],
    ["a name that is a uuid", { providerId: UUID.toUpperCase() }, UUID],
  ])("with %s signs in at it, and the client exchanges the code for a session", async (_what, by, provider) => {
    const client = clientOf("pkce");
    const options = { redirectTo: `${PAGE}/welcome?a=b` };
    const { data, error } = await client.auth.signInWithSSO({ ...by, options } as SignInWithSSO);
    expect(error).toBeNull();
    const { page, url } = await signInAt(data!.url, provider);
    expect([url.origin + url.pathname, url.searchParams.get("a"), hasSession(page)]).toEqual([
      ...[`${PAGE}/welcome`, "b", false],
    ]);
    const exchanged = await client.auth.exchangeCodeForSession(url.searchParams.get("code")!);
    expect(exchanged.error).toBeNull();
    expect(exchanged.data.user).toMatchObject({ email: "mary@corp.example", app_metadata: { provider } });
    expect((await client.auth.getUser()).data.user!.id).toBe(exchanged.data.user!.id);
    const { data: claimed } = await client.auth.getClaims();
    expect(claimed!.claims.amr).toEqual([{ method: "sso/saml", timestamp: expect.any(Number) }]);
  });

  test.each([{ domain: "other.example" }, { providerId: "other" }])("does not find the provider of %o", async (by) => {
    const refused = await clientOf("pkce").auth.signInWithSSO(by as SignInWithSSO);
    expect(failureOf(refused)).toEqual([404, "sso_provider_not_found"]);
  });
});

describe("POST /auth/v1/sso", () => {
  test("redirects with 303 unless the client asks for the URL", async () => {
    const answer = await post({ domain: "corp.test", redirect_to: PAGE });
    expect([answer.status, answer.headers.get("location")]).toEqual([
      ...[303, `${service().url}/auth/v1/authorize?provider=corp&redirect_to=${encodeURIComponent(PAGE)}`],
    ]);
  });

  test.each([
    ["neither provider nor domain", {}],
    ["a plain challenge", { domain: "corp.test", code_challenge: "x".repeat(43), code_challenge_method: "plain" }],
    ["a domain that is no text", { domain: 1 }],
  ])("refuses %s", async (_what, body) => {
    const answer = await post(body);
    expect([answer.status, ((await answer.json()) as any).error_code]).toEqual([400, "validation_failed"]);
  });

  test("says that no provider with SAML is configured", async () => {
    await configure();
    const refused = await clientOf("pkce").auth.signInWithSSO({ domain: "corp.test" });
    expect(failureOf(refused)).toEqual([404, "saml_provider_disabled"]);
  });
});
