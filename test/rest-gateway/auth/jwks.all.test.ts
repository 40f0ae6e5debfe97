import { generateKeyPairSync } from "node:crypto";
import jwt from "jsonwebtoken";
import { beforeAll, describe, expect, test } from "vitest";
import { secretOf } from "../../../identity/keys.ts";
import { createTokens } from "../../../identity/tokens.ts";
import { readConfig } from "../../support/config.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { startTestService, type TestService } from "../../support/service.ts";

const pair = () =>
  generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
const [first, second] = [pair(), pair()];
const [secret, otherSecret] = ["first secret, long enough for HS256!", "second secret, long enough for HS256"];

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
  return () => database.drop();
});

/** Starts a service on the database of the previous one. */
async function withService<T>(
  settings: Record<string, string>,
  work: (service: TestService) => Promise<T>,
): Promise<T> {
  const started = await startTestService({ GRAPHQL_DOCUMENTS: "none", ...settings }, database);
  try {
    return await work(started);
  } finally {
    await started.service.stop();
  }
}

const ask = async ({ url }: TestService, path: string, headers = {}, body?: object) => {
  const type = { "content-type": "application/json", ...headers };
  const init = body ? { method: "POST", headers: type, body: JSON.stringify(body) } : { headers };
  const response = await fetch(url + path, init);
  return { status: response.status, headers: response.headers, json: (await response.json()) as any };
};
const signIn = async (service: TestService) =>
  (await ask(service, "/auth/login", {}, { username: "ada", password: "Correct-Horse-7!" })).json;
const keysOf = async (service: TestService) => (await ask(service, "/.well-known/jwks.json")).json.keys;
const algorithmOf = (token: string) => jwt.decode(token, { complete: true })!.header.alg;

describe("a change of the signing key", () => {
  const BEFORE = { HS256: { JWT_SECRET: secret }, RS256: { JWT_SECRET: "", JWT_PRIVATE_KEY: first.privateKey } };
  type Algorithm = keyof typeof BEFORE;
  /** Tokens signed with each key; a refresh token is valid once, so each test has its own. */
  const signed = {} as Record<Algorithm, Record<string, string>[]>;
  beforeAll(async () => {
    for (const algorithm of ["HS256", "RS256"] as const) {
      signed[algorithm] = await withService(BEFORE[algorithm], async (service) => {
        const keys = {
          anon: service.service.tokens.issueKey("anon"),
          service: service.service.tokens.issueKey("service_role"),
        };
        const logins = await Promise.all([signIn(service), signIn(service), signIn(service)]);
        return logins.map((tokens) => ({ ...tokens, ...keys }));
      });
    }
  });

  test.each<[string, Algorithm, Record<string, string>, keys: number]>([
    ["HS256 to HS256", "HS256", { JWT_SECRET: otherSecret, JWT_PREVIOUS_KEY: secret }, 0],
    ["HS256 to RS256", "HS256", { JWT_SECRET: "", JWT_PRIVATE_KEY: first.privateKey, JWT_PREVIOUS_KEY: secret }, 1],
    [
      "RS256 to RS256",
      "RS256",
      { JWT_SECRET: "", JWT_PRIVATE_KEY: second.privateKey, JWT_PREVIOUS_KEY: first.publicKey },
      2,
    ],
    [
      "RS256 to HS256, the old one with both halves",
      "RS256",
      { JWT_SECRET: otherSecret, JWT_PREVIOUS_KEY: first.privateKey.replaceAll("\n", "\\n") },
      1,
    ],
  ])("%s: older tokens stay valid until they expire", async (_what, before, after, keys) => {
    const old = signed[before].pop()!;
    await withService(after, async (service) => {
      const bearer = { authorization: `Bearer ${old.accessToken}` };
      expect((await ask(service, "/users/1", bearer)).status).toBe(200);
      for (const apikey of [old.anon, old.service])
        expect((await ask(service, "/rest/v1/users?limit=1", { apikey })).status).toBe(200);
      const { status, json } = await ask(service, "/auth/refresh", {}, { refreshToken: old.refreshToken });
      expect(status).toBe(200);
      expect(algorithmOf(json.accessToken)).toBe(after.JWT_PRIVATE_KEY ? "RS256" : "HS256");
      const [oldKid, newKid] = [old.accessToken, json.accessToken].map(
        (token) => jwt.decode(token, { complete: true })!.header.kid,
      );
      expect(newKid).not.toBe(oldKid);
      expect(await keysOf(service)).toHaveLength(keys);
    });
  });

  test("without the previous key invalidates the tokens that it signed", async () => {
    const old = signed.HS256.pop()!;
    await withService({ JWT_SECRET: otherSecret }, async (service) => {
      const { status, json } = await ask(service, "/users/1", { authorization: `Bearer ${old.accessToken}` });
      expect([status, json.error.code]).toEqual([401, "INVALID_TOKEN"]);
      expect((await ask(service, "/auth/refresh", {}, { refreshToken: old.refreshToken })).status).toBe(401);
    });
  });
});

test("with JWT_PRIVATE_KEY beside JWT_SECRET, the private key signs, and what is derived from JWT_SECRET stays", async () => {
  const { privateKey } = first;
  const settings = { DATABASE_URL: "postgres://owner@db/content", JWT_SECRET: secret, JWT_PRIVATE_KEY: privateKey };
  const config = readConfig(settings);
  expect(await secretOf(config)).toBe(secret);
  expect(algorithmOf(createTokens(config, secret).issueKey("anon"))).toBe("RS256");
});

test("/.well-known/jwks.json has only public keys, which other services can verify tokens with", async () => {
  const settings = { JWT_SECRET: "", JWT_PRIVATE_KEY: second.privateKey, JWT_PREVIOUS_KEY: first.publicKey };
  await withService(settings, async (service) => {
    const keys = await keysOf(service);
    for (const key of keys) {
      expect(Object.keys(key).sort()).toEqual(["alg", "e", "kid", "kty", "n", "use"]);
      expect(key).toMatchObject({ alg: "RS256", kty: "RSA", use: "sig" });
    }
    const { accessToken } = await signIn(service);
    const kid = jwt.decode(accessToken, { complete: true })!.header.kid;
    expect(keys.map((key: { kid: string }) => key.kid)).toContain(kid);
    expect(jwt.verify(accessToken, second.publicKey, { algorithms: ["RS256"] })).toMatchObject({ sub: "1" });
    // The public key must not be accepted as an HMAC secret.
    const forged = jwt.sign({ sub: "1", role: "admin", type: "access" }, second.publicKey, {
      ...{ algorithm: "HS256" as const, keyid: kid!, issuer: "content-service", expiresIn: 60 },
    });
    expect((await ask(service, "/users/1", { authorization: `Bearer ${forged}` })).status).toBe(401);
  });
});

test.each([
  ["JWT_PREVIOUS_KEY", "short"],
  ["JWT_PREVIOUS_KEY", "-----BEGIN PUBLIC KEY----- no key, but as long as a secret"],
])("an invalid %s is rejected at start, and not printed", (name, value) => {
  expect(() => readConfig({ [name]: value })).toThrow(new RegExp(`^${name} must [^]*$`));
  expect(() => readConfig({ [name]: value })).not.toThrow(value);
});

test("with MIGRATE=off previous keys are rejected", () => {
  const settings = { DATABASE_URL: "postgres://a@localhost/b", MIGRATE: "off", JWT_SECRET: secret };
  expect(() => readConfig({ ...settings, JWT_PREVIOUS_KEY: otherSecret })).toThrow("requires MIGRATE=on");
  expect(() => readConfig({ ...settings, JWT_PREVIOUS_KEY: first.publicKey })).toThrow("requires MIGRATE=on");
});
