import { identityOf } from "../../gate/pipeline/exchange.ts";
import type { Account } from "../../identity/account.ts";
import { isRefusal, problem } from "../../problems/problem.ts";
import type { Auth } from "../../rest-gateway/auth/auth.ts";
import type { PublicUser } from "../../rest-gateway/auth/public-users.ts";
import type { Call } from "../../rest-gateway/auth/route.ts";

/** A request to `/auth/v1`. */
export type AuthCall = Call<"none">;

export type SignedInUser = {
  readonly user: PublicUser;
  readonly account: Account;
  readonly aal: 1 | 2;
  /** When the user signed in, in ISO 8601. */
  readonly startedAt: string;
};

/** A user and the session of their access token, as the database has them. */
export type SignedIn = SignedInUser & { readonly userId: string; readonly session: string };

/** The user of the access token. Rejects with Problem. */
export async function signedInOf(call: AuthCall): Promise<SignedIn> {
  const { userId, session } = await subjectOf(call);
  if (session === null) throw problem("session ended");
  const values = [userId, session];
  const found = await call.auth.functions.call<SignedInUser | null>("signed_in_user($1, $2::uuid)", values);
  if (found === null) throw problem("session ended");
  return { ...found, userId, session };
}

/** A user who may manage second factors: who has proved the second factor, if one is enabled. */
export async function managerOf(call: AuthCall): Promise<SignedIn> {
  const signedIn = await signedInOf(call);
  if (signedIn.user.is_anonymous) throw problem("anonymous user");
  if (signedIn.account.hasFactor && signedIn.aal === 1) throw problem("factor needs the other");
  return signedIn;
}

type Subject = { readonly userId: string; readonly session: string | null };

async function subjectOf({ auth, request }: AuthCall): Promise<Subject> {
  const { bearer } = identityOf(request).credentials;
  if (bearer === null) throw problem("bearer required");
  const caller = await verified(async () => auth.callers.callerOf({ bearer }, request));
  const { claims, credential, external, limited } = caller!;
  if (limited !== undefined) return limited;
  if (typeof claims.sub !== "string" || credential?.kind !== "token" || external !== undefined)
    throw problem("token without session", { why: "missing sub claim" });
  return { userId: claims.sub, session: typeof claims.sid === "string" ? claims.sid : null };
}

/** A refused token is one of this wire's errors; a problem of the database is not. */
async function verified<Found>(verify: () => Promise<Found>): Promise<Found> {
  try {
    return await verify();
  } catch (error) {
    if (!isRefusal(error) || error.status >= 500) throw error;
    if (error.reason === "revoked token") throw problem("session ended");
    throw problem("token without session", { why: error.message });
  }
}

/** A password alone changes nothing of an account with a second factor. Throws Problem. */
export function requireSecondFactor(signedIn: SignedIn): void {
  if (!hasSecondFactor(signedIn)) throw problem("second factor not proved");
}

/** Whether the sign-in has proved the second factor, if the account has one. */
export const hasSecondFactor = ({ account, aal }: SignedIn): boolean => !account.hasFactor || aal > 1;

/** Throws Problem for an older sign-in. */
export function requireRecent(auth: Auth, signedIn: SignedIn): void {
  if (isRecent(auth, signedIn)) return;
  throw problem("reauthentication needed", { seconds: auth.settings.recentSignIn });
}

const isRecent = ({ clock, settings }: Auth, { startedAt }: SignedIn): boolean =>
  clock() - Date.parse(startedAt) <= settings.recentSignIn * 1000;
