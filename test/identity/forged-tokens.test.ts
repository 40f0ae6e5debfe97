import {
  constants,
  createHash,
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  privateEncrypt,
  sign,
} from "node:crypto";
import jwt from "jsonwebtoken";
import { describe, expect, test, vi } from "vitest";
import { cacheMemory } from "../../cache/cache.ts";
import { ForeignTokens } from "../../identity/foreign-tokens.ts";
import { foreignKeys } from "../../identity/keys.ts";
import { Tokens } from "../../identity/tokens.ts";
import { useResources } from "../support/resource-client.ts";
import { JWT_SECRET } from "../support/service.ts";
import { REFUSED } from "./support.ts";

// The attacks of Wycheproof's vectors for JSON Web Signatures, and a few more.

const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 });
const ec = generateKeyPairSync("ec", { namedCurve: "P-256" });
const [rsaPem, ecPem] = [rsa, ec].map(({ publicKey }) => publicKey.export({ type: "spki", format: "pem" }).toString());
const rsaJwk = rsa.publicKey.export({ format: "jwk" });
const ecJwk = ec.publicKey.export({ format: "jwk" });

const ofSecret = new Tokens({
  secret: JWT_SECRET,
  privateKey: "",
  audience: "",
  anonymousRole: "anon",
  accessSeconds: 3600,
});
const ofRsa = new Tokens({
  secret: "",
  privateKey: rsa.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  audience: "",
  anonymousRole: "anon",
  accessSeconds: 3600,
});
const foreign = (secret: string) =>
  new ForeignTokens({ keys: foreignKeys(secret, ""), audience: "", roleClaim: ["role"], anonymousRole: "anon" });
const foreignSecret = foreign(JWT_SECRET);
const foreignEc = foreign(JSON.stringify(ecJwk));

const encode = (part: string | Buffer) => Buffer.from(part).toString("base64url");
const CLAIMS = {
  sub: "1",
  role: "authenticated",
  type: "access",
  epoch: 0,
  iss: "content-service",
  exp: Math.floor(Date.now() / 1000) + 3600,
};
const PAYLOAD = encode(JSON.stringify(CLAIMS));
const head = (header: object) => encode(JSON.stringify(header));
const hmac = (key: string | Buffer, text: string) => createHmac("sha256", key).update(text).digest();
/** Signs the text before the second dot with the secret of the service. */
const signed = (text: string) => `${text}.${encode(hmac(JWT_SECRET, text))}`;
/** Any header with valid claims, and any payload with a valid header, both signed with the secret of the service. */
const withHeader = (header: string) => signed(`${encode(header)}.${PAYLOAD}`);
const withPayload = (payload: string | Buffer) => signed(`${HEADER}.${encode(payload)}`);

const HEADER = head({ alg: "HS256", typ: "JWT" });
const GOOD = signed(`${HEADER}.${PAYLOAD}`);
const SIGNATURE = GOOD.slice(GOOD.lastIndexOf(".") + 1);

function outcome(verifier: Tokens | ForeignTokens, token: string): string {
  try {
    const { role, claims } = verifier.verify(token);
    return `${role} ${claims.sub}`;
  } catch (error) {
    return (error as Error).message;
  }
}

test("a token that these tests sign by hand is valid if nothing in it is forged", () => {
  for (const verifier of [ofSecret, foreignSecret]) expect(outcome(verifier, GOOD)).toBe("authenticated 1");
  const odd = withHeader('{ "typ":\t"JWT", "alg": "HS256"\n}');
  for (const verifier of [ofSecret, foreignSecret]) expect(outcome(verifier, odd)).toBe("authenticated 1");
});

/** The next letter encodes the same bytes, because its last bits are not used. */
const withUnusedBits = (text: string) =>
  `${text.slice(0, -1)}${String.fromCharCode(text.charCodeAt(text.length - 1) + 1)}`;
const other = (text: string) => (text.startsWith("A") ? "B" : "A") + text.slice(1);

/** The key id of the secret. */
const FORGED: Readonly<Record<string, string>> = {
  "no signature": `${HEADER}.${PAYLOAD}.`,
  "no signature, and no dot": `${HEADER}.${PAYLOAD}`,
  "another signature": `${HEADER}.${PAYLOAD}.${other(SIGNATURE)}`,
  "a signature cut short": GOOD.slice(0, -4),
  "another payload": `${HEADER}.${encode(JSON.stringify({ ...CLAIMS, role: "admin" }))}.${SIGNATURE}`,
  "no payload": `${HEADER}..${SIGNATURE}`,
  "no payload, and no dot": `${HEADER}.${SIGNATURE}`,
  "no payload, signed": signed(`${HEADER}.`),
  "another header": `${head({ alg: "HS256", typ: "jwt" })}.${PAYLOAD}.${SIGNATURE}`,
  "no header": `.${PAYLOAD}.${SIGNATURE}`,
  "no header, and no dot": `${PAYLOAD}.${SIGNATURE}`,
  "no header, signed": signed(`.${PAYLOAD}`),
  "the payload alone": PAYLOAD,
  "the payload between dots": `.${PAYLOAD}.`,
  "dots alone": "..",
  "a fourth part that is empty": `${GOOD}.`,
  "a fourth part": `${GOOD}.x`,
  "five parts, as of an encrypted token": `${GOOD}.${PAYLOAD}.${SIGNATURE}`,
  "JSON in place of parts": JSON.stringify({ protected: HEADER, payload: PAYLOAD, signature: SIGNATURE }),
  "JSON with a list of signatures": JSON.stringify({
    payload: PAYLOAD,
    signatures: [{ protected: HEADER, header: { role: "admin" }, signature: SIGNATURE }],
  }),

  "spaces in the signature": `${HEADER}.${PAYLOAD}.  ${SIGNATURE}`,
  "a character in the signature that is not base64url": `${HEADER}.${PAYLOAD}.${SIGNATURE}?`,
  "padding of the signature": `${GOOD}=`,
  "the other alphabet": `${HEADER}.${PAYLOAD}.${Buffer.from(SIGNATURE, "base64url").toString("base64")}`,
  "unused bits in the signature": `${HEADER}.${PAYLOAD}.${withUnusedBits(SIGNATURE)}`,
  "spaces in the header, signed": signed(`${HEADER}  .${PAYLOAD}`),
  "other characters in the header, signed": signed(`${HEADER}##.${PAYLOAD}`),
  "spaces in the payload, signed": signed(`${HEADER}.  ${PAYLOAD}`),
  "other characters in the payload, signed": signed(`${HEADER}.?${PAYLOAD}`),

  "none for an algorithm": `${head({ alg: "none" })}.${PAYLOAD}.`,
  "NONE for an algorithm": `${head({ alg: "NONE" })}.${PAYLOAD}.`,
  "nOnE for an algorithm": `${head({ alg: "nOnE" })}.${PAYLOAD}.`,
  "none for an algorithm and for the key": `${head({ alg: "none", kid: "none" })}.${PAYLOAD}.`,
  "none for an algorithm, signed": withHeader('{"alg":"none"}'),
  "two algorithms, the last of them none": withHeader('{"alg":"HS256","alg":"none"}'),
  "no algorithm": withHeader('{"typ":"JWT"}'),
  "null for an algorithm": withHeader('{"alg":null}'),
  "a list of algorithms": withHeader('{"alg":["HS256"]}'),
  "an algorithm in small letters": withHeader('{"alg":"hs256"}'),
  "an algorithm that is inherited": withHeader('{"__proto__":{"alg":"HS256"}}'),
  "a longer hash in the header alone": withHeader('{"alg":"HS512"}'),
  "a shorter hash": signed(`${head({ alg: "HS1" })}.${PAYLOAD}`),
  "an extension that must be understood": withHeader('{"alg":"HS256","crit":["exp"],"exp":1}'),
  "a payload that is to be taken as it is": withHeader('{"alg":"HS256","b64":false,"crit":["b64"]}'),
  "no JSON for a header": withHeader("no JSON"),
  "null for a header": withHeader("null"),
  "a list for a header": withHeader("[]"),
  "a text for a header": withHeader('"HS256"'),

  "no JSON for a payload": withPayload("no JSON"),
  "no JSON for a payload, and no signature": `${HEADER}.${encode("no JSON")}.x`,
  "JSON cut short": withPayload(JSON.stringify(CLAIMS).slice(0, -1)),
  "a byte order mark": withPayload(`\ufeff${JSON.stringify(CLAIMS)}`),
  "null as claims": withPayload("null"),
  "an array as claims": withPayload(JSON.stringify([CLAIMS])),
  "a number as claims": withPayload("1"),
  "exp as a string": withPayload(JSON.stringify({ ...CLAIMS, exp: String(CLAIMS.exp) })),
  "exp as an array": withPayload(JSON.stringify({ ...CLAIMS, exp: [CLAIMS.exp] })),
  "nbf as a string": withPayload(JSON.stringify({ ...CLAIMS, nbf: "now" })),
};

test.each(Object.entries(FORGED))("a token with %s is refused", (_, token) => {
  for (const verifier of [ofSecret, foreignSecret]) expect(outcome(verifier, token)).toBe("token invalid");
});

test.each(["null", "{}", '""', '"__proto__"', '"constructor"', '"../../dev/null"', "\"' or ''='\"", "0"])(
  "a token with the key id %s is refused",
  (kid) => expect(outcome(ofSecret, withHeader(`{"alg":"HS256","kid":${kid}}`))).toBe("token invalid"),
);

describe("a key in the token itself is not used", () => {
  const url = "https://attacker.example/key";
  const attacker = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const jwk = attacker.publicKey.export({ format: "jwk" });
  test.each<[string, object]>([
    ["jwk", { jwk }],
    ["jku", { jku: url }],
    ["x5u", { x5u: url }],
    ["x5c", { x5c: [attacker.publicKey.export({ type: "spki", format: "der" }).toString("base64")] }],
  ])("from the header %s", (_, more) => {
    const own = jwt.decode(ofRsa.issueKey("anon"), { complete: true })!.header;
    for (const header of [
      { alg: "RS256", ...more },
      { ...own, ...more },
    ] as const) {
      const token = jwt.sign(CLAIMS, attacker.privateKey, { algorithm: "RS256", header });
      expect(outcome(ofRsa, token)).toBe("token invalid");
    }
    const secret = { kty: "oct", k: encode("x".repeat(32)) };
    const text = `${head({ alg: "HS256", jwk: secret, ...more })}.${PAYLOAD}`;
    expect(outcome(ofSecret, `${text}.${encode(hmac("x".repeat(32), text))}`)).toBe("token invalid");
  });
});

describe("a public key is not accepted as an HMAC secret", () => {
  const text = `${HEADER}.${PAYLOAD}`;
  const der = (pem: string) => createPublicKey(pem).export({ type: "spki", format: "der" });
  test.each<[string, Tokens | ForeignTokens, string | Buffer]>([
    ["RSA, PEM", ofRsa, rsaPem!],
    ["RSA, PEM without the line end", ofRsa, rsaPem!.trimEnd()],
    ["RSA, DER", ofRsa, der(rsaPem!)],
    ["RSA, the modulus", ofRsa, Buffer.from(rsaJwk.n!, "base64url")],
    ["RSA, a JSON Web Key", ofRsa, JSON.stringify(rsaJwk)],
    ["EC, PEM", foreignEc, ecPem!],
    ["EC, DER", foreignEc, der(ecPem!)],
    ["EC, the point", foreignEc, Buffer.from(`${ecJwk.x}${ecJwk.y}`, "base64url")],
    ["EC, a JSON Web Key", foreignEc, JSON.stringify(ecJwk)],
    ["an empty secret", ofSecret, ""],
  ])("in the form of %s", (_, verifier, key) =>
    expect(outcome(verifier, `${text}.${encode(hmac(key, text))}`)).toBe("token invalid"),
  );
});

const PSS = { key: rsa.privateKey, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 };

/** The same signature with a leading zero. */
function longer(token: string): string {
  const at = token.lastIndexOf(".") + 1;
  return token.slice(0, at) + encode(Buffer.concat([Buffer.alloc(1), Buffer.from(token.slice(at), "base64url")]));
}

describe("for RS256,", () => {
  const text = `${head({ alg: "RS256" })}.${PAYLOAD}`;
  const digest = (name: string) => createHash(name).update(text).digest();
  /** The DER prefix that names the hash of a digest. */
  const SHA256 = "3031300d060960864801650304020105000420";
  const SHA384 = "3041300d060960864801650304020205000430";
  const named = (name: string, value: Buffer) => Buffer.concat([Buffer.from(name, "hex"), value]);
  /** Signs these bytes in place of the padded digest. */
  function signedRaw(parts: {
    type?: number;
    filling?: number;
    fill?: number;
    digest: Buffer;
    behind?: Buffer;
  }): string {
    const { type = 1, filling = 0xff, digest: value, behind = Buffer.alloc(0) } = parts;
    const fill = parts.fill ?? 256 - 3 - value.length - behind.length;
    const block = [Buffer.from([0, type]), Buffer.alloc(fill, filling), Buffer.from([0]), value, behind];
    const padding = constants.RSA_NO_PADDING;
    return `${text}.${encode(privateEncrypt({ key: rsa.privateKey, padding }, Buffer.concat(block)))}`;
  }
  const good = named(SHA256, digest("sha256"));

  test("a signature that these tests pad by hand is valid if nothing in it is forged", () =>
    expect(outcome(ofRsa, signedRaw({ digest: good }))).toBe("authenticated 1"));

  test.each<[string, string]>([
    ["bytes behind the digest", signedRaw({ fill: 8, digest: good, behind: Buffer.alloc(256 - 11 - good.length, 7) })],
    ["a zero behind the digest", signedRaw({ digest: good, behind: Buffer.alloc(1) })],
    ["the padding of encryption", signedRaw({ type: 2, filling: 7, digest: good })],
    ["zeros as padding", signedRaw({ type: 0, filling: 0, digest: good })],
    ["a digest without the name of its hash", signedRaw({ digest: digest("sha256") })],
    [
      "a digest without the parameters of its hash",
      signedRaw({ digest: named("302f300b06096086480165030402010420", digest("sha256")) }),
    ],
    ["a length in long form", signedRaw({ digest: named(`308131${SHA256.slice(4)}`, digest("sha256")) })],
    ["another hash", signedRaw({ digest: named(SHA384, digest("sha384")) })],
    ["only the name of another hash", signedRaw({ digest: named(SHA384, digest("sha256")) })],
    ["the other padding, PS256", `${text}.${encode(sign("sha256", Buffer.from(text), PSS))}`],
    ["no bytes", `${text}.`],
    ["the value zero", `${text}.${encode(Buffer.alloc(256))}`],
    ["the value one", `${text}.${encode(Buffer.concat([Buffer.alloc(255), Buffer.from([1])]))}`],
    ["a leading zero", longer(signedRaw({ digest: good }))],
  ])("a signature with %s is refused", (_, token) => expect(outcome(ofRsa, token)).toBe("token invalid"));

  test.each(["RS384", "RS512", "PS256", "PS384", "PS512"] as const)(
    "a signature of the same key with %s is refused",
    (algorithm) => {
      expect(outcome(ofRsa, jwt.sign(CLAIMS, rsa.privateKey, { algorithm }))).toBe("token invalid");
    },
  );
});

describe("for ES256,", () => {
  const text = `${head({ alg: "ES256" })}.${PAYLOAD}`;
  const signatureAs = (dsaEncoding: "ieee-p1363" | "der") =>
    sign("sha256", Buffer.from(text), { key: ec.privateKey, dsaEncoding });
  const good = signatureAs("ieee-p1363");
  const number = (hex: string) => Buffer.from(hex.padStart(64, "0"), "hex");
  const [ZERO, ONE] = [number("0"), number("1")];
  /** The order of P-256. */
  const ORDER = number("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
  const withSignature = (...parts: Buffer[]) => `${text}.${encode(Buffer.concat(parts))}`;

  test("a signature of the key is valid", () =>
    expect(outcome(foreignEc, withSignature(good))).toBe("authenticated 1"));

  test.each<[string, string]>([
    ["two zeros", withSignature(ZERO, ZERO)],
    ["zero and one", withSignature(ZERO, ONE)],
    ["one and zero", withSignature(ONE, ZERO)],
    ["one and one", withSignature(ONE, ONE)],
    ["zero and the order", withSignature(ZERO, ORDER)],
    ["the order and zero", withSignature(ORDER, ZERO)],
    ["the order twice", withSignature(ORDER, ORDER)],
    ["the order and one", withSignature(ORDER, ONE)],
    ["DER instead of two numbers", withSignature(signatureAs("der"))],
    [
      "numbers that are too long",
      withSignature(Buffer.alloc(1), good.subarray(0, 32), Buffer.alloc(1), good.subarray(32)),
    ],
    ["an additional byte", withSignature(good, Buffer.alloc(1))],
    ["63 bytes", withSignature(good.subarray(0, 63))],
    ["a kilobyte", withSignature(Buffer.alloc(512), good.subarray(0, 32), Buffer.alloc(512), good.subarray(32))],
    ["no bytes", `${text}.`],
  ])("a signature of %s is refused", (_, token) => expect(outcome(foreignEc, token)).toBe("token invalid"));
});

describe("a token that was refused", () => {
  const another = { secret: `${JWT_SECRET} of another service`, privateKey: "" };
  const own = { secret: JWT_SECRET, privateKey: "" };
  const fresh = () => new Tokens({ ...own, audience: "", anonymousRole: "anon", accessSeconds: 3600 });

  test.each(["no signature", "another signature", "another payload", "no header"])(
    "is not verified a third time: %s",
    (name) => {
      const token = FORGED[name]!;
      const tokens = fresh();
      for (let n = 0; n < 3; n++) expect(outcome(tokens, token)).toBe("token invalid");
      expect(tokens.cache).toMatchObject({ requests: 3, hits: 1 });
    },
  );

  test("takes memory only if it occurs again", () => {
    const tokens = fresh();
    const held = () => cacheMemory.bytesByName().get("refused tokens")!;
    const before = held();
    for (let n = 0; n < 100; n++) outcome(tokens, `${HEADER}.${PAYLOAD}.${encode(`forged ${n}`)}`);
    expect(held()).toBe(before);
    for (let n = 0; n < 2; n++) outcome(tokens, `${HEADER}.${PAYLOAD}.`);
    expect(held()).toBeGreaterThan(before);
  });

  test("is valid when its key is used", () => {
    const tokens = fresh();
    tokens.useKeys(another);
    expect(outcome(tokens, GOOD)).toBe("token invalid");
    tokens.useKeys(own);
    expect(outcome(tokens, GOOD)).toBe("authenticated 1");
    tokens.useKeys(another);
    expect(outcome(tokens, GOOD)).toBe("token invalid");
  });

  test("is valid when the time in its claims has come, and not after its end", () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    try {
      const tokens = fresh();
      const now = Math.floor(Date.now() / 1000);
      const later = withPayload(JSON.stringify({ ...CLAIMS, nbf: now + 100, exp: now + 200 }));
      const outcomes = [0, 50, 100, 210, 220].map((seconds) => {
        vi.setSystemTime((now + seconds) * 1000);
        return outcome(tokens, later);
      });
      expect(outcomes).toEqual([
        ...["token invalid", "token invalid", "authenticated 1"],
        ...["token expired", "token expired"],
      ]);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("a forged token is refused on every interface, without an internal error,", () => {
  const { api } = useResources({ GRAPHQL_DOCUMENTS: "any" });
  const query = { query: "{ me { id } }" };

  test.each(Object.entries(FORGED))("such as one with %s", async (_, token) => {
    for (const [name, value] of [
      ["authorization", `Bearer ${token}`],
      ["x-api-key", token],
      ["apikey", token],
    ] as const) {
      const headers = { [name]: value };
      expect((await api("/users/1", { headers })).status).toBe(REFUSED["/users"]);
      expect((await api("/rest/v1/articles?limit=1", { headers })).status).toBe(REFUSED["/rest/v1"]);
      const { json } = await api("POST /graphql", { headers, body: query });
      expect(json.errors[0].extensions.code).toBe(REFUSED["/graphql"]);
    }
    expect((await api("POST /auth/refresh", { body: { refreshToken: token } })).status).toBe(401);
    expect((await api("POST /auth/login", { body: { challenge: token, code: "123456" } })).status).toBe(401);
  });
});
