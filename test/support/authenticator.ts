import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

const PRESENT = 0x01;
const VERIFIED = 0x04;
const CAN_SYNC = 0x08;
const SYNCED = 0x10;
const HAS_KEY = 0x40;

type Options = { readonly challenge: string; readonly user?: { readonly id: string } };

/** What is different from what a browser and an authenticator would do. */
export type Deviation = {
  readonly origin?: string;
  readonly domain?: string;
  /** Without a fingerprint or a PIN. */
  readonly isUnverified?: boolean;
  readonly counter?: number;
  readonly crossOrigin?: boolean;
  readonly userHandle?: string | null;
  readonly type?: string;
};

/**
 * An authenticator and the browser in front of it, with one passkey, so that tests can send what no browser would. Source: WebAuthn, section
 * 6.1 and 8.7.
 */
export class Authenticator {
  readonly #origin: string;
  readonly #key: KeyObject;
  readonly #publicKey: Buffer;
  readonly id = randomBytes(16);
  readonly #isSynced: boolean;
  #user: string | null = null;
  counter = 0;

  constructor(origin: string, { isSynced = false } = {}) {
    this.#origin = origin;
    this.#isSynced = isSynced;
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    this.#key = privateKey;
    const { x, y } = publicKey.export({ format: "jwk" });
    // COSE: {1: EC2, 3: ES256, -1: P-256, -2: x, -3: y}
    this.#publicKey = Buffer.concat([
      Buffer.from("a5010203262001215820", "hex"),
      Buffer.from(x!, "base64url"),
      Buffer.from("225820", "hex"),
      Buffer.from(y!, "base64url"),
    ]);
  }

  /** What `navigator.credentials.create` returns. */
  create(options: Options, deviation: Deviation = {}) {
    this.#user = options.user!.id;
    const length = Buffer.alloc(2);
    length.writeUInt16BE(this.id.length);
    const key = [Buffer.alloc(16), length, this.id, this.#publicKey];
    const data = Buffer.concat([this.#data(HAS_KEY, deviation), ...key]);
    // CBOR: {"fmt": "none", "attStmt": {}, "authData": data}
    const object = [
      Buffer.from("a363666d74646e6f6e656761747453746d74a068617574684461746158", "hex"),
      Buffer.from([data.length]),
      data,
    ];
    return this.#credential({
      clientDataJSON: this.#clientData("webauthn.create", options, deviation),
      attestationObject: Buffer.concat(object).toString("base64url"),
      transports: ["internal"],
    });
  }

  /** What `navigator.credentials.get` returns. */
  get(options: Options, deviation: Deviation = {}) {
    if (this.counter > 0) this.counter++;
    const data = this.#data(0, deviation);
    const clientDataJSON = this.#clientData("webauthn.get", options, deviation);
    const hash = createHash("sha256").update(Buffer.from(clientDataJSON, "base64url")).digest();
    return this.#credential({
      clientDataJSON,
      authenticatorData: data.toString("base64url"),
      signature: sign("sha256", Buffer.concat([data, hash]), this.#key).toString("base64url"),
      userHandle: deviation.userHandle === undefined ? this.#user : deviation.userHandle,
    });
  }

  #credential<Response>(response: Response) {
    const id = this.id.toString("base64url");
    return { id, rawId: id, type: "public-key", clientExtensionResults: {}, response };
  }

  #clientData(type: string, { challenge }: Options, deviation: Deviation): string {
    const { origin = this.#origin, crossOrigin = false } = deviation;
    return Buffer.from(JSON.stringify({ type: deviation.type ?? type, challenge, origin, crossOrigin })).toString(
      "base64url",
    );
  }

  #data(flags: number, { domain = new URL(this.#origin).hostname, isUnverified, counter }: Deviation): Buffer {
    const number = Buffer.alloc(4);
    number.writeUInt32BE(counter ?? this.counter);
    const all = flags | PRESENT | (isUnverified ? 0 : VERIFIED) | (this.#isSynced ? CAN_SYNC | SYNCED : 0);
    return Buffer.concat([createHash("sha256").update(domain).digest(), Buffer.from([all]), number]);
  }
}
