import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import jwt from "jsonwebtoken";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Caller } from "../../db/caller.ts";
import { IssuerTokens } from "../../identity/issuer-tokens.ts";
import { Outbound } from "../../identity/outbound.ts";
import { remoteKeys } from "../../identity/remote-keys.ts";
import { createTestDatabase } from "../support/database.ts";
import { type ApiReply, sendTo } from "../support/resource-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { newKey, TokenIssuer } from "../support/token-issuer.ts";

let issuer: TokenIssuer;
/** Its keys are configured, not discovered. */
let other: TokenIssuer;
/** Never answers. */
let absent: TokenIssuer;
let service: TestService;
/** Serves the same database without accounts. */
let foreign: TestService;

beforeAll(async () => {
  [issuer, other, absent] = await Promise.all([TokenIssuer.start(), TokenIssuer.start(), TokenIssuer.start()]);
  absent.isDown = true;
  const file = join(await mkdtemp(join(tmpdir(), "issuers-")), "issuers.json");
  const issuers = [
    { issuer: issuer.url, audience: "content" },
    { issuer: other.url, jwksUrl: `${other.url}/jwks`, audience: "other", roleClaim: "$.app.role", roles: ["admin"] },
    { issuer: absent.url, audience: "content" },
  ];
  await writeFile(file, JSON.stringify(issuers));
  const settings = { JWT_ISSUERS: file, AUTH_PROVIDERS_NETWORKS: "loopback", API_KEY_REQUIRED: "off" };
  const database = await createTestDatabase();
  await database.owner.query(`
    create function public.my_claims() returns jsonb stable language sql return auth.claims();
    grant execute on function public.my_claims() to anon, authenticated;
    create function public.my_work() returns text volatile language sql return 'done';
    grant execute on function public.my_work() to anon, authenticated`);
  service = await startTestService(settings, database);
  foreign = await startTestService({ ...settings, MIGRATE: "off", SEED: "" }, { ...database, drop: async () => {} });
});
afterAll(async () => {
  await foreign?.stop();
  await service?.stop();
  for (const each of [issuer, other, absent]) each?.close();
});

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const ask = (request: string, token: string, body?: unknown, at = service): Promise<ApiReply> =>
  sendTo(at.url, request, { headers: bearer(token), body });
const claimsOf = async (token: string, at = service) =>
  (await ask("GET /rest/v1/rpc/my_claims", token, undefined, at)).json;

test("a token of a trusted issuer is accepted on every interface", async () => {
  const token = issuer.token();
  expect((await ask("GET /tasks", token)).status).toBe(200);
  expect((await ask("GET /rest/v1/articles?limit=1", token)).status).toBe(200);
  expect((await ask("GET /users/1", token)).status).toBe(200);
  const { json } = await ask("POST /graphql", token, { query: 'mutation { deleteArticle(id: "999") }' });
  expect(json).toEqual({ data: { deleteArticle: false } });
});

test("its role is in the claim that the issuer's entry names", async () => {
  const token = (role: unknown) => other.token({ aud: ["x", "other"], role: "authenticated", app: { role } });
  expect((await ask("PATCH /users/2", token("admin"), { age: 41 })).status).toBe(200);
  expect((await ask("PATCH /users/2", token("authenticated"), { age: 42 })).status).toBe(401);
  expect((await ask("GET /tasks", token(undefined))).status).toBe(401);
});

test("its subject is no user of this service, whatever it says", async () => {
  const claims = { sub: "1", auth_time: Date.now() / 1000, epoch: 0, sid: "x", permissions: ["all"], tenant: "acme" };
  const token = issuer.token(claims);
  expect(await claimsOf(token)).toEqual({
    iss: issuer.url,
    aud: "content",
    role: "authenticated",
    tenant: "acme",
    iat: expect.any(Number),
    exp: expect.any(Number),
    identity: { issuer: issuer.url, subject: "1" },
  });
  expect((await ask("PATCH /users/1", token, { age: 99 })).status).toBe(403);
  expect((await ask("POST /auth/keys", token, { name: "x" })).status).toBe(401);
  const { json } = await ask("POST /graphql", token, { query: "{ me { id } }" });
  expect(json.errors[0].message).toBe("login required");
});

test("its tasks are visible to the same subject only", async () => {
  const [mary, paul] = [issuer.token({ sub: "mary" }), issuer.token({ sub: "paul" })];
  const headers = { ...bearer(mary), prefer: "respond-async" };
  const { status, json } = await sendTo(service.url, "POST /rest/v1/rpc/my_work", { headers, body: {} });
  expect(status).toBe(202);
  expect((await ask(`GET /tasks/${json.taskId}`, issuer.token({ sub: "mary", jti: "another" }))).status).toBe(200);
  expect((await ask(`GET /tasks/${json.taskId}`, paul)).status).toBe(404);
  expect((await ask("GET /tasks", paul)).json.data).toEqual([]);
});

test("tokens of this service are accepted beside it", async () => {
  expect((await ask("GET /auth/keys", service.token("ada"))).status).toBe(200);
});

/** What is wrong with a token, and the token. */
const REFUSED: Readonly<Record<string, () => string>> = {
  "another key": () => issuer.token({}, {}, newKey("first")),
  "a key that its header contains": () => {
    const key = newKey("first");
    return issuer.token({}, { jwk: key.jwk }, key);
  },
  "an invented key id": () => issuer.token({}, {}, { ...issuer.keys[0]!, kid: "../../etc/passwd" }),
  "the key of another trusted issuer": () => issuer.token({}, {}, other.keys[0]!),
  "an issuer that is not trusted": () => issuer.token({ iss: "https://elsewhere.example" }),
  "the issuer of this service": () => issuer.token({ iss: "content-service" }),
  "an issuer that only begins alike": () => issuer.token({ iss: `${issuer.url}/` }),
  "a list of issuers": () => issuer.token({ iss: [issuer.url] }),
  "another audience": () => issuer.token({ aud: "other" }),
  "the audience of another issuer": () => other.token({ app: { role: "admin" } }),
  "no audience": () => issuer.token({ aud: undefined }),
  "no expiry": () => issuer.token({ exp: undefined }),
  "a start in the future": () => issuer.token({ nbf: Date.now() / 1000 + 600 }),
  "an issue in the future": () => issuer.token({ iat: Date.now() / 1000 + 600 }),
  "the role admin": () => issuer.token({ role: "admin" }),
  "the role service_role": () => issuer.token({ role: "service_role" }),
  "a role that is not text": () => issuer.token({ role: ["authenticated"] }),
  "the purpose of refreshing": () => issuer.token({ type: "refresh" }),
  "the purpose of refreshing, as Keycloak writes it": () => issuer.token({ typ: "Refresh" }),
  "the purpose of an ID token": () => issuer.token({ nonce: "x" }),
  "the purpose of an ID token, beside a token": () => issuer.token({ at_hash: "x" }),
  "the purpose of a logout": () => issuer.token({ events: {} }),
  "a header of a logout token": () => issuer.token({}, { typ: "logout+jwt" }),
  "a critical extension": () => issuer.token({}, { crit: ["b64"], b64: true }),
  "no signature": () => issuer.token().replace(/[^.]+$/, ""),
  "the algorithm none": () => {
    const [, payload] = issuer.token().split(".");
    return `${Buffer.from('{"alg":"none"}').toString("base64url")}.${payload}.`;
  },
  "the public key as a secret": () => {
    const { exp, iat, ...claims } = jwt.decode(issuer.token()) as jwt.JwtPayload;
    return jwt.sign(claims, JSON.stringify(issuer.keys[0]!.jwk), { keyid: "first", expiresIn: 60 });
  },
};

describe("a token is refused that has", () => {
  test.each(Object.entries(REFUSED))("%s", async (_, token) => {
    const { status, json } = await ask("GET /tasks", token());
    expect([status, json.error.code]).toEqual([401, "INVALID_TOKEN"]);
    const { json: answer } = await ask("POST /graphql", token(), { query: 'mutation { deleteArticle(id: "1") }' });
    expect(answer.errors[0].extensions.code).toBe("AUTH_REQUIRED");
  });

  test("expired", async () => {
    const { status, json } = await ask("GET /tasks", issuer.token({ exp: Math.floor(Date.now() / 1000) - 60 }));
    expect([status, json.error.code]).toEqual([401, "TOKEN_EXPIRED"]);
  });
});

test("a token whose issuer does not answer is 503 on every interface, which is not the fault of the client", async () => {
  const token = absent.token();
  const replies = await Promise.all([
    ask("GET /tasks", token),
    ask("GET /rest/v1/articles", token),
    ask("POST /graphql", token, { query: "{ me { id } }" }),
  ]);
  expect(replies.map(({ status, headers }) => [status, headers.get("retry-after")])).toEqual([
    [503, "5"],
    [503, "5"],
    [503, "5"],
  ]);
});

describe("with MIGRATE=off", () => {
  test("all claims are those of the issuer, and the login decides which roles it may take on", async () => {
    const claims = await claimsOf(issuer.token({ sub: "1", auth_time: 5, tenant: "acme" }), foreign);
    expect(claims).toMatchObject({ sub: "1", auth_time: 5, tenant: "acme", role: "authenticated" });
    expect(await claimsOf(other.token({ aud: "other", app: { role: "anon" } }), foreign)).toMatchObject({
      message: expect.stringContaining("role"),
    });
  });

  test("a token of the issuer may be sent as an API key, too", async () => {
    const headers = { apikey: issuer.token() };
    expect((await sendTo(foreign.url, "GET /rest/v1/articles?limit=1", { headers })).status).toBe(200);
    expect((await sendTo(service.url, "GET /rest/v1/articles?limit=1", { headers })).status).toBe(401);
  });
});

describe("the keys of an issuer", () => {
  let now: number;
  let errors: unknown[];
  let provider: TokenIssuer;
  let tokens: IssuerTokens;
  beforeEach(async () => {
    now = 1_000_000;
    errors = [];
    provider = await TokenIssuer.start();
    const keys = remoteKeys({
      issuer: provider.url,
      jwksUrl: null,
      // The time that many tokens take is part of it.
      outbound: new Outbound({ allowsLoopback: true, networks: [], timeout: 120_000 }),
      clock: () => now,
      onChange: () => tokens.forget(),
      onError: (error) => errors.push(error),
    });
    const trusted = { issuer: provider.url, jwksUrl: null, audience: "content", roleClaim: ["role"], roles: null };
    tokens = new IssuerTokens({ issuer: trusted, keys, anonymousRole: "anon", hasAccounts: true });
    return () => provider.close();
  });

  const outcome = async (token: string) => {
    try {
      return ((await tokens.callerOf(token)) as Caller).role;
    } catch (error) {
      return (error as Error).constructor.name;
    }
  };

  test("10,000 invented key ids cause at most two requests", async () => {
    const [, payload, signature] = provider.token().split(".");
    const attempts = Array.from({ length: 10_000 }, (_, i) => {
      const header = JSON.stringify({ alg: "RS256", kid: `invented ${i}` });
      return `${Buffer.from(header).toString("base64url")}.${payload}.${signature}`;
    });
    expect(new Set(await Promise.all(attempts.map(outcome)))).toEqual(new Set(["TokenError"]));
    for (const attempt of attempts.slice(0, 100)) expect(await outcome(attempt)).toBe("TokenError");
    expect(provider.keyRequests).toBe(2);
  });

  test("a new key is accepted without a restart, by all requests that wait for it", async () => {
    expect(await outcome(provider.token())).toBe("authenticated");
    provider.rotate("second");
    const waiting = Array.from({ length: 20 }, (_, i) => outcome(provider.token({ jti: String(i) })));
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(["authenticated"]));
    expect(provider.keyRequests).toBe(2);

    provider.rotate("third");
    expect(await outcome(provider.token())).toBe("TokenError");
    now += 30_000;
    expect(await outcome(provider.token())).toBe("authenticated");
  });

  test("a new key is accepted if it has no id, or the id of the previous one", async () => {
    for (const kid of ["", "first"]) {
      now += 30_000;
      provider.keys = [newKey(kid)].map(({ jwk, ...key }) => ({
        ...key,
        jwk: kid === "" ? { ...jwk, kid: undefined } : jwk,
      }));
      expect(await outcome(provider.token())).toBe("authenticated");
    }
    for (let n = 0; n < 5; n++) expect(await outcome(provider.token({}, {}, newKey("first")))).toBe("TokenError");
    expect(provider.keyRequests).toBe(2);
  });

  test("a key that the issuer has withdrawn becomes invalid, for tokens that were verified before too", async () => {
    const token = provider.token();
    expect(await outcome(token)).toBe("authenticated");
    provider.rotate("second");
    now += 600_001;
    expect(await outcome(provider.token())).toBe("authenticated");
    expect(await outcome(token)).toBe("TokenError");
  });

  test("a key that the issuer has withdrawn becomes invalid, also if only tokens arrive that are known", async () => {
    const token = provider.token();
    expect(await outcome(token)).toBe("authenticated");
    provider.rotate("second");
    now += 600_001;
    await expect.poll(() => outcome(token)).toBe("TokenError");
  });

  test("the previous keys stay if a request fails", async () => {
    expect(await outcome(provider.token())).toBe("authenticated");
    provider.isDown = true;
    now += 600_001;
    expect(await outcome(provider.token({ jti: "of the old keys" }))).toBe("authenticated");
    await expect.poll(() => errors.length).toBe(1);
    expect(await outcome(provider.token({}, {}, newKey("second")))).toBe("TokenError");
    expect(await outcome(provider.token({ jti: "still" }))).toBe("authenticated");
    provider.isDown = false;
    provider.rotate("second");
    now += 30_000;
    expect(await outcome(provider.token())).toBe("authenticated");
  });

  test("keys that could not be read are requested again after 30 seconds, not with each token", async () => {
    const token = provider.token();
    expect(await outcome(token)).toBe("authenticated");
    provider.isDown = true;
    now += 600_001;
    for (const count of [1, 2]) {
      await expect.poll(() => outcome(token).then(() => errors.length)).toBe(count);
      for (let n = 0; n < 20; n++) expect(await outcome(token)).toBe("authenticated");
      expect(errors).toHaveLength(count);
      now += 30_001;
    }
    provider.isDown = false;
    provider.rotate("second");
    await expect.poll(() => outcome(token)).toBe("TokenError");
  });

  test("an issuer that does not answer is not asked with each token", async () => {
    provider.isDown = true;
    for (const jti of ["1", "2", "3"]) expect(await outcome(provider.token({ jti }))).toBe("IssuerUnavailable");
    expect(errors).toHaveLength(1);
    provider.isDown = false;
    // After the time in Retry-After.
    now += 5000;
    expect(await outcome(provider.token())).toBe("authenticated");
  });

  test("a secret in a key set is not a key", async () => {
    const secret = Buffer.alloc(32, "x");
    provider.keys = [
      { kid: "first", privateKey: null as never, jwk: { kty: "oct", kid: "first", k: secret.toString("base64url") } },
    ];
    const claims = { iss: provider.url, aud: "content", role: "authenticated" };
    expect(await outcome(jwt.sign(claims, secret, { keyid: "first", expiresIn: 60 }))).toBe("IssuerUnavailable");
    expect(errors.map((error) => (error as Error).message)).toEqual([
      "the key set has no public key that verifies tokens",
    ]);
  });

  test("a weak or malformed key in a key set does not make the others invalid", async () => {
    const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 1024 });
    const [key] = provider.keys;
    const faulty = [
      { ...publicKey.export({ format: "jwk" }), kid: "weak" },
      { kty: "RSA", kid: "malformed" },
      null,
      "x",
    ];
    provider.keys = [...faulty.map((jwk) => ({ ...key!, jwk: jwk as object })), key!];
    expect(await outcome(provider.token({}, {}, key!))).toBe("authenticated");
  });

  test("a document of another issuer is not used", async () => {
    const { port } = new URL(provider.url);
    const keys = remoteKeys({
      issuer: `http://localhost:${port}`,
      jwksUrl: null,
      outbound: new Outbound({ allowsLoopback: true, networks: [] }),
      clock: () => now,
      onChange: () => {},
      onError: (error) => errors.push(error),
    });
    await expect(keys.current()).rejects.toThrow(/names the issuer/);
  });
});
