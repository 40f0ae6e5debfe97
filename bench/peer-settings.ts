import { createSecretKey } from "node:crypto";
import jwt from "jsonwebtoken";

/** The settings of a peer, passed as JSON in its first argument. */
export type ServerSettings = {
  readonly databaseUrl: string;
  readonly poolSize: number;
  readonly secret: string;
  readonly port: number;
};

export const readSettings = (): ServerSettings => JSON.parse(process.argv[2]!);

/** The caller: the user, the Postgres role and the claims as JSON text. */
export type TokenCaller = { readonly userId: string; readonly role: string; readonly claims: string };

/**
 * Returns a function from `Bearer <access token>` to the caller. It throws if the token is not valid. The secret is a key
 * object: jsonwebtoken converts a string to one for each token, which takes three times as long as the verification.
 */
export function bearerVerifier(secret: string): (authorization: string | undefined) => TokenCaller {
  const key = createSecretKey(secret, "utf8");
  return (authorization) => {
    const token = authorization?.replace(/^Bearer /, "") ?? "";
    const claims = jwt.verify(token, key, { algorithms: ["HS256"], issuer: "content-service" }) as jwt.JwtPayload;
    return { userId: claims.sub!, role: claims.role, claims: JSON.stringify(claims) };
  };
}
