import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { outcomeOf } from "../../../cli/command.ts";
import { doctor } from "../../../parts/advisor/doctor/doctor.ts";
import { newCertificate } from "../../support/certificate.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { CLIENT_SECRET, IdentityProvider } from "../../support/identity-provider.ts";
import { OAuthServer } from "../../support/oauth-server.ts";
import { SamlTestProvider } from "../../support/saml-provider.ts";
import { oidcEntry } from "../federated/support.ts";

const BASE_URL = "http://localhost:3999";
const folder = mkdtempSync(join(tmpdir(), "doctor-"));
const KEYS = newCertificate("service");

let oidc: IdentityProvider;
let oauth: OAuthServer;
let saml: SamlTestProvider;
let database: TestDatabase;
beforeAll(async () => {
  [oidc, oauth, saml, database] = await Promise.all([
    IdentityProvider.start(),
    OAuthServer.start(),
    SamlTestProvider.start(),
    createTestDatabase(),
  ]);
  await oidc.register({ redirectUris: [`${BASE_URL}/auth/oidc/acme/callback`] });
});
afterEach(() => {
  oidc.tamper = null;
});
afterAll(async () => {
  for (const server of [oidc, oauth, saml]) server?.close();
  await database?.drop();
});

const samlEntry = (more: object = {}) => {
  const [metadata, issuer] = [`${saml.url}/metadata`, saml.entityId];
  return { name: "corp", kind: "saml", metadata, issuer, ...more };
};

/** The output for these providers, one line per check. */
async function check(entries: readonly object[], args = ["federated"], settings: object = {}) {
  const file = join(folder, "providers.json");
  writeFileSync(file, JSON.stringify(entries));
  const environment = {
    AUTH_PROVIDERS: file,
    AUTH_PROVIDERS_NETWORKS: "loopback",
    BASE_URL,
    DATA_DIR: folder,
    ...settings,
  };
  const { exitCode, stdout, stderr } = await outcomeOf(doctor(args, environment));
  const lines = stdout.split("\n").map((line) => line.trim().replace(/ {2,}/, " "));
  return { exitCode, stderr, lines, errors: lines.filter((line) => line.startsWith("error ")) };
}

test("sound settings of each kind have no errors, and the output says what to register at the provider", async () => {
  const entries = [oidcEntry(oidc), oauth.entry(), samlEntry({ keys: [KEYS] })];
  const { exitCode, lines, errors } = await check(entries);
  expect([exitCode, errors]).toEqual([0, []]);
  expect(lines).toEqual([
    expect.stringMatching(/^note the providers of the table are not checked: no embedded database is running/),
    "acme: OpenID Connect",
    `register redirect URI: ${BASE_URL}/auth/oidc/acme/callback`,
    `register post-logout redirect URI: ${BASE_URL}/auth/oidc/acme/logout`,
    "ok the metadata name this issuer",
    "ok the key set has 1 key that can verify tokens",
    "ok the provider accepts clientId and clientSecret",
    "ok the provider accepts the sign-in request",
    "legacy: OAuth 2.0",
    `register redirect URI: ${BASE_URL}/auth/oauth2/legacy/callback`,
    "ok the provider accepts clientId and clientSecret",
    "ok the provider accepts the sign-in request",
    "corp: SAML 2.0",
    `register entity id: ${BASE_URL}/auth/saml/corp/metadata`,
    `register metadata: ${BASE_URL}/auth/saml/corp/metadata`,
    `register assertion consumer URL: ${BASE_URL}/auth/saml/corp/acs`,
    `register logout URL: ${BASE_URL}/auth/saml/corp/logout`,
    `ok the metadata are those of ${saml.entityId}`,
    "ok the provider accepts the sign-in request",
    "",
  ]);
});

const metadata = (change: (body: any) => unknown) => {
  oidc.tamper = (path, body) => (path.startsWith("/.well-known") ? change(body) : undefined);
};
const acme = (more: object = {}) => oidcEntry(oidc, more);
const DISCOVERY = "/.well-known/openid-configuration";
const REJECTED = /rejects the sign-in request with status 400: compare the URLs above with those registered there/;
const PRIVATE = /the token endpoint does not respond: .* 10\.0\.0\.1 is not a public address/;
const OF_OTHERS = /the metadata of the provider have the entityID .* instead of urn:example:another/;
const NO_KEYS = () => ({ jwks_uri: `${oidc.url}/nowhere` });
const NO_CODE = () => ({ response_types_supported: ["id_token"] });
type Wrong = [what: string, entry: () => object, message: RegExp, metadata?: () => object];
test.each<Wrong>([
  [
    "another spelling of the issuer",
    () => acme({ issuer: `${oidc.url}/` }),
    /names the issuer .* The issuer must be exactly/,
  ],
  ["an issuer that does not respond", () => acme({ issuer: "http://127.0.0.1:9" }), /ECONNREFUSED/],
  ["a wrong client secret", () => acme({ clientSecret: "wrong" }), /rejects clientId or clientSecret/],
  ["an unknown client", () => acme({ clientId: "unknown" }), REJECTED],
  ["a redirect URI that is not registered", () => acme({ name: "renamed" }), REJECTED],
  ["keys that cannot be read", () => acme(), /the keys cannot be read: .* returned status 404/, NO_KEYS],
  [
    "an endpoint in the network of the service",
    () => acme(),
    PRIVATE,
    () => ({ token_endpoint: "https://10.0.0.1/token" }),
  ],
  ["a provider without the code flow", () => acme(), /does not support the code flow/, NO_CODE],
  ["a wrong OAuth 2.0 secret", () => oauth.entry({ tokenUrl: `${oidc.url}/token`, clientId: "x" }), /rejects clientId/],
  ["metadata that are no XML", () => samlEntry({ metadata: oidc.url + DISCOVERY }), /metadata/],
  ["metadata of another provider", () => samlEntry({ issuer: "urn:example:another" }), OF_OTHERS],
  [
    "a certificate of another key",
    () => samlEntry({ keys: [{ ...KEYS, certificate: newCertificate("other").certificate }] }),
    /keys\[0\]: the certificate is not that of the private key/,
  ],
])("%s is an error that says what to do", async (_, entry, message, change) => {
  if (change) metadata((body) => ({ ...body, ...change() }));
  const { exitCode, errors, stderr } = await check([entry()]);
  expect([exitCode, stderr]).toEqual([1, "there are errors\n"]);
  expect(errors.join("\n")).toMatch(message);
});

test("warnings and notes do not fail", async () => {
  metadata(({ end_session_endpoint, ...body }) => ({
    ...body,
    code_challenge_methods_supported: ["plain"],
    scopes_supported: ["openid"],
  }));
  const { exitCode, lines } = await check([oidcEntry(oidc), samlEntry({ issuer: null })]);
  expect(exitCode).toBe(0);
  expect(lines.filter((line) => /^(warning|note)/.test(line))).toEqual([
    expect.stringMatching(/^note the providers of the table/),
    expect.stringMatching(/^warning the provider does not list PKCE with S256/),
    "warning the provider does not list the scopes profile, email",
    expect.stringMatching(/^note the provider has no end-session endpoint/),
    expect.stringMatching(/^note set issuer to http.*entity: /),
    expect.stringMatching(/^note keys is empty/),
  ]);
});

test("a certificate that ends soon, or has ended, is a warning", async () => {
  const [soon, ended] = [newCertificate("soon", 2048, 20), newCertificate("ended", 2048, -10)];
  const { lines } = await check([samlEntry({ keys: [soon, ended] })]);
  expect(lines.filter((line) => line.startsWith("warning"))).toEqual([
    "warning the certificate of keys[0] expires in 19 days: add the next one",
    expect.stringMatching(/^warning the certificate of keys\[1\] expired on /),
  ]);
});

test("BASE_URL must be set, and be https unless it is on loopback", async () => {
  const general = async (settings: object) => (await check([], ["federated"], settings)).lines[0];
  expect(await general({ BASE_URL: "" })).toMatch(/^warning BASE_URL is not set/);
  const insecure = { BASE_URL: "http://api.example.com", AUTH_PROVIDERS_NETWORKS: "" };
  expect(await general(insecure)).toMatch(/^error BASE_URL is not https/);
});

test("providers of the table are checked too", async () => {
  const define = (name: string, definition: object) =>
    database.owner.query("insert into auth_private.providers values ($1, $2)", [name, definition]);
  const { name, ...acme } = oidcEntry(oidc, { clientSecret: { env: "AUTH_SECRET_ACME" } }) as any;
  await define("acme", acme);
  await define("broken", { kind: "oidc" });
  const settings = { DATABASE_URL: database.url, AUTH_SECRET_ACME: CLIENT_SECRET, JWT_SECRET: "x".repeat(32) };
  const { lines, errors } = await check([], ["federated"], settings);
  expect(lines).toContain("ok the provider accepts clientId and clientSecret");
  expect(errors).toEqual([expect.stringContaining("the provider broken of the table: ")]);
});

test("the keys of trusted issuers are checked, unless one provider is chosen", async () => {
  const file = join(folder, "issuers.json");
  const issuers = [
    { issuer: oidc.url, audience: "api" },
    { issuer: `${oidc.url}/`, audience: "api" },
    { issuer: "https://id.example", jwksUrl: `${oidc.url}/nowhere`, audience: "api" },
  ];
  writeFileSync(file, JSON.stringify(issuers));
  const { lines, errors } = await check([oidcEntry(oidc)], ["federated"], { JWT_ISSUERS: file });
  const found = lines.slice(lines.indexOf(`${oidc.url}: trusted issuer`));
  expect(found.slice(0, 2)).toEqual([`${oidc.url}: trusted issuer`, "ok the key set has 1 key that can verify tokens"]);
  expect(errors).toEqual([
    expect.stringMatching(/names the issuer .* The issuer must be exactly as its tokens spell it; or set jwksUrl$/),
    expect.stringMatching(/the keys cannot be read: .* returned status 404/),
  ]);
  const one = await check([oidcEntry(oidc)], ["federated", "acme"], { JWT_ISSUERS: file });
  expect(one.lines.join()).not.toContain("trusted issuer");
});

test("one provider can be chosen, and no output has a secret", async () => {
  const entries = [oidcEntry(oidc), oauth.entry()];
  const { lines } = await check(entries, ["federated", "legacy"]);
  expect(lines.filter((line) => / [0-9A-Z].*\d$/.test(line) && !line.includes("http"))).toEqual(["legacy: OAuth 2.0"]);
  expect(lines.join()).not.toContain(oauth.clientSecret);
  expect((await check(entries, ["federated", "none"])).stderr).toBe("there is no provider none\n");
});

test("a fault of the file is one line and exit code 2", async () => {
  expect(await check([{ name: "x" }])).toMatchObject({
    exitCode: 2,
    stderr: expect.stringMatching(/^AUTH_PROVIDERS names a file in which \[0\]\.kind must be.*\n$/),
  });
});
