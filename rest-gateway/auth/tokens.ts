import type { Router } from "express";
import { isRefusal, type Problem, problem } from "../../db/problems/problem.ts";
import { identityOf } from "../../http/pipeline/exchange.ts";
import type { Account } from "../../identity/account.ts";
import { hashOf } from "../../identity/secrets.ts";
import { REFRESH_SECONDS, type TokenPair, type Tokens } from "../../identity/tokens.ts";
import { TokenError } from "../../identity/verified-tokens.ts";
import { contentHandler } from "../conventions/conditional.ts";
import type { Auth } from "./auth.ts";
import { parse, parseLogin, RefreshBody, readBody } from "./bodies.ts";
import { noRefreshToken } from "./problem.ts";
import type { Admission, Rotation } from "./repository.ts";
import { clientOf, route, routes } from "./route.ts";
import type { AdmittedLogin } from "./sign-in.ts";
import type { Client } from "./throttle.ts";

/** `/auth/login`, `/auth/refresh` and `/auth/logout` issue and revoke tokens; `/.well-known/jwks.json` has the public keys. */
export function tokensRouter(auth: Auth): Router {
  const { repository, tokens, limits, addressOf } = auth;

  const signIn = route(async (request, response) => {
    const body = await readBody(request, limits);
    const login = await admit(auth, body, clientOf(auth, request, response));
    response.json(await startTokens(auth, login.account, login));
  });

  const renew = route(async (request, response) => {
    const { refreshToken } = parse(RefreshBody, await readBody(request, limits));
    response.json(await refresh(auth, refreshToken, addressOf(request)));
  });

  /** Revokes all tokens of the user and ends the session. */
  const signOut = route(async (request, response) => {
    const { claims, credential } = await identityOf(request).caller();
    if (typeof claims.sub !== "string" || credential?.kind !== "token") throw problem("token required");
    await repository.endEpoch(claims.sub);
    auth.forget(claims.sub);
    const address = addressOf(request);
    await repository.note({ event: "logout", userId: claims.sub, address, detail: { by: "token" } });
    response.json({ message: "signed out" });
  });

  const keys = contentHandler({
    type: "application/json; charset=utf-8",
    text: JSON.stringify(tokens.jwks()),
    headers: { "Cache-Control": "public, max-age=300" },
  });

  return routes({
    "/auth/login": { POST: signIn },
    "/auth/refresh": { POST: renew },
    "/auth/logout": { POST: signOut },
    "/.well-known/jwks.json": { GET: keys },
  });
}

/**
 * Verifies the body of a login for tokens or a session: `{ username, password, code? }`, or `{ challenge, code }` to complete a
 * login whose code was missing. Rejects with Problem.
 */
export async function admit(auth: Auth, body: unknown, client: Client): Promise<AdmittedLogin> {
  const input = parseLogin(body);
  try {
    return await ("challenge" in input ? auth.signIn.admitChallenge(input, client) : auth.signIn.admit(input, client));
  } catch (error) {
    throw isRefusal(error) ? withChallenge(error, auth) : error;
  }
}

function withChallenge(error: Problem, auth: Auth): Error {
  const { account } = error.more;
  return account === undefined ? error : challengeOf(auth, account);
}

/** The error MFA_REQUIRED, with the challenge that completes the login together with a code. */
export function challengeOf({ tokens }: Auth, account: Pick<Account, "id" | "epoch">): Problem {
  return problem("second factor needed", { members: { challenge: tokens.issueChallenge(account) } });
}

/**
 * Issues the first tokens of an account. With `login`, its attempt is settled and the login is recorded. Rejects with
 * Problem if the account has changed since it was found.
 */
export async function startTokens(
  { repository, tokens, clock }: Auth,
  account: Account,
  login?: Admission,
): Promise<TokenPair> {
  const refreshToken = tokens.issueRefresh(account.id);
  const signedInAt = clock();
  const period = { startedAt: signedInAt, expiresAt: signedInAt + REFRESH_SECONDS * 1000 };
  const family = await repository.startTokens(account, hashOf(refreshToken), period, login);
  if (family === null) throw problem("wrong password");
  return tokens.issuePair(account, { family, signedInAt, refreshToken });
}

/** Exchanges a refresh token for a new pair. If a spent token is used after the grace period, its whole family is revoked. */
async function refresh(auth: Auth, token: string, address: string): Promise<TokenPair> {
  const { repository, tokens, clock, settings } = auth;
  const refreshToken = tokens.issueRefresh(userOf(tokens, token));
  const expiresAt = clock() + REFRESH_SECONDS * 1000;
  const rotation = await repository.rotateToken(
    hashOf(token),
    hashOf(refreshToken),
    expiresAt,
    settings.jwtRefreshGrace,
  );
  if (rotation.outcome === "rotated") {
    const { account, family, startedAt } = rotation;
    return tokens.issuePair(account, { family, signedInAt: Date.parse(startedAt), refreshToken });
  }
  if (rotation.outcome === "reused") {
    auth.forget(rotation.userId);
    await repository.note({ event: "token_reused", userId: rotation.userId, address });
  }
  throw REFUSALS[rotation.outcome]();
}

/** The user of a refresh token. The database decides later whether the token is still valid. */
function userOf(tokens: Tokens, token: string): string {
  try {
    const userId = tokens.verifyRefresh(token);
    if (userId === null) throw noRefreshToken();
    return userId;
  } catch (error) {
    throw error instanceof TokenError ? REFUSALS[error.reason]() : error;
  }
}

const REFUSALS: Readonly<Record<Exclude<Rotation["outcome"], "rotated"> | TokenError["reason"], () => Problem>> = {
  invalid: () => problem("invalid refresh token"),
  expired: () => problem("expired refresh token"),
  unknown: () => problem("revoked refresh token"),
  revoked: () => problem("revoked refresh token"),
  reused: () => problem("revoked refresh token"),
};
