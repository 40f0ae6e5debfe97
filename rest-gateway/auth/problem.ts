import { isRaised, isReadOnly, problemOf } from "../../db/errors.ts";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import { type Fault, Problem, problem } from "../../problems/problem.ts";

/** Names all invalid fields of a body. */
export const badFields = (faults: readonly Fault[], isMissing = false) =>
  problem(isMissing ? "missing fields" : "invalid fields", {
    message: faults.map(({ message }) => message).join("; "),
    faults,
  });

export const missingPassword = (field: string) => badFields([{ field, message: `${field} is required` }], true);

/** The sign-in is older than ten minutes, so it may be that of a thief. */
export const passwordRequired = (seconds: number) =>
  problem("password required", { seconds, faults: [{ field: "password", message: "is required" }] });

const EMAIL_REFUSALS = {
  taken: "email taken",
  malformed: "email malformed",
  "too often": "email changed too often",
} as const;

export function emailRefused(outcome: keyof typeof EMAIL_REFUSALS | "too many"): Problem {
  if (outcome === "too many") return problem("too many mails", { retryAfter: 3600 });
  const { reason, message } = problem(EMAIL_REFUSALS[outcome]);
  return new Problem(reason, { faults: [{ field: "email", message }] });
}

/** What the user can do after a sign-in in a browser that took too long. */
export const START_AGAIN = "Start again, and finish within 10 minutes in the same browser. It must accept cookies.";

const WRONG_CODE = { faults: [{ field: "code", message: "wrong code" }] };

export const wrongCodeAtLogin = () => problem("wrong code at login", WRONG_CODE);

export const wrongCode = () => problem("wrong code", WRONG_CODE);

export const factorUnreadable = () =>
  problem("factor unreadable", { hint: "Ask the operator to restore the key, or to reset the factor." });

/** Rejects with Problem for an error that the hook after_sign_in has raised. */
export const refuseByHook = (raised: unknown): never =>
  refuseRaised(withMissingGrant(raised, "the hook after_sign_in"));

/** Hooks run as auth_owner. If it lacks a grant, the caller can do nothing about it: the error becomes an internal one. */
export function withMissingGrant(raised: unknown, hook: string): unknown {
  const { code, routine, message } = raised as DatabaseErrorLike;
  if (code !== "42501" || routine !== "aclcheck_error") return raised;
  const reason = `${hook} runs as auth_owner, which lacks a privilege (${message}): `;
  return new Error(`${reason}grant it to auth_owner, or make the function security definer`, { cause: raised });
}

/**
 * Rejects with Problem for an error that a trigger of the DBA has raised, as a change at `/users` does. A mistake in the SQL of a trigger is
 * no fault of the user: it is logged, and sent as an internal error.
 */
export function refuseRaised(raised: unknown): never {
  if (isMistake(raised as DatabaseErrorLike)) throw withMissingGrant(raised, "a trigger");
  // The service does all this in transactions that write: it has reached a standby, as for some time after a failover.
  if (isReadOnly(raised as DatabaseErrorLike)) throw problem("database unavailable", { cause: raised });
  throw problemOf(raised, { constraintMessages: new Map(), anonymous: false, refused: null }) ?? raised;
}

/**
 * Rejects with Problem for a change of a user that the database has refused: `taken` for an e-mail that is taken. Another unique column of the
 * application is refused as at `/users`.
 */
export function refuseUser(raised: unknown, taken: Problem = emailRefused("taken")): never {
  const { code, constraint = "" } = raised as DatabaseErrorLike;
  const fault = FAULTS.get(constraint);
  if (fault !== undefined) throw badFields([fault]);
  if (code === "23505" && OF_EMAIL.test(constraint)) throw taken;
  if (code === "23514" && OF_EMAIL.test(constraint)) throw emailRefused("malformed");
  return refuseRaised(raised);
}

const OF_EMAIL = /e_?mail/i;

const FAULTS = new Map<string, Fault>([
  ["accounts_username_key", { field: "username", message: "username already taken" }],
  ["accounts_role_known", { field: "role", message: "role must be authenticated or admin" }],
]);

/** A missing object or privilege, or another error of the class "syntax error or access rule violation" that no `raise` has. */
const isMistake = (error: DatabaseErrorLike): boolean => /^(42|3F)/.test(error.code ?? "") && !isRaised(error);
