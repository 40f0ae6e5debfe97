import { problemOf } from "../../db/errors.ts";
import type { Fault } from "../../db/problems/problem.ts";
import { restError as error, RestError, type RestProblem, restProblemOf } from "../conventions/problem.ts";

export const notAnObject = () => error(400, "VALIDATION_ERROR", "the body must be a JSON object");

/** Names all invalid fields of a body. */
export const badFields = (faults: readonly Fault[], isMissing = false) =>
  error(400, isMissing ? "MISSING_FIELD" : "VALIDATION_ERROR", faults.map(({ message }) => message).join("; "), {
    faults,
  });

export const sessionRequired = () =>
  error(401, "AUTH_REQUIRED", "login required: sign in at POST /api/auth/login for a session");

export const notByKey = () =>
  error(403, "PERMISSION_DENIED", "a key cannot manage the account: sign in with a token, a session or the password");

/** 403, not 401: the caller is signed in. */
export const wrongPassword = () => error(403, "PERMISSION_DENIED", "wrong password");

/** The sign-in is older than RECENT_SIGN_IN, so it may be that of a thief. */
export const passwordRequired = (seconds: number) =>
  error(401, "PASSWORD_REQUIRED", `the sign-in is older than ${seconds} seconds: sign in again, or send the password`, {
    faults: [{ field: "password", message: "is required" }],
  });

/** For changes that no password confirms. */
export const signInRequired = (seconds: number) =>
  error(401, "PASSWORD_REQUIRED", `the sign-in is older than ${seconds} seconds: sign in again`);

export const missingPassword = (field: string) => badFields([{ field, message: `${field} is required` }], true);

const EMAIL_REFUSALS = {
  taken: [409, "RESOURCE_CONFLICT", "email already registered"],
  malformed: [400, "VALIDATION_ERROR", "email must be a valid address"],
  "too often": [
    409,
    "RESOURCE_CONFLICT",
    "the e-mail was changed 20 times, and the earlier ones are still reserved: go back to one of them, or try again later",
  ],
} as const;

export function emailRefused(outcome: keyof typeof EMAIL_REFUSALS): RestError {
  const [status, code, message] = EMAIL_REFUSALS[outcome];
  return error(status, code, message, { faults: [{ field: "email", message }] });
}

/** Adds the challenge, which completes the login together with a code. */
export const challenged = (problem: RestProblem, challenge: string) =>
  new RestError({ ...problem, members: { challenge } });

/** For a login whose password is right. */
export const wrongCodeAtLogin = () =>
  error(401, "AUTH_REQUIRED", "the code is wrong, or was used before: enter the code that the app shows now", {
    faults: [{ field: "code", message: "wrong code" }],
  });

/** For a signed-in user. */
export const wrongCode = () =>
  error(400, "VALIDATION_ERROR", "the code is wrong: enter the code that the app shows now", {
    faults: [{ field: "code", message: "wrong code" }],
  });

/** The factor was encrypted with a key that the service no longer has. */
export const factorUnreadable = () =>
  error(503, "INTERNAL_ERROR", "the second factor cannot be checked: MFA_KEY has changed since it was enabled", {
    hint: "Ask the operator to restore the key, or to reset the factor.",
  });

export const factorEnabled = () =>
  error(409, "RESOURCE_CONFLICT", "a second factor is already enabled: disable it first at POST /api/mfa/disable");

export const noFactorEnabled = () => error(409, "RESOURCE_CONFLICT", "no second factor is enabled");

export const noFactorPending = () =>
  error(
    400,
    "BAD_REQUEST",
    "no second factor is pending, or its 10 minutes have passed: begin with POST /api/mfa/enable",
  );

export const tokenRequired = () =>
  error(401, "AUTH_REQUIRED", "an access token is required: send it as Authorization: Bearer");

export const noRefreshToken = () =>
  error(400, "VALIDATION_ERROR", "refreshToken must be a refresh token, not another token", {
    faults: [{ field: "refreshToken", message: "must be a refresh token" }],
  });

export const invalidRefreshToken = () => error(401, "INVALID_TOKEN", "the refresh token is not valid: sign in again");

export const expiredRefreshToken = () => error(401, "TOKEN_EXPIRED", "the refresh token has expired: sign in again");

/** Does not give the reason, because the token may be stolen. */
export const revokedRefreshToken = () =>
  error(401, "VERIFICATION_FAILED", "the refresh token has been revoked: sign in again");

export const invalidKeyId = (text: string) =>
  error(400, "INVALID_ID", `"${text.slice(0, 50)}" is not a valid key id: it must be a UUID`, {
    faults: [{ field: "id", message: "must be a UUID" }],
  });

export const noSuchKey = () => error(404, "RESOURCE_NOT_FOUND", "there is no key with this id");

export const tooManyKeys = (max: number) =>
  error(409, "RESOURCE_CONFLICT", `the user has ${max} keys already: delete one first`);

/** Rejects with RestError for an error that a trigger of the DBA has raised, as a change at `/users` does. */
export function refuseRaised(raised: unknown): never {
  const problem = problemOf(raised, { constraintMessages: new Map(), anonymous: false, refused: null });
  throw problem === null ? raised : new RestError(restProblemOf(problem), { cause: raised });
}
