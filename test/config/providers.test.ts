import { describe, expect, test } from "vitest";
import type { Environment } from "../../config/config.ts";
import { PROTOCOLS } from "../../parts/federated/oauth/protocols.ts";
import { readConfig } from "../support/config.ts";
import { providersError, writeFile } from "../support/settings.ts";

const OIDC = { name: "acme", kind: "oidc", issuer: "https://id.acme.example", clientId: "content" };
const OAUTH2 = {
  name: "legacy",
  kind: "oauth2",
  authorizationUrl: "https://legacy.example/authorize",
  tokenUrl: "https://legacy.example/token",
  userinfoUrl: "https://legacy.example/user",
  clientId: "content",
};
const LOOPBACK = "is on a loopback address, which requires AUTH_PROVIDERS_NETWORKS=loopback";
const SAML = { name: "corp", kind: "saml", metadata: "https://corp.example/metadata" };

const read = (entries: unknown, more: Environment = {}) =>
  readConfig({ AUTH_PROVIDERS: writeFile(JSON.stringify(entries)), ...more })
    .providers.with(PROTOCOLS)
    .readFile();
const errorOf = (entries: unknown, more: Environment = {}) => providersError(() => read(entries, more));

test("an entry of OpenID Connect needs name, issuer and client; everything else has a default", () => {
  expect(read([OIDC])).toEqual([
    {
      ...OIDC,
      title: "acme",
      signUp: true,
      claims: { subject: [["sub"]], name: [["name"], ["preferred_username"]], email: [["email"]] },
      require: [],
      clientSecret: null,
      clientAuthentication: null,
      scopes: ["openid", "profile", "email"],
      parameters: {},
    },
  ]);
});

test("an entry of OAuth 2.0 is of the issuer tokenUrl unless it names another, and has no scopes", () => {
  expect(read([OAUTH2])[0]).toMatchObject({
    issuer: OAUTH2.tokenUrl,
    scopes: [],
    claims: { subject: [["sub"], ["id"]] },
  });
  expect(read([{ ...OAUTH2, issuer: "https://legacy.example" }])[0]).toMatchObject({
    issuer: "https://legacy.example",
  });
});

test("every field can be set", () => {
  const oidc = {
    ...OIDC,
    title: "Acme Inc.",
    signUp: false,
    claims: { name: ["$.profile.nick", "name"], email: 'emails[0]."https://x.example/value"' },
    require: { hd: "acme.example", "$.groups": ["staff", "board"], email_verified: true },
    clientSecret: "in clear text",
    clientAuthentication: "basic",
    scopes: ["email", "groups"],
    parameters: { prompt: "select_account" },
  };
  expect(read([oidc])[0]).toMatchObject({
    title: "Acme Inc.",
    signUp: false,
    claims: {
      subject: [["sub"]],
      name: [["profile", "nick"], ["name"]],
      email: [["emails", 0, "https://x.example/value"]],
    },
    require: [
      { claim: ["hd"], values: ["acme.example"] },
      { claim: ["groups"], values: ["staff", "board"] },
      { claim: ["email_verified"], values: [true] },
    ],
    scopes: ["openid", "email", "groups"],
    parameters: { prompt: "select_account" },
  });
});

test("secrets may be read from files and from the environment", () => {
  const entries = [
    { ...OIDC, clientSecret: { file: writeFile("from a file\n") } },
    { ...OAUTH2, clientSecret: { env: "LEGACY_SECRET" } },
  ];
  const [oidc, oauth2] = read(entries, { LEGACY_SECRET: "from the environment" }) as any[];
  expect([oidc.clientSecret, oauth2.clientSecret]).toEqual(["from a file", "from the environment"]);
});

const URL_FAULT = "must be an https URL without a user, password or fragment (#)";
const SECRET = 'must be a string, {"file": "…"} or {"env": "…"}, and not empty';
test.each<[unknown, string]>([
  [{}, "the value must be a list of providers"],
  [["x"], "[0] must be an object"],
  [[{ ...OIDC, kind: "ldap" }], "[0].kind must be oidc, oauth2 or saml"],
  [[{ name: "x" }], "[0].kind must be oidc, oauth2 or saml"],
  [[OIDC, OIDC], "the value names a provider twice"],
  [[{ ...OIDC, name: "Acme Inc" }], "[0].name must have 1 to 50 letters a to z, digits and hyphens"],
  [[{ ...OIDC, issuer: undefined }], "[0].issuer is required"],
  [[{ ...OIDC, issuer: "http://id.acme.example" }], `[0].issuer ${URL_FAULT}`],
  [[{ ...OIDC, clientId: "" }], "[0].clientId must not be empty"],
  [[{ ...OIDC, client_id: "x" }], "[0].client_id is not a known field"],
  [[{ ...OIDC, signUp: "no" }], "[0].signUp must be true or false"],
  [[{ ...OIDC, scopes: "email" }], "[0].scopes must be a list of scopes"],
  [[{ ...OIDC, clientAuthentication: "jwt" }], "[0].clientAuthentication must be post or basic"],
  [[{ ...OIDC, clientSecret: 5 }], `[0].clientSecret ${SECRET}`],
  [[{ ...OIDC, clientSecret: {} }], `[0].clientSecret ${SECRET}`],
  [
    [{ ...OIDC, clientSecret: { env: "NOT_SET" } }],
    "[0].clientSecret names the environment variable NOT_SET, which is not set",
  ],
  [
    [{ ...OIDC, clientSecret: { file: "/nowhere" } }],
    "[0].clientSecret names a file that cannot be read: ENOENT: no such file or directory, open '/nowhere'",
  ],
  [[{ ...OIDC, claims: { mail: "x" } }], "[0].claims.mail is not a known field"],
  [[{ ...OIDC, claims: { email: [] } }], "[0].claims.email must not be empty"],
  [
    [{ ...OIDC, claims: { email: "a..b" } }],
    `[0].claims.email[0] must be the name of a claim, a path such as app.role or .roles[0], or a JSONPath such as $.roles[?(@ == 'editor')]`,
  ],
  [[{ ...OAUTH2, tokenUrl: "ftp://x" }], `[0].tokenUrl ${URL_FAULT}`],
  [[OAUTH2, { ...OAUTH2, name: "b", userinfoUrl: undefined }], "[1].userinfoUrl is required"],
  [[{ ...OIDC, domains: ["corp.example"] }], "[0].domains is not a known field"],
  [[OIDC, SAML], "[1].kind is saml, but the part saml is not open (PARTS)"],
])("a file with %.60j is rejected: %s", (entries, message) => expect(errorOf(entries)).toBe(message));

test("parameters of the service cannot be replaced in the authorization request", () => {
  for (const name of [
    "state",
    "nonce",
    "redirect_uri",
    "response_type",
    "code_challenge_method",
    "client_id",
    "request",
  ])
    expect(errorOf([{ ...OIDC, parameters: { [name]: "x" } }])).toMatch(
      /^\[0\]\.parameters must not contain client_id, redirect_uri/,
    );
});

test("no message contains a secret", () => {
  const secret = "a-client-secret-7";
  expect(errorOf([{ ...OIDC, clientSecret: secret, scopes: 1 }])).not.toContain(secret);
});

test("providers on loopback addresses are for tests", () => {
  const local = [
    ["issuer", { ...OIDC, issuer: "http://127.0.0.1:4000" }],
    ["tokenUrl", { ...OAUTH2, tokenUrl: "http://localhost:4000/token" }],
  ] as const;
  for (const [field, entry] of local) {
    expect(errorOf([entry])).toBe(`[0].${field} ${LOOPBACK}`);
    expect(errorOf([entry], { AUTH_PROVIDERS_NETWORKS: "loopback" })).toBe("accepted");
  }
});

test("AUTH_RETURN_ORIGINS is a list of origins, and never all of them", () => {
  const origins = (AUTH_RETURN_ORIGINS: string) => readConfig({ AUTH_RETURN_ORIGINS }).authReturnOrigins;
  expect(origins("https://app.example.com, http://localhost:5173")).toEqual([
    "https://app.example.com",
    "http://localhost:5173",
  ]);
  expect(() => origins("*")).toThrow("AUTH_RETURN_ORIGINS must not be *: every page could receive sign-ins");
  expect(() => origins("https://app.example.com/path")).toThrow("AUTH_RETURN_ORIGINS must be * or origins");
});

test("AUTH_PROVIDERS requires accounts", () => {
  const foreign = { DATABASE_URL: "postgres://o:p@db.example.com/x", MIGRATE: "off", API_KEY_REQUIRED: "off" };
  expect(errorOf([OIDC], foreign)).toBe("AUTH_PROVIDERS requires MIGRATE=on");
});

test.each([OIDC, OAUTH2])("an entry of the kind $kind is refused if its part is not open", (entry) => {
  const { providers } = readConfig({ AUTH_PROVIDERS: writeFile(JSON.stringify([entry])) });
  expect(() => providers.readFile()).toThrow(`[0].kind is ${entry.kind}, but the part federated is not open (PARTS)`);
  expect(() => providers.readRow(entry.name, entry)).toThrow("the part federated is not open (PARTS)");
});

describe("a row of the table", () => {
  const reader = readConfig({ AUTH_SECRET_ACME: "from the environment", OTHER: "x" }).providers.with(PROTOCOLS);
  const ofTable = (entry: object) => {
    const { name, ...definition } = { ...OIDC, ...entry };
    try {
      return reader.readRow(name, definition);
    } catch (error) {
      return (error as Error).message;
    }
  };

  test("has the same fields, and names environment variables that begin with AUTH_SECRET_", () => {
    expect(ofTable({ clientSecret: { env: "AUTH_SECRET_ACME" } })).toMatchObject({
      clientSecret: "from the environment",
    });
  });

  test.each([
    [
      { clientSecret: "in clear text" },
      'clientSecret must be {"env": "AUTH_SECRET_…"}: the table must not contain secrets or name other sources',
    ],
    [
      { clientSecret: { env: "OTHER" } },
      'clientSecret must be {"env": "AUTH_SECRET_…"}: the table must not contain secrets or name other sources',
    ],
    [
      { clientSecret: { env: "AUTH_SECRET_NONE" } },
      "clientSecret names the environment variable AUTH_SECRET_NONE, which is not set",
    ],
    [
      { clientSecret: { file: "/etc/passwd" } },
      'clientSecret must be {"env": "AUTH_SECRET_…"}: the table must not contain secrets or name other sources',
    ],
    [{ issuer: "http://127.0.0.1" }, `the provider acme of the table: issuer ${LOOPBACK}`],
  ])("with %j is rejected", (entry, message) => expect(ofTable(entry)).toContain(message));
});
