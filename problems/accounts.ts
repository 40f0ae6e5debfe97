import { COMMAND } from "../config/command.ts";

/** What the endpoints of accounts refuse. */
export const ACCOUNTS = {
  "no session to end": [401, "AUTH_REQUIRED", "login required: sign in at POST /api/auth/login for a session"],
  "signed in by key": [
    403,
    "PERMISSION_DENIED",
    "a key cannot manage the account: sign in with a token, a session or the password",
  ],
  /** 403, not 401: the caller is signed in. */
  "password not confirmed": [403, "PERMISSION_DENIED", "wrong password"],
  /** The sign-in is older than ten minutes, so it may be that of a thief. */
  "password required": [
    401,
    "PASSWORD_REQUIRED",
    "the sign-in is older than {seconds} seconds: sign in again, or send the password",
  ],
  /** For changes that no password confirms. */
  "recent sign-in required": [401, "PASSWORD_REQUIRED", "the sign-in is older than {seconds} seconds: sign in again"],
  "email taken": [409, "RESOURCE_CONFLICT", "email already registered"],
  "email malformed": [400, "VALIDATION_ERROR", "email must be a valid address"],
  "email changed too often": [
    409,
    "RESOURCE_CONFLICT",
    "the e-mail was changed 20 times, and the earlier ones are still reserved: go back to one of them, or try again later",
  ],
  "not one user": [400, "VALIDATION_ERROR", "the body must be the JSON object of one user"],
  "no accounts by console": [
    403,
    "PERMISSION_DENIED",
    `the console creates no accounts: leave out the password, or use ${COMMAND} user`,
  ],

  // The second factor.
  /** For a login whose password is right. */
  "wrong code at login": [
    401,
    "AUTH_REQUIRED",
    "the code is wrong, or was used before: enter the code that the app shows now",
  ],
  /** For a signed-in user. */
  "wrong code": [400, "VALIDATION_ERROR", "the code is wrong: enter the code that the app shows now"],
  /** The factor was encrypted with a key that the service no longer has. */
  "factor unreadable": [
    503,
    "INTERNAL_ERROR",
    "the second factor cannot be checked: MFA_KEY has changed since it was enabled",
  ],
  "factor enabled": [
    409,
    "RESOURCE_CONFLICT",
    "a second factor is already enabled: disable it first at POST /api/mfa/disable",
  ],
  "no factor enabled": [409, "RESOURCE_CONFLICT", "no second factor is enabled"],
  "no factor pending": [
    400,
    "BAD_REQUEST",
    "no second factor is pending, or its 10 minutes have passed: begin with POST /api/mfa/enable",
  ],

  // Passkeys.
  "passkeys off": [
    503,
    "NOT_CONFIGURED",
    "browsers allow passkeys only with https and a domain name, or on localhost: set BASE_URL, which is {url}",
  ],
  "passkey origin": [
    403,
    "PERMISSION_DENIED",
    "pages of {origin} may not use the passkeys of this service: open it under BASE_URL, or add the origin to CORS_ORIGINS",
  ],
  /** For a login. Does not give the reason. */
  "passkey refused at login": [
    401,
    "AUTH_REQUIRED",
    "the passkey was not accepted: try again, or sign in in another way",
  ],
  /** For a login whose passkey is valid, with EMAIL_CONFIRM=required. */
  "passkey of an unconfirmed account": [
    401,
    "AUTH_REQUIRED",
    "the e-mail of the account is not confirmed: open the link in the e-mail, or request another at POST /auth/confirm/send",
  ],
  /** For a signed-in user. */
  "passkey refused": [400, "VALIDATION_ERROR", "the passkey was not accepted: try again with one of this account"],
  "passkey not valid": [400, "VALIDATION_ERROR", "the passkey cannot be added: {why}"],
  "passkey challenge not valid": [400, "VALIDATION_ERROR", "the passkey was not accepted: its challenge {why}"],
  "passkey taken": [409, "RESOURCE_CONFLICT", "this passkey is registered already"],
  "too many passkeys": [409, "RESOURCE_CONFLICT", "the user has {max} passkeys already: delete one first"],
  "no such passkey": [404, "RESOURCE_NOT_FOUND", "there is no passkey with this id"],

  // Sign-up.
  "sign-up closed": [403, "PERMISSION_DENIED", "sign-up is closed: ask the operator of this service for an account"],
  "no resource with accounts": [
    404,
    "RESOURCE_NOT_FOUND",
    "no resource of this application has accounts: sign up at POST /auth/v1/signup, or describe the users with hasAccount: true",
  ],
  /** With EMAIL_CONFIRM=required, in place of "wrong password". */
  "wrong password or not confirmed": [
    401,
    "AUTH_REQUIRED",
    "wrong username or password, or the e-mail is not confirmed: open the link in the e-mail, or request another at POST /auth/confirm/send",
  ],

  // E-mails.
  "no mail": [
    503,
    "NOT_CONFIGURED",
    "this service sends no e-mails: its operator has not set MAIL_URL, or has left out the part mail",
  ],
  "too many mails": [429, "RATE_LIMITED", "too many e-mails were requested: try again later"],
  "wrong mail code": [
    401,
    "AUTH_REQUIRED",
    "the code is wrong, expired or used, or there were too many wrong ones: request a new e-mail",
  ],
  "invalid link": [401, "INVALID_TOKEN", "the link is not valid: it is unknown, expired or used. Request a new e-mail"],

  // Tokens and keys.
  "token required": [
    401,
    "AUTH_REQUIRED",
    "a sign-in is required: send an access token as Authorization: Bearer, or the cookie of a session",
  ],
  "no refresh token": [400, "VALIDATION_ERROR", "refreshToken must be a refresh token, not another token"],
  "invalid refresh token": [401, "INVALID_TOKEN", "the refresh token is not valid: sign in again"],
  "expired refresh token": [401, "TOKEN_EXPIRED", "the refresh token has expired: sign in again"],
  /** Does not give the reason, because the token may be stolen. */
  "revoked refresh token": [401, "VERIFICATION_FAILED", "the refresh token has been revoked: sign in again"],
  "refresh token reused": [401, "VERIFICATION_FAILED", "the refresh token has been revoked: sign in again"],
  "no such account": [404, "RESOURCE_NOT_FOUND", "no user with this id has an account"],
  "own account": [
    409,
    "RESOURCE_CONFLICT",
    "you cannot disable, demote or delete your own account: ask another administrator",
  ],
  "no such session": [404, "RESOURCE_NOT_FOUND", "there is no session with this id"],
  "no such key": [404, "RESOURCE_NOT_FOUND", "there is no key with this id"],
  "too many keys": [409, "RESOURCE_CONFLICT", "the user has {max} keys already: delete one first"],

  // Identities at a provider.
  "invalid sign-in code": [
    401,
    "INVALID_TOKEN",
    "the sign-in code is not valid: it is unknown, expired or used, or the verifier is wrong",
  ],
  "no such identity": [404, "RESOURCE_NOT_FOUND", "there is no identity with this id"],
  "last way to sign in": [
    409,
    "RESOURCE_CONFLICT",
    "this identity is the last way to sign in: set a password or link another first",
  ],
  "identity taken": [409, "RESOURCE_CONFLICT", "this identity is linked to another account"],
  "too many identities": [409, "RESOURCE_CONFLICT", "the account has {max} identities already: unlink one first"],

  // A sign-in at a provider that fails. The texts say nothing that would help an attacker.
  "unknown provider": [404, "RESOURCE_NOT_FOUND", "there is no such identity provider"],
  cancelled: [403, "PERMISSION_DENIED", "the sign-in was cancelled, or the provider did not allow it"],
  /** Also for a response to no request of this service, and for one that was used before. */
  expired: [401, "INVALID_TOKEN", "the sign-in has expired, was completed before, or began in another browser"],
  "not verified": [401, "VERIFICATION_FAILED", "the response of the provider could not be verified"],
  unavailable: [503, "INTERNAL_ERROR", "the identity provider does not respond as expected"],
  "sign-up off": [403, "PERMISSION_DENIED", "this identity is not linked to an account"],
  "not admitted": [403, "PERMISSION_DENIED", "this identity may not sign in here"],
  "no e-mail": [403, "PERMISSION_DENIED", "the provider has not sent your e-mail, which a new account needs"],
  "e-mail taken": [409, "RESOURCE_CONFLICT", "another account has this e-mail"],
} as const;
