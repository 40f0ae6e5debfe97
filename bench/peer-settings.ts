import { createSecretKey } from "node:crypto";
import jwt from "jsonwebtoken";

/** What a peer is told, as JSON in its first argument. */
export type ServerSettings = {
  readonly databaseUrl: string;
  readonly poolSize: number;
  readonly secret: string;
  readonly port: number;
};

export const readSettings = (): ServerSettings => JSON.parse(process.argv[2]!);

/** Who asks: the user, the Postgres role and the claims as JSON text. */
export type TokenCaller = { readonly userId: string; readonly role: string; readonly claims: string };

/**
 * Makes what turns `Bearer <access token>` into who asks, and throws when the token is not good. The secret is a key
 * object: from a string jsonwebtoken would make one each time, which takes three times as long as the check.
 */
export function bearerVerifier(secret: string): (authorization: string | undefined) => TokenCaller {
  const key = createSecretKey(secret, "utf8");
  return (authorization) => {
    const token = authorization?.replace(/^Bearer /, "") ?? "";
    const claims = jwt.verify(token, key, { algorithms: ["HS256"], issuer: "content-service" }) as jwt.JwtPayload;
    return { userId: claims.sub!, role: claims.role, claims: JSON.stringify(claims) };
  };
}
