import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import jwt from "jsonwebtoken";

type SigningKey = { readonly kid: string; readonly privateKey: KeyObject; readonly jwk: object };

/** An issuer of tokens on loopback, with discovery and a key set. */
export class TokenIssuer {
  readonly #server: Server;
  keys: readonly SigningKey[] = [newKey("first")];
  isDown = false;
  /** The requests for the key set. */
  keyRequests = 0;
  url = "";

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<TokenIssuer> {
    const server = createServer((request, response) => {
      const { status, body } = issuer.#answer(request.url!);
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    });
    const issuer = new TokenIssuer(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    issuer.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return issuer;
  }

  close(): void {
    this.#server.close();
  }

  /** Replaces all keys. */
  rotate(kid: string): void {
    this.keys = [newKey(kid)];
  }

  /** A valid access token, with these claims and header fields in place of its own; undefined removes a claim. */
  token(claims: object = {}, header: object = {}, key: Pick<SigningKey, "kid" | "privateKey"> = this.keys[0]!): string {
    const seconds = Math.floor(Date.now() / 1000);
    const own = { iss: this.url, aud: "content", sub: "mary", role: "authenticated", iat: seconds, exp: seconds + 300 };
    const all = Object.entries({ ...own, ...claims }).filter(([, value]) => value !== undefined);
    const options = { algorithm: "RS256", keyid: key.kid, header: { alg: "RS256", ...header } } as const;
    return jwt.sign(Object.fromEntries(all), key.privateKey, options);
  }

  #answer(url: string): { readonly status: number; readonly body: object } {
    if (url.startsWith("/jwks")) this.keyRequests++;
    if (this.isDown) return { status: 500, body: {} };
    if (url === "/jwks") return { status: 200, body: { keys: this.keys.map(({ jwk }) => jwk) } };
    if (url !== "/.well-known/openid-configuration") return { status: 404, body: {} };
    return { status: 200, body: { issuer: this.url, jwks_uri: `${this.url}/jwks` } };
  }
}

export function newKey(kid: string): SigningKey {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { kid, privateKey, jwk: { ...publicKey.export({ format: "jwk" }), kid, alg: "RS256", use: "sig" } };
}
