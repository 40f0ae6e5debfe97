import type { z } from "zod";
import type { Account } from "../../identity/account.ts";
import { IDLE_SECONDS } from "../../identity/cookies.ts";
import type { SessionEntryAnswer } from "./answers.ts";
import type { Auth } from "./auth.ts";
import type { LogoutBody } from "./bodies.ts";
import type { Device } from "./device.ts";
import { bytes, type Call, type Database, seconds, time } from "./functions.ts";
import { refuseByHook } from "./problem.ts";
import { noting, refusedByHook, settling, type VerifiedAttempt } from "./repository.ts";

/** The id of a user, and of the session that signs them in; null with Basic credentials. */
export type CurrentSignIn = { readonly id: string; readonly session: string | null };

/** Which sessions a sign-out ends: that of the caller, all others, or all. */
export type Scope = z.infer<typeof LogoutBody>["scope"];

export type NewSession = {
  readonly account: Account;
  readonly kind: "cookie" | "token";
  /** The SHA-256 of the cookie, or of the first refresh token. */
  readonly hash: Buffer;
  /** In milliseconds since 1970. */
  readonly startedAt: number;
  readonly expiresAt: number;
  readonly device: Device;
  /** How the user has proved who they are, newest first. */
  readonly methods: readonly Method[];
  /** The hash of the cookie that it replaces. */
  readonly previous: Buffer | null;
};

/** How a user proves who they are. Source: the claim `amr` of Supabase. */
export type Method = "password" | "oauth" | "sso/saml" | "totp" | "passkey" | "mfa/webauthn" | "otp" | "anonymous";

/** A spent refresh token is accepted for `grace` seconds; with `acceptsParent`, later too, if the next token was not used. */
export type ReuseRules = { readonly grace: number; readonly acceptsParent?: boolean };

/** A session, as its user sees it. */
export type SessionDescription = Omit<z.infer<typeof SessionEntryAnswer>, "isCurrent">;

/** `timestamp` is seconds since 1970. */
export type UsedMethod = { readonly method: Method; readonly timestamp: number };

export type Rotation =
  | {
      readonly outcome: "rotated";
      readonly userId: string;
      /** The id of the session. */
      readonly session: string;
      /** When the user signed in, in ISO 8601. */
      readonly startedAt: string;
      readonly methods: readonly UsedMethod[];
      /** 2 if a second factor was one of the methods. */
      readonly aal: 1 | 2;
      readonly account: Account;
    }
  | { readonly outcome: "revoked" | "reused" | "expired"; readonly userId: string }
  | { readonly outcome: "unknown" };

/** The method of a sign-in at a provider. */
const providerMethodOf = ({ bySaml }: Pick<VerifiedAttempt, "bySaml">): Method => (bySaml ? "sso/saml" : "oauth");

/** The methods of a sign-in on our own routes, which issue nothing before the code of a second factor is right. */
export function methodsOf({ hasFactor }: Account, login?: VerifiedAttempt): readonly Method[] {
  if (login?.byPasskey) return ["passkey"];
  const withoutProvider = login?.byMail ? "otp" : "password";
  const first = login?.provider === undefined ? withoutProvider : providerMethodOf(login);
  return hasFactor ? [login?.factor ?? "totp", first] : [first];
}

/**
 * Returns the id of the new session, and the results of `more`; null if the account has changed since it was found. With `login`, its
 * attempt is settled and the login is recorded. Rejects with Problem if the hook after_sign_in refuses the sign-in.
 */
export async function startSession(
  { functions, settings }: Pick<Auth, "functions" | "settings">,
  { account, kind, hash, startedAt, expiresAt, device, methods, previous }: NewSession,
  login?: VerifiedAttempt,
  more: readonly Call[] = [],
): Promise<readonly [id: string, ...results: unknown[]] | null> {
  const [cookie, token] = kind === "cookie" ? [bytes(hash), null] : [null, bytes(hash)];
  const { id, epoch } = account;
  const values = [
    ...[id, String(epoch), cookie, token, device.name, device.network],
    ...[time(startedAt), time(expiresAt), String(settings.sessionsMax), `{${methods.join()}}`],
    login?.provider ?? null,
  ];
  const types = "$3::bytea, $4::bytea, $5, $6::cidr, $7::timestamptz, $8::timestamptz, $9::integer, $10::text[], $11";
  const call = { call: `start_session($1, $2::integer, ${types})`, values };
  const ended = previous ? [{ call: "end_cookie($1::bytea)", values: [bytes(previous)] }] : [];
  const by = kind === "cookie" ? "session" : "token";
  const completed = login ? completing(account, login, by, functions.now()) : [];
  const running = functions.run(call, ...more, ...ended, ...completed);
  const [session, ...results] = await running.catch(async (error) => {
    if (login) {
      const refused = noting(refusedByHook(id, login.address), functions.now());
      const returned = login.mailToken ? [returning(login.mailToken, account)] : [];
      await functions.run(settling(login.attempt, false), refused, ...returned);
    }
    return refuseByHook(error);
  });
  return session === null ? null : [session as string, ...results.slice(0, more.length)];
}

/** The calls that complete a login: they delete the attempt and record the login. */
function completing(
  { id, epoch }: Account,
  { attempt, address, provider, byPasskey: passkey }: VerifiedAttempt,
  by: "token" | "session",
  now: string,
): readonly Call[] {
  const values = [id, String(epoch), address || null, JSON.stringify({ by, provider, passkey }), now];
  const call = "note_login($1, $2::integer, $3::inet, $4::jsonb, $5::timestamptz)";
  return [settling(attempt, false), { call, values }];
}

/** A token that was already spent is accepted again by `rules`. Also returns the results of `more`. */
export async function rotateToken(
  { functions }: Database,
  oldHash: Buffer,
  newHash: Buffer,
  expiresAt: number,
  { grace, acceptsParent = false }: ReuseRules,
  more: readonly Call[] = [],
): Promise<readonly [Rotation, ...results: unknown[]]> {
  const values = [bytes(oldHash), bytes(newHash), functions.now(), time(expiresAt), seconds(grace)];
  const call = "rotate_token($1::bytea, $2::bytea, $3::timestamptz, $4::timestamptz, $5::interval, $6::boolean)";
  const rotating = { call, values: [...values, String(acceptsParent)] };
  const [rotation, ...results] = await functions.run(rotating, ...more);
  const rotated = rotation as Rotation;
  if (rotated.outcome === "reused") functions.forget(rotated.userId);
  return [rotated, ...results];
}

/** The sessions of a user that have not ended, those that were used last first. */
export const sessionsOf = ({ functions }: Database, userId: string): Promise<readonly SessionDescription[]> =>
  functions.call("list_sessions($1, $2::timestamptz, $3::interval)", [
    ...[userId, functions.now(), seconds(IDLE_SECONDS)],
  ]);

/** Returns false if the user has no such session. */
export const endSession = ({ functions }: Database, userId: string, id: string): Promise<boolean> =>
  functions.change("end_session($1, $2::uuid, $3::timestamptz)", [userId, id, functions.now()]);

/** Makes the token of an e-mail valid again. */
const returning = (token: object, { id, epoch }: Account): Call => ({
  call: "return_mail_token($1::jsonb, $2, $3::integer)",
  values: [JSON.stringify(token), id, String(epoch)],
});
