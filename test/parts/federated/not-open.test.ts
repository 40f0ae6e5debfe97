import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { outcomeOf } from "../../../cli/command.ts";
import { doctor } from "../../../parts/advisor/doctor/doctor.ts";
import { PASSWORD, useFactors } from "../../support/second-factor.ts";
import { visit } from "../../support/visit.ts";

const PARTS = "-federated";
const client = useFactors({ PARTS });
const { service, api, signIn, enrol, codeOf, sql } = client;

const entriesOf = (entry: object) => {
  const file = join(mkdtempSync(join(tmpdir(), "providers-")), "providers.json");
  writeFileSync(file, JSON.stringify([entry]));
  return file;
};

test("the part saml needs it", async () => {
  const { exitCode, stderr } = await outcomeOf(doctor(["federated"], { PARTS: "+saml,-federated" }));
  expect([exitCode, stderr]).toEqual([
    2,
    expect.stringContaining("PARTS leaves out federated, which saml needs: leave out both, or neither"),
  ]);
});

test("without the part, a provider in AUTH_PROVIDERS is refused, and trusted issuers are checked", async () => {
  const AUTH_PROVIDERS = entriesOf({ name: "acme", kind: "oidc", issuer: "https://acme.example", clientId: "a" });
  const refused = await outcomeOf(doctor(["federated"], { PARTS, AUTH_PROVIDERS }));
  expect([refused.exitCode, refused.stderr]).toEqual([
    2,
    expect.stringContaining("kind is oidc, but the part federated is not open (PARTS)"),
  ]);
  const JWT_ISSUERS = entriesOf({ issuer: "https://127.0.0.1:1", audience: "a" });
  const checked = await outcomeOf(doctor(["federated"], { PARTS, JWT_ISSUERS, AUTH_PROVIDERS_NETWORKS: "loopback" }));
  expect([checked.exitCode, checked.stdout]).toEqual([1, expect.stringContaining("127.0.0.1:1: trusted issuer\n")]);
});

test("its routes are neither served nor described, and there are no providers", async () => {
  const headers = { authorization: `Bearer ${await signIn("ada")}` };
  for (const path of [
    "/auth/federated/token",
    "/auth/identities",
    "/auth/oidc/acme",
    "/auth/oauth2/acme/callback",
    "/auth/saml/corp/acs",
  ]) {
    const { status } = await fetch(service().url + path, { method: "OPTIONS", headers });
    expect([path, status]).toEqual([path, 404]);
  }
  const { json } = await api("GET /openapi.json");
  expect(Object.keys(json.paths).filter((path) => /federated|identities|oidc|oauth2|saml/.test(path))).toEqual([]);
  expect((await api("GET /auth/providers")).json).toEqual({ data: [] });
});

test("/auth/v1 answers as where there are no providers", async () => {
  const { json } = await api("GET /auth/v1/settings");
  expect([Object.keys(json.external), json.saml_enabled]).toEqual([["email", "phone", "anonymous_users"], false]);
  const codeOf = async (request: string, body?: object) => {
    const { status, json } = await api(request, { as: "ada", ...(body && { body }) });
    return [status, json.error_code];
  };
  expect(await codeOf("GET /auth/v1/authorize?provider=acme")).toEqual([400, "validation_failed"]);
  expect(await codeOf("GET /auth/v1/user/identities/authorize?provider=acme")).toEqual([400, "validation_failed"]);
  expect(await codeOf("POST /auth/v1/sso", { provider_id: "corp" })).toEqual([404, "saml_provider_disabled"]);
  const code = { auth_code: "a", code_verifier: "b" };
  expect(await codeOf("POST /auth/v1/token?grant_type=pkce", code)).toEqual([404, "flow_state_not_found"]);
  const token = { id_token: "a", provider: "acme" };
  expect(await codeOf("POST /auth/v1/token?grant_type=id_token", token)).toEqual([400, "provider_disabled"]);
  const id = "00000000-0000-4000-8000-000000000000";
  expect(await codeOf(`DELETE /auth/v1/user/identities/${id}`)).toEqual([422, "identity_not_found"]);
});

test("the pages have no providers and no identities, and a form of one is refused", async () => {
  await sql(
    "insert into auth_private.identities (user_id, issuer, subject, provider, linked_at) values (1, 'https://acme.example', 'a', 'acme', now())",
  );
  const page = await visit(client, "/auth/sign-in");
  expect([page.status, page.text.includes("Continue with")]).toEqual([200, false]);
  const { cookie } = await visit(client, "/auth/sign-in", { username: "ada@example.com", password: PASSWORD });
  const { text } = await visit(client, "/auth/account", null, { cookie });
  expect([text.includes("API keys"), text.includes("Linked identities")]).toEqual([true, false]);
  const csrf = /name="csrf" value="([^"]+)"/.exec(text)![1]!;
  const statusOf = async (path: string, fields: Readonly<Record<string, string>>) =>
    (await visit(client, path, { csrf, ...fields }, { cookie })).status;
  const [identity] = await sql("select id from auth_private.identities where user_id = 1");
  expect(await statusOf("/auth/account/identities", { provider: "acme" })).toBe(404);
  expect(await statusOf("/auth/account/identities", { signInCode: "a" })).toBe(401);
  expect(await statusOf("/auth/account/identities/unlinked", { id: identity!.id })).toBe(404);
});

test("a sign-in in a browser asks for the second factor, and a challenge that is over says what to do", async () => {
  const { secret } = await enrol("bob");
  const { text } = await visit(client, "/auth/sign-in", { username: "bob@example.com", password: PASSWORD });
  const challenge = /name="challenge" value="([^"]+)"/.exec(text)![1]!;
  const form = { challenge, kinds: "totp", code: codeOf(secret, 1) };
  const signedIn = await visit(client, "/auth/sign-in/code", form);
  expect([signedIn.status, signedIn.cookie]).toEqual([303, expect.stringMatching(/^SESSION=./)]);
  const late = await visit(client, "/auth/sign-in/code", { ...form, challenge: "of another service" });
  expect([late.status, late.text]).toEqual([401, expect.stringContaining("Start again, and finish within 10 minutes")]);
});
