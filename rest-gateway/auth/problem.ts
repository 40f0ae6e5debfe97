import { restError as error, type Fault, RestError, type RestProblem } from "../conventions/problem.ts";

export const notAnObject = () => error(400, "VALIDATION_ERROR", "the body must be a JSON object");

/** What is wrong with fields of a body, all at once. */
export const badFields = (faults: readonly Fault[], isMissing = false) =>
  error(400, isMissing ? "MISSING_FIELD" : "VALIDATION_ERROR", faults.map(({ message }) => message).join("; "), {
    faults,
  });

export const missingField = (field: string, message = `${field} is required`) => badFields([{ field, message }], true);

export const sessionRequired = () =>
  error(401, "AUTH_REQUIRED", "login required: sign in at POST /api/auth/login for a session");

export const notByKey = () =>
  error(
    403,
    "PERMISSION_DENIED",
    "a key may not look after the account: sign in with a token, a session or the password",
  );

/** Not 401: whoever asks is signed in, and stays so. */
export const wrongPassword = () => error(403, "PERMISSION_DENIED", "wrong password");

/** A login that goes on with a code and the challenge. */
export const challenged = (problem: RestProblem, challenge: string) =>
  new RestError({ ...problem, members: { challenge } });

/** At a login whose password was right, which an answer without a code tells too. */
export const wrongCodeAtLogin = () =>
  error(401, "AUTH_REQUIRED", "the code is wrong, or was used before: enter the one that the app shows now", {
    faults: [{ field: "code", message: "wrong code" }],
  });

/** From who is signed in. */
export const wrongCode = () =>
  error(400, "VALIDATION_ERROR", "the code is wrong: enter the one that the app shows now", {
    faults: [{ field: "code", message: "wrong code" }],
  });

/** The service has another key than the one that the factor was enrolled with. */
export const factorUnreadable = () =>
  error(
    503,
    "INTERNAL_ERROR",
    "the second factor can't be checked: the service has another MFA_KEY than when it was enabled",
    { hint: "Ask the operator to restore the key, or to reset the factor." },
  );

export const factorEnabled = () =>
  error(409, "RESOURCE_CONFLICT", "a second factor is enabled already: disable it first, at POST /api/mfa/disable");

export const noFactorEnabled = () => error(409, "RESOURCE_CONFLICT", "no second factor is enabled");

export const noFactorPending = () =>
  error(
    400,
    "BAD_REQUEST",
    "no second factor is being enabled, or its 10 minutes are over: begin with POST /api/mfa/enable",
  );

export const tokenRequired = () =>
  error(401, "AUTH_REQUIRED", "an access token is required: send it as Authorization: Bearer");

export const noRefreshToken = () =>
  error(400, "VALIDATION_ERROR", "refreshToken must be a refresh token, and this is another one", {
    faults: [{ field: "refreshToken", message: "must be a refresh token" }],
  });

export const invalidRefreshToken = () => error(401, "INVALID_TOKEN", "the refresh token is not valid: sign in again");

export const expiredRefreshToken = () => error(401, "TOKEN_EXPIRED", "the refresh token has expired: sign in again");

/** What it was revoked for is nobody's business who may have stolen it. */
export const revokedRefreshToken = () =>
  error(401, "VERIFICATION_FAILED", "the refresh token has been revoked: sign in again");

export const invalidKeyId = (text: string) =>
  error(400, "INVALID_ID", `"${text.slice(0, 50)}" is no id of keys: it must be a UUID`, {
    faults: [{ field: "id", message: "must be an id" }],
  });

export const noSuchKey = () => error(404, "RESOURCE_NOT_FOUND", "there is no key with this id");

export const tooManyKeys = (max: number) =>
  error(409, "RESOURCE_CONFLICT", `there are ${max} keys already: delete one first`);
