import type { z } from "zod";
import type { Account, Proof } from "../../identity/account.ts";
import { hashOf } from "../../identity/secrets.ts";
import { REFRESH_SECONDS, type TokenPair, type Tokens } from "../../identity/tokens.ts";
import { TokenError } from "../../identity/verified-tokens.ts";
import { isRefusal, type Problem, problem } from "../../problems/problem.ts";
import { contentHandler } from "../conventions/conditional.ts";
import type { Auth } from "./auth.ts";
import { parseLogin, type RefreshBody, readBody } from "./bodies.ts";
import { deviceOf } from "./device.ts";
import { noRefreshToken } from "./problem.ts";
import type { VerifiedAttempt } from "./repository.ts";
import type { Call } from "./route.ts";
import { methodsOf, type Rotation } from "./session-repository.ts";
import type { AdmittedLogin } from "./sign-in.ts";
import { describeUser, type User } from "./user.ts";

export async function login(call: Call): Promise<SignedIn> {
  return signIn(call, await admit(call));
}

/** The tokens of a login, and the user. */
export type SignedIn = TokenPair & { readonly user: User };

export const signIn = async (call: SignInCall, login: AdmittedLogin): Promise<SignedIn> => ({
  ...(await startTokens(call, login.account, login)),
  user: describeUser(login.account),
});

export type SignInCall = Pick<Call, "request" | "client"> & { readonly auth: Auth };

/** `POST /auth/refresh`. A spent token that is used after the grace period ends its session. */
export async function refresh({ auth, client, body }: Call<"none", z.infer<typeof RefreshBody>>): Promise<TokenPair> {
  const { repository, sessionRows, tokens, clock, settings } = auth;
  const { refreshToken: token } = body;
  const refreshToken = tokens.issueRefresh(userOfRefresh(tokens, token));
  const expiresAt = clock() + REFRESH_SECONDS * 1000;
  const rules = { grace: settings.jwtRefreshGrace };
  const [rotation] = await sessionRows.rotateToken(hashOf(token), hashOf(refreshToken), expiresAt, rules);
  if (rotation.outcome === "rotated") {
    const { account, session, startedAt, aal } = rotation;
    // A session of /auth/v1 whose code is missing.
    if (account.hasFactor && aal === 1) throw challengeOf(auth, account);
    return tokens.issuePair(account, { session, signedInAt: Date.parse(startedAt), refreshToken });
  }
  if (rotation.outcome === "reused") {
    auth.forget(rotation.userId);
    await repository.note({ event: "token_reused", userId: rotation.userId, address: client.address });
  }
  throw REFUSALS[rotation.outcome]();
}

export async function sendPublicKeys({ auth, request, response }: Call): Promise<void> {
  const content = {
    type: "application/json; charset=utf-8",
    text: JSON.stringify(auth.tokens.jwks()),
    headers: { "Cache-Control": "public, max-age=300" },
  };
  await contentHandler(content)(request, response, () => {});
}

/**
 * Verifies the body of a login for tokens or a session: `{ username, password, code? }`, `{ challenge, code }` to complete a
 * login whose code was missing, or `{ passkey }`. Rejects with Problem.
 */
export async function admit({ auth, request, client }: Call): Promise<AdmittedLogin> {
  const input = parseLogin(await readBody(request, auth.limits));
  try {
    if ("challenge" in input) return await auth.signIn.admitChallenge(input, client);
    return await ("username" in input
      ? auth.signIn.admit(input, client)
      : auth.signIn.admitPasskey(input.passkey, client));
  } catch (error) {
    throw isRefusal(error) ? withChallenge(error, auth) : error;
  }
}

function withChallenge(error: Problem, auth: Auth): Error {
  const { account } = error.more;
  return account === undefined ? error : challengeOf(auth, account);
}

/** The error MFA_REQUIRED, with the challenge that completes the login together with a code or a passkey. */
export function challengeOf(
  { tokens }: Auth,
  { factorKinds: factors, ...account }: Pick<Account, "id" | "epoch" | "factorKinds">,
  proof?: Proof,
): Problem {
  const message = factors.includes("passkey") ? { message: CODE_OR_PASSKEY } : {};
  return problem("second factor needed", {
    ...message,
    members: { challenge: tokens.issueChallenge(account, proof), factors },
  });
}

const CODE_OR_PASSKEY = "the second factor is required: send its code as code, or a passkey as passkey";

/**
 * Starts a session with tokens. With `login`, its attempt is settled and the login is recorded. Rejects with Problem if the account has
 * changed since it was found.
 */
export async function startTokens(
  { auth, request, client }: SignInCall,
  account: Account,
  login?: VerifiedAttempt,
): Promise<TokenPair> {
  const { sessionRows, tokens, clock } = auth;
  const refreshToken = tokens.issueRefresh(account.id);
  const signedInAt = clock();
  const period = { startedAt: signedInAt, expiresAt: signedInAt + REFRESH_SECONDS * 1000 };
  const secret = { kind: "token", hash: hashOf(refreshToken) } as const;
  const device = deviceOf(request, client.address);
  const session = { account, secret, period, device, methods: methodsOf(account, login) };
  const started = await sessionRows.start(session, login);
  if (started === null) throw problem("wrong password");
  return tokens.issuePair(account, { session: started[0], signedInAt, refreshToken });
}

/** The user of a refresh token. The database decides later whether the token is still valid. */
export function userOfRefresh(tokens: Tokens, token: string): string {
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
