import { hashOf } from "../../identity/secrets.ts";
import { REFRESH_SECONDS, type TokenPair, type Tokens } from "../../identity/tokens.ts";
import { TokenError } from "../../identity/verifier.ts";
import type { RestError } from "../conventions/problem.ts";
import type { Auth } from "./auth.ts";
import { expiredRefreshToken, invalidRefreshToken, noRefreshToken, revokedRefreshToken } from "./problem.ts";
import type { Rotation } from "./repository.ts";

/**
 * Spends a refresh token for another pair. Rejects with RestError; one that was spent before, and not just now, ends all that
 * came of its sign-in.
 */
export async function refresh(auth: Auth, token: string, address: string): Promise<TokenPair> {
  const { store, tokens, clock, settings } = auth;
  const refreshToken = tokens.issueRefresh(verified(tokens, token));
  const expiresAt = clock() + REFRESH_SECONDS * 1000;
  const rotation = await store.rotateToken(hashOf(token), hashOf(refreshToken), expiresAt, settings.jwtRefreshGrace);
  if (rotation.outcome === "rotated") {
    return tokens.issuePair(rotation.account, { family: rotation.family, refreshToken });
  }
  if (rotation.outcome === "reused") {
    auth.forget(rotation.userId);
    await store.note({ event: "token_reused", userId: rotation.userId, address });
  }
  throw REFUSALS[rotation.outcome]();
}

/** Whose token it is; whether it is still good the database knows. */
function verified(tokens: Tokens, token: string): string {
  try {
    const userId = tokens.verifyRefresh(token);
    if (userId === null) throw noRefreshToken();
    return userId;
  } catch (error) {
    throw error instanceof TokenError ? REFUSALS[error.reason]() : error;
  }
}

const REFUSALS: Readonly<Record<Exclude<Rotation["outcome"], "rotated"> | TokenError["reason"], () => RestError>> = {
  invalid: invalidRefreshToken,
  expired: expiredRefreshToken,
  unknown: revokedRefreshToken,
  revoked: revokedRefreshToken,
  reused: revokedRefreshToken,
};
