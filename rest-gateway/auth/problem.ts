import { problemOf } from "../../db/errors.ts";
import { type Fault, Problem, problem } from "../../db/problems/problem.ts";

/** Names all invalid fields of a body. */
export const badFields = (faults: readonly Fault[], isMissing = false) =>
  problem(isMissing ? "missing fields" : "invalid fields", {
    message: faults.map(({ message }) => message).join("; "),
    faults,
  });

export const missingPassword = (field: string) => badFields([{ field, message: `${field} is required` }], true);

/** The sign-in is older than RECENT_SIGN_IN, so it may be that of a thief. */
export const passwordRequired = (seconds: number) =>
  problem("password required", { seconds, faults: [{ field: "password", message: "is required" }] });

const EMAIL_REFUSALS = {
  taken: "email taken",
  malformed: "email malformed",
  "too often": "email changed too often",
} as const;

export function emailRefused(outcome: keyof typeof EMAIL_REFUSALS): Problem {
  const { reason, message } = problem(EMAIL_REFUSALS[outcome]);
  return new Problem(reason, { faults: [{ field: "email", message }] });
}

const WRONG_CODE = { faults: [{ field: "code", message: "wrong code" }] };

export const wrongCodeAtLogin = () => problem("wrong code at login", WRONG_CODE);

export const wrongCode = () => problem("wrong code", WRONG_CODE);

export const factorUnreadable = () =>
  problem("factor unreadable", { hint: "Ask the operator to restore the key, or to reset the factor." });

export const noRefreshToken = () =>
  problem("no refresh token", { faults: [{ field: "refreshToken", message: "must be a refresh token" }] });

/** Rejects with Problem for an error that a trigger of the DBA has raised, as a change at `/users` does. */
export function refuseRaised(raised: unknown): never {
  throw problemOf(raised, { constraintMessages: new Map(), anonymous: false, refused: null }) ?? raised;
}
