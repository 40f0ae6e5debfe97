import { valuesOf } from "../../config/declared.ts";
import type { Database, Call as DatabaseCall } from "../../rest-gateway/auth/functions.ts";
import type { Form } from "../../rest-gateway/auth/issue.ts";
import type { PublicUser } from "../../rest-gateway/auth/public-users.ts";
import { methodsOf } from "../../rest-gateway/auth/session-repository.ts";
import { SUPABASE_AUTH } from "./settings.ts";

/** The call that reads a user, for the round trip of another one. */
const readingUser = (userId: string | null): DatabaseCall => ({ call: "public_user($1)", values: [userId] });

export function findUserOf({ functions }: Database, userId: string | null): Promise<PublicUser | null> {
  const { call, values } = readingUser(userId);
  return functions.call(call, values);
}

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

/** A new session has one method: the second factor is proved later. Until then, its tokens open only `/auth/v1`. */
export const AUTH_SESSION: Form<SessionAnswer> = {
  kind: "token",
  methodsOf: (account, login) => methodsOf(account, login).slice(-1),
  reading: (_, userId) => readingUser(userId),
  send({ auth: { settings, tokens, clock } }, { account, session, signedInAt, methods, aal, secret, read }) {
    const user = read as PublicUser;
    const claims = {
      ...account.claims,
      ...(settings.jwtAud === "" && { aud: "authenticated" }),
      ...{ email: user.email, phone: "", app_metadata: user.app_metadata, user_metadata: user.user_metadata },
      ...{ aal: `aal${aal}`, amr: methods, session_id: session, is_anonymous: user.is_anonymous },
    };
    const isProved = !account.hasFactor || aal === 2;
    const isLimited = !isProved && valuesOf(settings, SUPABASE_AUTH).mfaAal1 === "limited";
    // Without the second factor, no sign-in is recent: the password alone would add keys and passkeys.
    const proof = { session, refreshToken: secret, isLimited, ...(isProved && { signedInAt }) };
    const pair = tokens.issuePair({ ...account, claims }, proof);
    return {
      access_token: pair.accessToken,
      token_type: "bearer",
      expires_in: pair.expiresIn,
      expires_at: Math.floor(clock() / 1000) + pair.expiresIn,
      refresh_token: pair.refreshToken,
      user,
    };
  },
};
