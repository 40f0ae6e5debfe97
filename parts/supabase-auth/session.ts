import type { Account } from "../../identity/account.ts";
import { hashOf } from "../../identity/secrets.ts";
import { REFRESH_SECONDS } from "../../identity/tokens.ts";
import { problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import { deviceOf } from "../../rest-gateway/auth/device.ts";
import type { PublicUser } from "../../rest-gateway/auth/public-users.ts";
import type { VerifiedAttempt } from "../../rest-gateway/auth/repository.ts";
import type { Method, UsedMethod } from "../../rest-gateway/auth/session-repository.ts";
import type { AuthCall } from "./call.ts";

/** Tokens and the user, as the wire has them. */
export type SessionAnswer = {
  readonly access_token: string;
  readonly token_type: "bearer";
  readonly expires_in: number;
  /** Seconds since 1970. */
  readonly expires_at: number;
  readonly refresh_token: string;
  readonly user: PublicUser;
};

/** A session, and what its tokens say about it. */
export type Issued = {
  readonly account: Account;
  readonly user: PublicUser;
  readonly session: string;
  readonly signedInAt: number;
  readonly methods: readonly UsedMethod[];
  readonly aal: 1 | 2;
  readonly refreshToken: string;
};

/** Starts a session. With `login`, its attempt is settled and the login is recorded. Rejects with Problem. */
export async function startAuthSession(
  { auth, request, client }: AuthCall,
  account: Account,
  method: Method,
  login?: VerifiedAttempt,
): Promise<SessionAnswer> {
  const { sessionRows, tokens, clock, publicUsers } = auth;
  const refreshToken = tokens.issueRefresh(account.id);
  const startedAt = clock();
  const period = { startedAt, expiresAt: startedAt + REFRESH_SECONDS * 1000 };
  const secret = { kind: "token", hash: hashOf(refreshToken) } as const;
  const device = deviceOf(request, client.address);
  const session = { account, secret, period, device, methods: [method] };
  const started = await sessionRows.start(session, login, [publicUsers.reading(account.id)]);
  if (started === null) throw problem("wrong password");
  const [id, user] = started as readonly [string, PublicUser];
  const methods = [{ method, timestamp: Math.floor(startedAt / 1000) }];
  // A passkey is two factors.
  const aal = method === "passkey" ? 2 : 1;
  return issueSession(auth, { account, user, session: id, signedInAt: startedAt, methods, aal, refreshToken });
}

/** The tokens of a session. Until the code of an enabled second factor is right, they open only `/auth/v1`. */
export function issueSession(auth: Auth, issued: Issued): SessionAnswer {
  const { account, user, session, signedInAt, methods, aal, refreshToken } = issued;
  const { settings, tokens, clock } = auth;
  const claims = {
    ...account.claims,
    ...(settings.jwtAud === "" && { aud: "authenticated" }),
    ...{ email: user.email, phone: "", app_metadata: user.app_metadata, user_metadata: user.user_metadata },
    ...{ aal: `aal${aal}`, amr: methods, session_id: session, is_anonymous: user.is_anonymous },
  };
  const isLimited = account.hasFactor && aal === 1 && settings.mfaAal1 === "limited";
  const pair = tokens.issuePair({ ...account, claims }, { session, signedInAt, refreshToken, isLimited });
  return {
    access_token: pair.accessToken,
    token_type: "bearer",
    expires_in: pair.expiresIn,
    expires_at: Math.floor(clock() / 1000) + pair.expiresIn,
    refresh_token: pair.refreshToken,
    user,
  };
}
