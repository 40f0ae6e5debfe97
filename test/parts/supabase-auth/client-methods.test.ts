import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { failureOf, PASSWORD, useAuth } from "./support.ts";

// Every method of `supabase.auth` of the installed client. A method of a new release is in none of these lists, and fails here.

/** Methods that work as with Supabase, or are of the client alone. */
const WORKS = {
  auth: [
    ...["initialize", "dispose", "isThrowOnErrorEnabled", "onAuthStateChange", "startAutoRefresh", "stopAutoRefresh"],
    ...["getSession", "setSession", "refreshSession", "getUser", "getClaims", "fetchJwk", "signOut"],
    ...["getUserIdentities", "exchangeCodeForSession", "signInWithPassword"],
  ],
  mfa: ["challenge", "challengeAndVerify", "verify", "listFactors", "getAuthenticatorAssuranceLevel"],
  "mfa.webauthn": ["authenticate", "challenge", "verify"],
  passkey: [
    ...["startRegistration", "verifyRegistration", "startAuthentication", "verifyAuthentication"],
    ...["list", "update", "delete"],
  ],
  admin: ["createUser", "getUserById", "listUsers", "signOut"],
  "admin.mfa": ["listFactors"],
  "admin.passkey": ["listPasskeys"],
};

/** Methods that work, with a difference that docs/supabase-js.md names. */
const DIFFERS = {
  auth: [
    ...[
      "signUp",
      "signInAnonymously",
      "signInWithOAuth",
      "signInWithSSO",
      "signInWithIdToken",
      "signInWithOtp",
      "verifyOtp",
    ],
    ...["resend", "reauthenticate", "resetPasswordForEmail", "updateUser", "linkIdentity", "unlinkIdentity"],
    ...["signInWithPasskey", "registerPasskey"],
  ],
  mfa: ["enroll", "unenroll"],
  "mfa.webauthn": ["enroll", "register"],
  admin: ["deleteUser", "generateLink", "inviteUserByEmail", "updateUserById"],
  "admin.mfa": ["deleteFactor"],
  "admin.passkey": ["deletePasskey"],
};

/** Methods that docs/supabase-js.md lists as not supported. */
const MISSING = {
  auth: ["signInWithWeb3"],
  "mfa.recoveryCodes": ["getStatus", "generate", "verify", "regenerate", "unenroll"],
  oauth: ["getAuthorizationDetails", "approveAuthorization", "denyAuthorization", "listGrants", "revokeGrant"],
  "admin.oauth": [
    ...["listClients", "createClient", "getClient", "updateClient", "deleteClient", "regenerateClientSecret"],
  ],
  "admin.customProviders": ["listProviders", "createProvider", "getProvider", "updateProvider", "deleteProvider"],
};

/** Parts of a client that are not methods for its users. */
const INTERNAL = new Set([
  ...["constructor", "fetch", "logger", "signInWithEthereum", "signInWithSolana"],
  ...["linkIdentityOAuth", "linkIdentityIdToken"],
]);

const { client, newUser, send, service, sql } = useAuth("bigint");
const GUIDE = readFileSync("docs/supabase-js.md", "utf8");

function methodsOf(object: any): string[] {
  const names = new Set<string>();
  for (let each = object; each && each !== Object.prototype; each = Object.getPrototypeOf(each))
    for (const name of Object.getOwnPropertyNames(each))
      if (typeof object[name] === "function" && !name.startsWith("_") && !INTERNAL.has(name)) names.add(name);
  return [...names].sort();
}

/** `{ auth: [...], mfa: [...], "mfa.webauthn": [...] }` */
function methodsOfClient(): Record<string, string[]> {
  const { auth } = client();
  const found: Record<string, string[]> = { auth: methodsOf(auth) };
  for (const part of ["mfa", "passkey", "oauth", "admin"] as const) {
    found[part] = methodsOf(auth[part]);
    for (const [name, inner] of Object.entries(auth[part] as object))
      if (inner && typeof inner === "object" && methodsOf(inner).length > 0)
        found[`${part}.${name}`] = methodsOf(inner);
  }
  return found;
}

test("each method of supabase.auth works, works with a documented difference, or is documented as missing", () => {
  const listed: Record<string, string[]> = {};
  for (const list of [WORKS, DIFFERS, MISSING])
    for (const [part, names] of Object.entries(list)) listed[part] = [...(listed[part] ?? []), ...names].sort();
  expect(methodsOfClient()).toEqual(listed);
});

test("docs/supabase-js.md names each method that differs or is missing", () => {
  const parts = Object.entries(MISSING).filter(([part]) => part !== "auth");
  const names = [...Object.values(DIFFERS).flat(), ...MISSING.auth, ...parts.map(([part]) => part)];
  expect(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(GUIDE))).toEqual([]);
});

describe("a method that is missing resolves to an error", () => {
  test.each([
    ["oauth.listGrants", async () => (await newUser()).client.auth.oauth.listGrants()],
    ["admin.oauth.listClients", () => client("service_role").auth.admin.oauth.listClients()],
    ["admin.customProviders.listProviders", () => client("service_role").auth.admin.customProviders.listProviders()],
  ])("%s", async (_, call) => {
    const failed = await call();
    expect(failureOf(failed)).toEqual([404, "feature_disabled"]);
    expect(failed.error!.message).toBe("This service does not have this feature");
  });
});

const ID = "00000000-0000-4000-8000-000000000000";

/** The routes of Supabase Auth that this service does not have. Source: internal/api/api.go. */
const ABSENT = [
  ...["GET /.well-known/openid-configuration", "GET /.well-known/oauth-authorization-server"],
  ...["POST /magiclink", "GET /callback", "POST /callback"],
  ...["GET /user/oauth/grants", "DELETE /user/oauth/grants", "GET /sso/saml/metadata", "POST /sso/saml/acs"],
  ...["GET /factors/recovery-codes", "POST /factors/recovery-codes", "DELETE /factors/recovery-codes"],
  ...["POST /factors/recovery-codes/verify", "POST /factors/recovery-codes/regenerate"],
  ...["GET /admin/audit", "GET /admin/sso/providers", "POST /admin/sso/providers", `GET /admin/sso/providers/${ID}`],
  ...[`PUT /admin/sso/providers/${ID}`, `DELETE /admin/sso/providers/${ID}`],
  ...["GET /admin/scim-providers", "POST /admin/scim-providers", `GET /admin/scim-providers/${ID}`],
  ...[`POST /admin/scim-providers/${ID}/rotate-token`, `DELETE /admin/scim-providers/${ID}`],
  ...["GET /admin/oauth/clients", "POST /admin/oauth/clients", `GET /admin/oauth/clients/${ID}`],
  ...[`PUT /admin/oauth/clients/${ID}`, `DELETE /admin/oauth/clients/${ID}`],
  ...[`POST /admin/oauth/clients/${ID}/regenerate_secret`],
  ...["GET /admin/custom-providers", "POST /admin/custom-providers", `GET /admin/custom-providers/${ID}`],
  ...[`PUT /admin/custom-providers/${ID}`, `DELETE /admin/custom-providers/${ID}`],
  ...["GET /scim/v2/ServiceProviderConfig", "GET /scim/v2/ResourceTypes", "GET /scim/v2/Schemas"],
  ...["GET /scim/v2/Users", "POST /scim/v2/Users", `GET /scim/v2/Users/${ID}`, `PUT /scim/v2/Users/${ID}`],
  ...[`PATCH /scim/v2/Users/${ID}`, `DELETE /scim/v2/Users/${ID}`],
  ...["POST /oauth/clients/register", "POST /oauth/token", "GET /oauth/authorize"],
  ...[`GET /oauth/authorizations/${ID}`, `POST /oauth/authorizations/${ID}/consent`],
].map((request) => [request, 404, "feature_disabled"] as const);

/** What is absent of a route that this service has. */
const PARTLY = [
  ["GET /verify", 400, "validation_failed"],
  [`PUT /admin/users/${ID}/factors/${ID}`, 405, "validation_failed"],
  ["POST /token?grant_type=web3", 400, "validation_failed"],
  ["POST /token", 400, "validation_failed"],
] as const;

describe("what only Supabase Auth has is refused in its form, to each caller:", () => {
  test.each([...ABSENT, ...PARTLY])("%s", async (request, expected, code) => {
    const [method, path] = request.split(" ") as [string, string];
    const service_role = service().service.tokens.issueKey("service_role");
    const body = method === "GET" ? {} : { body: { email: "ada@example.com" } };
    for (const caller of [{}, { token: "none" }, { token: service_role, headers: { apikey: service_role } }]) {
      const { status, headers, json } = await send(`${method} /auth/v1${path}`, { ...body, ...caller });
      expect([status, json]).toEqual([expected, { code: expected, error_code: code, msg: expect.any(String) }]);
      expect(headers.get("x-sb-error-code")).toBe(code);
    }
  });
});

const EMAIL = "unused@test.example";
const LONG = "x".repeat(43);

/** Routes with a body, and the effective fields that they use. Other fields are ignored. */
const BODIES: readonly [request: string, body: object, used: readonly string[]][] = [
  ["POST /signup", { email: EMAIL }, ["password"]],
  ["POST /token?grant_type=password", { email: EMAIL }, ["password"]],
  ["POST /token?grant_type=refresh_token", { refresh_token: "x" }, []],
  ["POST /token?grant_type=pkce", { auth_code: "x", code_verifier: LONG }, []],
  ["POST /token?grant_type=id_token", { provider: "x", id_token: "x" }, ["nonce"]],
  ["POST /otp", { email: EMAIL }, []],
  ["POST /recover", { email: EMAIL }, []],
  ["POST /resend", { type: "signup", email: EMAIL }, []],
  ["POST /verify", { type: "email", email: EMAIL, token: "123456" }, ["password"]],
  ["POST /sso", { domain: "test.example" }, []],
  ["PUT /user", {}, ["password", "nonce"]],
  ["POST /factors", { factor_type: "totp" }, []],
  ["POST /passkeys/authentication/verify", { challenge_id: ID, credential: {} }, []],
  ["POST /invite", { email: EMAIL }, []],
  ["POST /admin/generate_link", { type: "signup", email: EMAIL }, ["password"]],
  ["POST /admin/generate_link", { type: "magiclink", email: EMAIL }, []],
  [
    "POST /admin/users",
    { email: EMAIL },
    ["password", "password_hash", "role", "ban_duration", "email_confirm", "user_metadata", "app_metadata"],
  ],
];

/** Fields that change an account, and the answer of a route that does not use them. */
const EFFECTIVE: Readonly<Record<string, readonly [value: unknown, status: number, code: string]>> = {
  app_metadata: [{ role: "admin" }, 403, "not_admin"],
  user_metadata: [{ a: 1 }, 400, "validation_failed"],
  role: ["admin", 400, "validation_failed"],
  ban_duration: ["24h", 400, "validation_failed"],
  email_confirm: [true, 400, "validation_failed"],
  id: [ID, 400, "validation_failed"],
  nonce: ["123456", 400, "validation_failed"],
  password: [PASSWORD, 400, "validation_failed"],
  password_hash: ["$2b$04$x", 400, "validation_failed"],
  phone: ["+4912345", 400, "phone_provider_disabled"],
  phone_confirm: [true, 400, "phone_provider_disabled"],
  channel: ["sms", 400, "phone_provider_disabled"],
};

describe("a field that changes accounts is used, or refused, and never ignored:", () => {
  const unused = BODIES.flatMap(([request, body, used]) =>
    Object.keys(EFFECTIVE)
      .filter((field) => !used.includes(field))
      .map((field) => [request, field, body] as const),
  );
  let user = "";
  beforeAll(async () => {
    user = (await (await newUser()).client.auth.getSession()).data.session!.access_token;
  });

  test.each(unused)("%s with %s", async (request, field, body) => {
    const [method, path] = request.split(" ") as [string, string];
    const apikey = service().service.tokens.issueKey("service_role");
    const isAdmin = /admin|invite/.test(path);
    const caller = isAdmin ? { token: apikey, headers: { apikey } } : { token: user };
    const [value, status, code] = EFFECTIVE[field]!;
    const { json, ...reply } = await send(`${method} /auth/v1${path}`, {
      ...caller,
      body: { ...body, [field]: value },
    });
    // Without any other field.
    const isStrict = request === "POST /admin/users" && field === "channel";
    expect([reply.status, json.error_code]).toEqual([status, isStrict ? "validation_failed" : code]);
    expect(await sql("select from auth_private.login_emails where email = $1", EMAIL)).toEqual([]);
  });

  test("a field of no meaning is ignored", async () => {
    const sent = { email: "ignored@test.example", password: PASSWORD, gotrue_meta_security: {}, anything: 1 };
    expect((await send("POST /auth/v1/signup", { body: sent })).status).toBe(200);
  });
});

describe("a request that no method of ours receives has the errors of Supabase Auth:", () => {
  const limited = useAuth("uuid", { RATE_LIMIT: "1" });

  test.each([
    ["an unknown path", "GET /auth/v1/admin/oauth/clients", 404, "feature_disabled"],
    ["the root", "GET /auth/v1", 404, "feature_disabled"],
    ["an unknown method", "DELETE /auth/v1/signup", 405, "validation_failed"],
    ["a path that cannot be decoded", "GET /auth/v1/admin/users/%ff", 400, "validation_failed"],
  ])("%s", async (_, request, status, code) => {
    const sent = async (version: string) => {
      const reply = await send(request, { headers: version ? { "x-supabase-api-version": version } : {} });
      return [reply.status, reply.json];
    };
    const [, { msg: message }] = (await sent("")) as [number, { msg: string }];
    expect(await sent("")).toEqual([status, { code: status, error_code: code, msg: message }]);
    expect(await sent("2024-01-01")).toEqual([status, { code, message }]);
  });

  test("more requests than RATE_LIMIT", async () => {
    const attempt = () => limited.client().auth.signInWithPassword({ email: "a@example.com", password: "x" });
    await expect.poll(async () => failureOf(await attempt())).toEqual([429, "over_request_rate_limit"]);
    const { status, headers, json } = await limited.send("POST /auth/v1/signup", { body: {} });
    expect([status, Number(headers.get("retry-after")) > 0]).toEqual([429, true]);
    expect(json).toMatchObject({ code: 429, error_code: "over_request_rate_limit" });
  });
});
