import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

/** A private key and its self-signed certificate, in PEM format. */
export type TestKeyPair = { readonly privateKey: string; readonly certificate: string };

/** DER: tag, length, contents. */
function der(tag: number, ...contents: Buffer[]): Buffer {
  const body = Buffer.concat(contents);
  const length =
    body.length < 128
      ? [body.length]
      : body.length < 256
        ? [0x81, body.length]
        : [0x82, body.length >> 8, body.length & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
}

const sequence = (...contents: Buffer[]) => der(0x30, ...contents);
const integer = (bytes: Buffer) => der(0x02, bytes[0]! > 127 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes);
const time = (date: Date) => der(0x17, Buffer.from(`${date.toISOString().replace(/\D/g, "").slice(2, 14)}Z`));
/** sha256WithRSAEncryption */
const ALGORITHM = sequence(Buffer.from("06092a864886f70d01010b", "hex"), Buffer.from("0500", "hex"));
const nameOf = (name: string) =>
  sequence(der(0x31, sequence(Buffer.from("0603550403", "hex"), der(0x0c, Buffer.from(name)))));

/** A new key with a certificate, which Node cannot create. Source: RFC 5280, 4.1. */
export function newCertificate(name = "test", bits = 2048, days = 365): TestKeyPair {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: bits });
  return {
    privateKey: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    certificate: certify(privateKey, publicKey, name, days),
  };
}

function certify(privateKey: KeyObject, publicKey: KeyObject, name: string, days: number): string {
  const start = Date.now() - 3_600_000;
  const certificate = sequence(
    der(0xa0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ALGORITHM,
    nameOf(name),
    sequence(time(new Date(start)), time(new Date(start + days * 86_400_000))),
    nameOf(name),
    publicKey.export({ type: "spki", format: "der" }),
  );
  const signature = sign("sha256", certificate, privateKey);
  const whole = sequence(certificate, ALGORITHM, der(0x03, Buffer.from([0]), signature));
  return `-----BEGIN CERTIFICATE-----\n${whole
    .toString("base64")
    .match(/.{1,64}/g)!
    .join("\n")}\n-----END CERTIFICATE-----\n`;
}
