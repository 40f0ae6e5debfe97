import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { readJwks } from "../../config/json-web-keys.ts";

// The kinds of errors are those of Wycheproof's vectors for JSON Web Keys.

const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const rsa = publicKey.export({ format: "jwk" });
const point = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
const secret = (bytes: number) => ({ kty: "oct", k: Buffer.alloc(bytes, "x").toString("base64url") });

const NONE = "has no key that verifies tokens";
const MALFORMED = "has a malformed key";
const SHORT = "must have at least 32 bytes in each secret";
const EXPONENT = "must have an exponent of at least 3 in each RSA key";

test.each<[string, object, refusal: string]>([
  ["for encryption", { ...rsa, use: "enc" }, NONE],
  ["for operations without verify", { ...rsa, key_ops: ["encrypt", "decrypt"] }, NONE],
  ["that only signs", { ...point, key_ops: ["sign"] }, NONE],
  ["whose algorithm does not match its curve", { ...point, alg: "ES384" }, NONE],
  ["with an unknown algorithm", { ...point, alg: "ES224" }, NONE],
  ["whose kind does not match its parameters", { ...point, kty: "RSA" }, MALFORMED],
  ["whose curve does not match its point", { ...point, crv: "P-384" }, MALFORMED],
  ["whose point is not on the curve", { ...point, y: point.x }, MALFORMED],
  ["with the exponent 1, with which anyone can sign", { ...rsa, e: "AQ" }, EXPONENT],
  ["with the exponent 0", { ...rsa, e: "AA" }, EXPONENT],
  ["with an empty secret", secret(0), SHORT],
  ["with a short secret", secret(31), SHORT],
])("a key set with only a key %s is rejected", (_, jwk, refusal) =>
  expect(() => readJwks(JSON.stringify({ keys: [jwk] }))).toThrow(new Error(refusal)),
);

test("keys of a set that are not for verifying are skipped", () => {
  const keys = [
    { ...rsa, use: "sig", key_ops: ["verify"] },
    { ...rsa, use: "enc" },
    { ...point, key_ops: ["sign", "verify"] },
    secret(32),
  ];
  const found = readJwks(JSON.stringify({ keys })).map(({ algorithm }) => algorithm);
  expect(found).toEqual(["RS256", "ES256", "HS256"]);
});

test("of a private key only the public half is used", () => {
  const [key] = readJwks(JSON.stringify(privateKey.export({ format: "jwk" })));
  expect(key!.verify.type).toBe("public");
});
