import { generateKeyPairSync } from "node:crypto";
import { expect, test } from "vitest";
import { readJwks } from "../../identity/keys.ts";

// The classes of faults are those of Wycheproof's vectors for JSON Web Keys.

const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const rsa = publicKey.export({ format: "jwk" });
const point = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
const secret = (bytes: number) => ({ kty: "oct", k: Buffer.alloc(bytes, "x").toString("base64url") });

const NONE = "holds no key that verifies tokens";
const BROKEN = "holds a key that is broken";
const SHORT = "must have at least 32 bytes in each secret";
const EXPONENT = "must have an exponent of at least 3 in each RSA key";

test.each<[string, object, refusal: string]>([
  ["for encryption", { ...rsa, use: "enc" }, NONE],
  ["for operations without verify", { ...rsa, key_ops: ["encrypt", "decrypt"] }, NONE],
  ["that only signs", { ...point, key_ops: ["sign"] }, NONE],
  ["of another algorithm than its curve", { ...point, alg: "ES384" }, NONE],
  ["of an algorithm that there is not", { ...point, alg: "ES224" }, NONE],
  ["of another kind than its numbers", { ...point, kty: "RSA" }, BROKEN],
  ["of another curve than its point", { ...point, crv: "P-384" }, BROKEN],
  ["whose point is not on the curve", { ...point, y: point.x }, BROKEN],
  ["with the exponent one, for which everybody can sign", { ...rsa, e: "AQ" }, EXPONENT],
  ["with the exponent zero", { ...rsa, e: "AA" }, EXPONENT],
  ["with an empty secret", secret(0), SHORT],
  ["with a short secret", secret(31), SHORT],
])("a set takes no key %s", (_, jwk, refusal) =>
  expect(() => readJwks(JSON.stringify({ keys: [jwk] }))).toThrow(new Error(refusal)),
);

test("a set takes the keys that verify, and passes over the others", () => {
  const keys = [
    { ...rsa, use: "sig", key_ops: ["verify"] },
    { ...rsa, use: "enc" },
    { ...point, key_ops: ["sign", "verify"] },
    secret(32),
  ];
  const found = readJwks(JSON.stringify({ keys })).map(({ algorithm }) => algorithm);
  expect(found).toEqual(["RS256", "ES256", "HS256"]);
});

test("of a pair the public half is taken", () => {
  const [key] = readJwks(JSON.stringify(privateKey.export({ format: "jwk" })));
  expect(key!.verify.type).toBe("public");
});
