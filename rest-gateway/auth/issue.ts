import { identityOf } from "../../gate/pipeline/exchange.ts";
import type { Account, Proof } from "../../identity/account.ts";
import { setSession } from "../../identity/cookies.ts";
import { hashOf, hexHashOf, newSecret } from "../../identity/secrets.ts";
import { REFRESH_SECONDS, type TokenPair } from "../../identity/tokens.ts";
import { TokenError } from "../../identity/verified-tokens.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import type { Reason } from "../../problems/reasons.ts";
import type { Auth } from "./auth.ts";
import { deviceOf } from "./device.ts";
import type { Call as DatabaseCall } from "./functions.ts";
import { noteEvent, type VerifiedAttempt } from "./repository.ts";
import type { Call } from "./route.ts";
import {
  type Method,
  methodsOf,
  type ReuseRules,
  type Rotation,
  rotateToken,
  startSession,
  type UsedMethod,
} from "./session-repository.ts";
import { describeUser, type User } from "./user.ts";

/** A session, and what is sent of it. */
export type Issued = {
  readonly account: Account;
  /** The id of the session. */
  readonly session: string;
  /** The cookie, or the refresh token. */
  readonly secret: string;
  /** Milliseconds since 1970. */
  readonly signedInAt: number;
  /** Newest first. */
  readonly methods: readonly UsedMethod[];
  readonly aal: 1 | 2;
  /** The result of `reading`. */
  readonly read?: unknown;
};

/** The form in which a client gets a session. */
export type Form<Sent> = {
  readonly kind: "cookie" | "token";
  /** The methods of a new session, newest first. */
  methodsOf(account: Account, login?: VerifiedAttempt): readonly Method[];
  /** What is read in the transaction of the session. */
  reading?(auth: Auth, userId: string): DatabaseCall;
  send(call: IssueCall, issued: Issued): Sent;
};

export type IssueCall = Pick<Call, "request" | "response" | "client"> & { readonly auth: Auth };

export const TOKENS: Form<TokenPair> = {
  kind: "token",
  methodsOf,
  send: ({ auth }, { account, session, signedInAt, secret: refreshToken }) =>
    auth.tokens.issuePair(account, { session, signedInAt, refreshToken }),
};

/** Tokens, and the user. */
export type SignedIn = TokenPair & { readonly user: User };

export const SIGNED_IN: Form<SignedIn> = {
  ...TOKENS,
  send: (call, issued) => ({ ...TOKENS.send(call, issued), user: describeUser(issued.account) }),
};

export const COOKIE: Form<void> = {
  kind: "cookie",
  methodsOf,
  send: ({ response }, { secret }) => setSession(response, secret),
};

/** An account that may sign in; with an attempt, if it was one of a sign-in. */
type Login = { readonly account: Account } & (VerifiedAttempt | { readonly attempt?: never });

/**
 * Starts a session. The attempt of a sign-in is settled, and the sign-in recorded; a browser replaces its cookie, so its previous session
 * ends, even one of another user. Rejects with Problem if the account has changed since it was found.
 */
export async function issue<Sent>(call: IssueCall, { account, ...given }: Login, form: Form<Sent>): Promise<Sent> {
  const { auth, request, client } = call;
  const { clock, settings, store, tokens } = auth;
  const { kind } = form;
  const isCookie = kind === "cookie";
  const secret = isCookie ? newSecret() : tokens.issueRefresh(account.id);
  const startedAt = clock();
  const expiresAt = startedAt + (isCookie ? settings.sessionMaxAge : REFRESH_SECONDS) * 1000;
  const login = given.attempt && given;
  const methods = form.methodsOf(account, login);
  const device = deviceOf(request, client.address);
  const replaced = isCookie && login ? identityOf(request).credentials.session : null;
  const previous = replaced === null ? null : hashOf(replaced);
  const row = { account, kind, hash: hashOf(secret), startedAt, expiresAt, device, methods, previous };
  const started = await startSession(auth, row, login, form.reading && [form.reading(auth, account.id)]);
  if (started === null) throw problem("wrong password");
  // Before the database reports it.
  if (replaced !== null) store.sessions.delete(hexHashOf(replaced));
  const [session, read] = started;
  const timestamp = Math.floor(startedAt / 1000);
  const used = methods.map((method) => ({ method, timestamp }));
  // A passkey is two factors.
  const aal = methods.length > 1 || methods[0] === "passkey" ? 2 : 1;
  return form.send(call, { account, session, secret, signedInAt: startedAt, methods: used, aal, read });
}

/** The same for a proof that does not replace the second factor. Rejects with its challenge if there is one. */
export async function issueUnlessFactor<Sent>(
  call: IssueCall,
  login: VerifiedAttempt & { readonly account: Account },
  form: Form<Sent>,
): Promise<Sent> {
  if (login.account.hasFactor) throw challengeOf(call.auth, login.account, login);
  return issue(call, login, form);
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

/** Replaces a refresh token. A spent one that the rules do not accept ends its session. Rejects with Problem. */
export async function rotate<Sent>(
  call: IssueCall,
  token: string,
  rules: ReuseRules,
  { reading, send }: Form<Sent>,
): Promise<Sent> {
  const { auth, client } = call;
  const { tokens, clock } = auth;
  const userId = userOfRefresh(auth, token);
  const secret = tokens.issueRefresh(userId);
  const expiresAt = clock() + REFRESH_SECONDS * 1000;
  const more = reading && [reading(auth, userId)];
  const [rotation, read] = await rotateToken(auth, hashOf(token), hashOf(secret), expiresAt, rules, more);
  if (rotation.outcome === "rotated")
    return send(call, { ...rotation, secret, signedInAt: Date.parse(rotation.startedAt), read });
  if (rotation.outcome === "reused")
    await noteEvent(auth, { event: "token_reused", userId: rotation.userId, address: client.address });
  throw problem(REFUSALS[rotation.outcome]);
}

/** The user of a refresh token. The database decides later whether the token is still valid. */
function userOfRefresh({ tokens }: Auth, token: string): string {
  try {
    const userId = tokens.verifyRefresh(token);
    if (userId !== null) return userId;
    throw problem("no refresh token", { faults: [{ field: "refreshToken", message: "must be a refresh token" }] });
  } catch (error) {
    throw error instanceof TokenError ? problem(REFUSALS[error.reason]) : error;
  }
}

const REFUSALS = {
  invalid: "invalid refresh token",
  expired: "expired refresh token",
  unknown: "revoked refresh token",
  revoked: "revoked refresh token",
  reused: "refresh token reused",
} as const satisfies Record<Exclude<Rotation["outcome"], "rotated"> | TokenError["reason"], Reason>;
