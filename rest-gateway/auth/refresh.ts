import { RestError, type RestProblem } from "../conventions/problem.ts";
import { hashOf } from "../principal/secrets.ts";
import { REFRESH_SECONDS, type TokenPair, type Tokens } from "../principal/tokens.ts";
import { TokenError } from "../principal/verified-tokens.ts";
import type { Auth } from "./auth.ts";
import type { Rotation } from "./store.ts";

/** Spends a refresh token for another pair. Rejects with RestError; one that was spent before ends all that came of its sign-in. */
export async function refresh(auth: Auth, token: string, address: string): Promise<TokenPair> {
  const { store, tokens, clock } = auth;
  const next = tokens.issueRefresh(verified(tokens, token));
  const rotation = await store.rotateToken(hashOf(token), hashOf(next), clock() + REFRESH_SECONDS * 1000);
  if (rotation.outcome === "rotated") return tokens.issuePair(rotation.account, next);
  if (rotation.outcome === "reused") await store.note({ event: "token_reused", userId: rotation.userId, address });
  throw REFUSALS[rotation.outcome]();
}

/** Whose token it is; whether it is still good the database knows. */
function verified(tokens: Tokens, token: string): string {
  try {
    const userId = tokens.verifyRefresh(token);
    if (userId === null) throw notRefresh();
    return userId;
  } catch (error) {
    throw error instanceof TokenError ? REFUSALS[error.reason]() : error;
  }
}

const refused = (code: RestProblem["code"], message: string) => () => new RestError({ status: 401, code, message });

// What it was revoked for is nobody's business who may have stolen it.
const revoked = refused("VERIFICATION_FAILED", "the refresh token has been revoked: sign in again");

const REFUSALS: Readonly<Record<Exclude<Rotation["outcome"], "rotated"> | TokenError["reason"], () => RestError>> = {
  invalid: refused("INVALID_TOKEN", "the refresh token is not valid: sign in again"),
  expired: refused("TOKEN_EXPIRED", "the refresh token has expired: sign in again"),
  unknown: revoked,
  revoked,
  reused: revoked,
};

const notRefresh = () =>
  new RestError({
    status: 400,
    code: "VALIDATION_ERROR",
    message: "refreshToken must be a refresh token, and this is another one",
    faults: [{ field: "refreshToken", message: "must be a refresh token" }],
  });
