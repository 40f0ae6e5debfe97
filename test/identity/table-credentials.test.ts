import { createHmac, generateKeyPairSync } from "node:crypto";
import type { IncomingMessage } from "node:http";
import jwt from "jsonwebtoken";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Caller } from "../../db/caller.ts";
import { CallerResolver } from "../../identity/caller-resolver.ts";
import { ForeignTokens } from "../../identity/foreign-tokens.ts";
import { foreignKeys, secretKey, shownKey } from "../../identity/keys.ts";
import { Tokens } from "../../identity/tokens.ts";
import type { Verifier } from "../../identity/verified-tokens.ts";
import { isRefusal } from "../../problems/problem.ts";
import { tableAnswer } from "../../rest-gateway/table/problem.ts";

const SECRET = "a secret of the tests, long enough for HS256";
const tokens = new Tokens({
  secret: SECRET,
  privateKey: "",
  audience: "",
  anonymousRole: "web_anon",
  accessSeconds: 3600,
});
type Credentials = { readonly apikey?: string; readonly authorization?: string; readonly origin?: string };

/** The caller who sends these headers to the table interface. */
function callersOf(verifier: Verifier, needsKey: boolean, anonymousRole: string) {
  const resolver = new CallerResolver({
    tokens: verifier,
    anonymousRole,
    store: null,
    showsCredentials: false,
    addressOf: () => "127.0.0.1",
  });
  const resolve = (headers: Credentials) =>
    resolver.identify({ method: "GET", url: "/", headers } as IncomingMessage).caller({ needsKey }) as Caller;
  return { resolve };
}

const callers = callersOf(tokens, true, "web_anon");

const anon = tokens.issueKey("anon");
const ada = tokens.issuePair({ id: "1", name: "Ada", role: "authenticated", permissions: [] }).accessToken;
const bearer = (token: string) => `Bearer ${token}`;
const now = Math.floor(Date.now() / 1000);
const minuteFromNow = now + 60;
const OF_SERVICE = { iss: "content-service", exp: now + 3600 };

/** jsonwebtoken refuses to sign some claims. */
function signByHand(claims: object): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const head = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
  return `${head}.${createHmac("sha256", SECRET).update(head).digest("base64url")}`;
}

/** `"authenticated 1"`: role and subject; or status, code and message of the refusal. */
function outcome(credentials: Credentials, resolver = callers): string {
  try {
    // Credentials that have been checked before have the same outcome.
    for (let i = 0; i < 2; i++) resolver.resolve(credentials);
    const { role, claims } = resolver.resolve(credentials);
    return [role, claims.sub].filter(Boolean).join(" ");
  } catch (error) {
    if (!isRefusal(error)) throw error;
    const { status, code, message } = tableAnswer(error);
    return `${status} ${code} ${message}`;
  }
}

/** The keys of a project of Supabase, which has the same secret. */
const ofProject = (claims: object) =>
  signByHand({ iss: "supabase", iat: 1_700_000_000, exp: 4_000_000_000, ...claims });
const [projectAnon, projectService] = [ofProject({ role: "anon" }), ofProject({ role: "service_role" })];

const BAD_KEY = "401 PGRST301 Invalid API key";
const BAD_TOKEN = "401 PGRST301 the access token is not valid: sign in again";
const DISAGREE = "401 PGRST301 apikey and Authorization identify different callers";
const BROWSER = "403 42501 the service key must not be used in a browser";

describe("of the keys of a project with the same secret,", () => {
  const options = { secret: SECRET, privateKey: "", audience: "shop", anonymousRole: "web_anon", accessSeconds: 3600 };
  const accepting = new Tokens(options);
  const own = accepting.issuePair({ id: "1", name: "Ada", role: "authenticated", permissions: [] }).accessToken;
  const USER = { sub: "1", aud: "shop", role: "authenticated", type: "access" };

  test.each<[string, Credentials, string]>([
    ["the anonymous key", { apikey: projectAnon }, "web_anon"],
    [
      "the anonymous key twice, as clients send it",
      { apikey: projectAnon, authorization: bearer(projectAnon) },
      "web_anon",
    ],
    ["the anonymous key and a user's token", { apikey: projectAnon, authorization: bearer(own) }, "authenticated 1"],
    ["the service key", { apikey: projectService, authorization: bearer(projectService) }, "service_role"],
    ["the service key in a browser", { apikey: projectService, origin: "https://a.example" }, BROWSER],
    ["a key of another role", { apikey: ofProject({ role: "admin" }) }, BAD_KEY],
    ["a key without an expiry", { apikey: ofProject({ role: "anon", exp: undefined }) }, BAD_KEY],
    ["an expired key", { apikey: ofProject({ role: "anon", exp: now - 10 }) }, BAD_KEY],
    ["a user's token of the project", { apikey: projectAnon, authorization: bearer(ofProject(USER)) }, BAD_TOKEN],
    ["a token with a subject as key", { apikey: ofProject({ ...USER, role: "service_role" }) }, BAD_KEY],
  ])("%s is accepted or refused", (_what, credentials, expected) =>
    expect(outcome(credentials, callersOf(accepting, true, "web_anon"))).toBe(expected),
  );

  test.each([projectAnon, projectService])("none is accepted after the secret has changed", (apikey) => {
    const changed = new Tokens({ ...options, secret: `${SECRET}!`, previousKeys: [secretKey(SECRET)] });
    expect(outcome({ apikey }, callersOf(changed, true, "web_anon"))).toBe(BAD_KEY);
  });
});

test.each<[string, object, string]>([
  ["a start in the future", { nbf: minuteFromNow }, "JWT not yet valid"],
  ["a time of issue in the future", { iat: minuteFromNow }, "JWT issued at future"],
  ["a start that is not a number", { nbf: "now" }, "The JWT 'nbf' claim must be a number"],
  ["an audience that is a number", { aud: 7 }, "The JWT 'aud' claim must be a string or an array of strings"],
])(
  "a token of the service with %s is PGRST303 with a message that says which claim fails",
  (_what, claims, message) => {
    const token = signByHand({ sub: "1", role: "authenticated", type: "access", ...OF_SERVICE, ...claims });
    expect(outcome({ apikey: anon, authorization: bearer(token) })).toBe(`401 PGRST303 ${message}`);
  },
);

test("a token of the service for another audience is PGRST303", () => {
  const shop = new Tokens({
    secret: SECRET,
    privateKey: "",
    audience: "shop",
    anonymousRole: "web_anon",
    accessSeconds: 3600,
  });
  const authorization = bearer(ada);
  expect(outcome({ authorization }, callersOf(shop, false, "web_anon"))).toBe("401 PGRST303 JWT not in audience");
});

test("the same credentials resolve to the same caller, who expires with the token", () => {
  const resolve = () => callers.resolve({ apikey: anon, authorization: bearer(ada) });
  expect(resolve()).toBe(resolve());
  expect(resolve().expiresAt).toBe((jwt.decode(ada) as jwt.JwtPayload).exp! * 1000);
});

describe("of the tokens of another issuer,", () => {
  const { publicKey: rsaPublic, privateKey: rsaPrivate } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const { publicKey: ecPublic, privateKey: ecPrivate } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const keys = [
    { ...rsaPublic.export({ format: "jwk" }), kid: "rsa", alg: "RS256", use: "sig" },
    { ...ecPublic.export({ format: "jwk" }), kid: "ec" },
    { kty: "oct", k: Buffer.from(SECRET).toString("base64url"), kid: "secret" },
    { kty: "OKP", crv: "Ed25519", x: "of a kind that jsonwebtoken can't verify", kid: "other" },
  ];
  const options = { audience: "", roleClaim: ["role"], anonymousRole: "web_anon" };
  const foreign = (secret: string, more: object = {}) =>
    new ForeignTokens({ ...options, keys: foreignKeys(secret, ""), ...more });
  const ofSecret = foreign(SECRET);
  const ofSet = foreign(JSON.stringify({ keys }));
  /** The role and subject, or why the token is refused. */
  function verified(verifier: ForeignTokens, token: string): string {
    try {
      const { role, claims } = verifier.verify(token);
      return [role, claims.sub].filter(Boolean).join(" ");
    } catch (error) {
      return (error as Error).message;
    }
  }

  const sign = (claims: object, header: Partial<jwt.JwtHeader> = {}) =>
    jwt.sign(claims, SECRET, { noTimestamp: true, header: { alg: "HS256", ...header } });

  test.each<[string, object, string]>([
    ["only a role", { role: "editor" }, "editor"],
    ["any subject", { role: "editor", sub: "auth0|7" }, "editor auth0|7"],
    ["a role name of any characters", { role: 'the "Größte" of all' }, 'the "Größte" of all'],
    ["a role of 63 bytes", { role: "x".repeat(63) }, "x".repeat(63)],
    ["no role", { sub: "7" }, "web_anon 7"],
    ["the role anon, which this database does not have", { role: "anon" }, "anon"],
    ["another issuer and type", { role: "editor", iss: "https://id.example", type: "id" }, "editor"],
    ["an expiry within the clock tolerance", { role: "editor", exp: now - 20 }, "editor"],
    ["a start within the clock tolerance", { role: "editor", nbf: now + 20 }, "editor"],
    ["a time of issue within the clock tolerance", { role: "editor", iat: now + 20 }, "editor"],
    ["any audience", { role: "editor", aud: ["shop", "blog"] }, "editor"],
    ["an audience that is null", { role: "editor", aud: null }, "editor"],

    ["an expiry in the past", { role: "editor", exp: now - 40 }, "token expired"],
    ["a start in the future", { role: "editor", nbf: now + 60 }, "token invalid"],
    ["an expiry that is not a number", { role: "editor", exp: "tomorrow" }, "token invalid"],
    ["a refresh token", { role: "editor", type: "refresh" }, "token invalid"],
    ["a role of 64 bytes", { role: "x".repeat(64) }, "token invalid"],
    ["an empty role", { role: "" }, "token invalid"],
    ["a role that is not a string", { role: ["editor"] }, "token invalid"],
    ["none, for which Postgres uses the login itself", { role: "None" }, "token invalid"],
    ["a NUL in the role", { role: "editor\0" }, "token invalid"],
  ])("those with %s are verified or refused", (_what, claims, expected) => {
    expect(verified(ofSecret, signByHand(claims))).toBe(expected);
  });

  test.each<[string, string, string]>([
    ["RS256", jwt.sign({ role: "editor" }, rsaPrivate, { algorithm: "RS256", keyid: "rsa" }), "editor"],
    ["ES256", jwt.sign({ role: "editor" }, ecPrivate, { algorithm: "ES256", keyid: "ec" }), "editor"],
    ["HS256", sign({ role: "editor" }, { kid: "secret" }), "editor"],
    ["RS256 without a key id", jwt.sign({ role: "editor" }, rsaPrivate, { algorithm: "RS256" }), "editor"],
    [
      "the key id of another key",
      jwt.sign({ role: "editor" }, rsaPrivate, { algorithm: "RS256", keyid: "ec" }),
      "token invalid",
    ],
    ["an unknown key id", sign({ role: "editor" }, { kid: "unknown" }), "token invalid"],
    ["another algorithm of the key", jwt.sign({ role: "editor" }, rsaPrivate, { algorithm: "RS512" }), "token invalid"],
    [
      "the public key as a secret",
      jwt.sign({ role: "editor" }, rsaPublic.export({ format: "pem", type: "spki" })),
      "token invalid",
    ],
    ["no signature", jwt.sign({ role: "editor" }, "", { algorithm: "none" }), "token invalid"],
    ["a malformed token", "garbage", "token invalid"],
    ["claims that are not JSON", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.bm8gSlNPTg.x", "token invalid"],
  ])("those with %s are verified with a set of keys or refused", (_what, token, expected) =>
    expect(verified(ofSet, token)).toBe(expected),
  );

  test("those with any key id are verified with a secret without a key id", () => {
    expect(verified(ofSecret, sign({ role: "editor" }, { kid: "theirs" }))).toBe("editor");
  });

  test("every one is invalid without keys", () => {
    expect(verified(foreign(""), sign({ role: "editor" }))).toBe("token invalid");
    expect(verified(foreign(""), jwt.sign({ role: "editor" }, "", { algorithm: "none" }))).toBe("token invalid");
  });

  test("those without the configured audience are invalid", () => {
    const verifier = foreign(SECRET, { audience: "shop" });
    expect(verified(verifier, sign({ role: "editor", aud: ["shop", "blog"] }))).toBe("editor");
    expect(verified(verifier, sign({ role: "editor", aud: "blog" }))).toBe("token invalid");
    expect(verified(verifier, sign({ role: "editor" }))).toBe("token invalid");
  });

  test("the configured claim contains the role", () => {
    const verifier = foreign(SECRET, { roleClaim: ["app", "roles", 0] });
    expect(verified(verifier, sign({ role: "admin", app: { roles: ["editor"] } }))).toBe("editor");
    for (const app of [undefined, null, "editor", { roles: [] }, { roles: {} }])
      expect(verified(verifier, sign({ role: "admin", app }))).toBe("web_anon");
  });

  test("all claims reach the database, and a token expires after exp and the tolerance, or never without exp", () => {
    const claims = { role: "editor", tenant: { id: 7 } };
    const expected: Caller = { role: "editor", claims, expiresAt: null, refused: null };
    expect(ofSecret.verify(sign(claims))).toEqual(expected);
    expect(ofSecret.verify(sign({ ...claims, exp: now + 60 })).expiresAt).toBe((now + 90) * 1000);
  });

  describe("on the table interface,", () => {
    const editor = sign({ role: "editor", sub: "7" });
    const resolver = callersOf(ofSecret, false, "web_anon");

    test.each<[string, Credentials, string]>([
      ["a token alone", { authorization: bearer(editor) }, "editor 7"],
      ["a token as key", { apikey: editor }, "editor 7"],
      ["the same token twice", { apikey: editor, authorization: bearer(editor) }, "editor 7"],
      [
        "a newer token of the same user",
        { apikey: editor, authorization: bearer(sign({ role: "editor", sub: "7", jti: "2" })) },
        "editor 7",
      ],
      [
        "an anonymous key and a token",
        { apikey: sign({ role: "web_anon" }), authorization: bearer(editor) },
        "editor 7",
      ],
      [
        "a key of another user",
        { apikey: sign({ role: "editor", sub: "8" }), authorization: bearer(editor) },
        DISAGREE,
      ],
      ["a key of another role", { apikey: sign({ role: "owner", sub: "7" }), authorization: bearer(editor) }, DISAGREE],
    ])("the credentials of %s resolve to a caller or are refused", (_what, credentials, expected) =>
      expect(outcome(credentials, resolver)).toBe(expected),
    );

    test.each<[string, object, string]>([
      ["an expiry in the past", { exp: now - 40 }, "JWT expired"],
      ["an expiry that is not a number", { exp: "tomorrow" }, "The JWT 'exp' claim must be a number"],
      ["a start in the future", { nbf: now + 60 }, "JWT not yet valid"],
      ["a start that is not a number", { nbf: null }, "The JWT 'nbf' claim must be a number"],
      ["a time of issue in the future", { iat: now + 60 }, "JWT issued at future"],
      ["a time of issue that is not a number", { iat: "now" }, "The JWT 'iat' claim must be a number"],
      ["an audience that is a number", { aud: 7 }, "The JWT 'aud' claim must be a string or an array of strings"],
      ["a number in the audience", { aud: ["a", 7] }, "The JWT 'aud' claim must be a string or an array of strings"],
      ["a role that is not a string", { role: ["editor"] }, "The JWT role claim must be the name of a role"],
      ["the role none", { role: "none" }, "The JWT role claim must be the name of a role"],
      ["the type of a refresh token", { type: "refresh" }, "A refresh token cannot be used as an access token"],
      ["several failing claims", { aud: 7, nbf: now + 60, exp: now - 40 }, "JWT expired"],
    ])("a token with %s is PGRST303 with a message that says which claim fails", (_what, claims, message) => {
      const authorization = bearer(signByHand({ role: "editor", ...claims }));
      expect(outcome({ authorization }, resolver)).toBe(`401 PGRST303 ${message}`);
    });

    test("a token for another audience is PGRST303", () => {
      const shop = callersOf(foreign(SECRET, { audience: "shop" }), false, "web_anon");
      for (const aud of ["blog", ["blog"], [], null, undefined])
        expect(outcome({ authorization: bearer(signByHand({ role: "editor", aud })) }, shop)).toBe(
          "401 PGRST303 JWT not in audience",
        );
    });

    test.each<[string, string, string]>([
      ["one part", "garbage", "Expected 3 parts in JWT; got 1"],
      ["a header that is not JSON", "a.b.c", "Wrong or unsupported encoding algorithm"],
      [
        "no signature",
        jwt.sign({ role: "editor" }, "", { algorithm: "none" }),
        "Wrong or unsupported encoding algorithm",
      ],
      ["another secret", jwt.sign({ role: "editor" }, `${SECRET}!`), "JWT cryptographic operation failed"],
      [
        "another secret and an expiry in the past",
        jwt.sign({ role: "editor", exp: now - 40 }, `${SECRET}!`),
        "JWT cryptographic operation failed",
      ],
    ])("a token with %s is PGRST301 with a message that says why", (_what, token, message) => {
      expect(outcome({ authorization: bearer(token) }, resolver)).toBe(`401 PGRST301 ${message}`);
    });

    test("a token with an unknown key id is PGRST301", () => {
      const ofKeys = callersOf(ofSet, false, "web_anon");
      const authorization = bearer(sign({ role: "editor" }, { kid: "unknown" }));
      expect(outcome({ authorization }, ofKeys)).toBe("401 PGRST301 No suitable key or wrong key type");
    });

    test("every token is PGRST300 without keys", () => {
      const keyless = callersOf(foreign(""), false, "web_anon");
      expect(outcome({ authorization: bearer(editor) }, keyless)).toBe("401 PGRST300 Server lacks JWT secret");
    });

    test("without an anonymous role every request needs a token with a role", () => {
      const verifier = foreign(SECRET, { anonymousRole: "" });
      const closed = callersOf(verifier, false, "");
      expect(outcome({}, closed)).toBe("401 PGRST302 Anonymous access is disabled");
      expect(outcome({ authorization: bearer(sign({ sub: "7" })) }, closed)).toBe(
        "401 PGRST302 Anonymous access is disabled",
      );
      expect(outcome({ authorization: bearer(editor) }, closed)).toBe("editor 7");
    });
  });
});

describe("the keys that the service shows", () => {
  afterEach(() => {
    vi.useRealTimers();
  });
  const shownAt = (time: string) => {
    vi.useFakeTimers({ toFake: ["Date"], now: new Date(time) });
    return [shownKey(tokens, "anon"), shownKey(tokens, "service_role")];
  };

  test("are the same until the year ends, and are valid for ten years", () => {
    const first = shownAt("2026-01-01T00:00:00Z");
    expect(shownAt("2026-12-31T23:59:59Z")).toEqual(first);
    const next = shownAt("2027-01-01T00:00:00Z");
    for (const [i, key] of first.entries()) expect(next[i]).not.toBe(key);
    shownAt("2035-12-29T00:00:00Z");
    expect(first.map((key) => tokens.verifyKey(key).role)).toEqual(["web_anon", "service_role"]);
  });
});
