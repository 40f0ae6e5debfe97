import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { failureOf, useAuth } from "./support.ts";

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

const { client, newUser, send } = useAuth("bigint");
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
