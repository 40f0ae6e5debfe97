/** Why credentials are refused. */
export const CREDENTIALS = {
  "no key": [401, "AUTH_REQUIRED", "an API key is required: send it in the header apikey or X-API-Key"],
  "bad key": [401, "INVALID_TOKEN", "the API key is not valid"],
  "expired key": [401, "TOKEN_EXPIRED", "the API key has expired"],
  "bad token": [401, "INVALID_TOKEN", "the access token is not valid: sign in again"],
  "expired token": [401, "TOKEN_EXPIRED", "the access token has expired: refresh it, or sign in again"],
  /** The token was issued by this service, but its account has changed since, is disabled or has been deleted. */
  "revoked token": [401, "VERIFICATION_FAILED", "the access token has been revoked: sign in again"],
  /** The issuer is one of JWT_ISSUERS. */
  "issuer unavailable": [
    503,
    "INTERNAL_ERROR",
    "the keys of the token's issuer cannot be read at the moment: try again",
  ],
  unreadable: [401, "VERIFICATION_FAILED", "the header Authorization must be Bearer or Basic, with credentials"],
  "wrong password": [401, "AUTH_REQUIRED", "wrong username or password"],
  "account disabled": [403, "PERMISSION_DENIED", "this account is disabled"],
  "second factor needed": [401, "MFA_REQUIRED", "the code of the second factor is required: send it as code"],
  /** A token of another issuer, for an account with a second factor. */
  "second factor elsewhere": [
    401,
    "MFA_REQUIRED",
    "the account has a second factor, which this token does not prove: sign in to this service",
  ],
  "expired challenge": [401, "TOKEN_EXPIRED", "the challenge has expired: sign in with the password again"],
  /** Also sent if the account has changed since the challenge was issued. */
  "invalid challenge": [401, "INVALID_TOKEN", "the challenge is not valid: sign in with the password again"],
  /** The password with which a signed-in user confirms a change. */
  "wrong old password": [403, "PERMISSION_DENIED", "the old password is wrong"],
  "no session": [401, "AUTH_REQUIRED", "the session has ended: sign in again"],
  /** Browsers send the cookie by themselves, so it does not prove who wrote the request. */
  "no csrf token": [
    403,
    "PERMISSION_DENIED",
    "a request with the session's cookie needs the header X-CSRF-Token: see GET /csrf-token",
  ],
  /** Browsers send the cookie to WebSockets too, and cannot send a CSRF token with it. */
  "foreign page": [
    403,
    "PERMISSION_DENIED",
    "a page of another origin may not do this: it must be served by this service, or be in CORS_ORIGINS",
  ],
  disagreement: [401, "VERIFICATION_FAILED", "all credentials must identify the same caller"],
  /** A managed server does not let a role bypass row-level security. */
  "service key off": [
    403,
    "PERMISSION_DENIED",
    "the service key is off: the role service_role does not bypass row-level security",
  ],
  "service key in browser": [403, "PERMISSION_DENIED", "the service key must not be used in browsers"],
  "anonymous off": [401, "AUTH_REQUIRED", "login required"],
  "too many attempts": [429, "RATE_LIMITED", "too many failed attempts: try again later"],
  "too many registrations": [
    429,
    "RATE_LIMITED",
    "too many accounts were created from this IP address: try again later",
  ],
  busy: [503, "INTERNAL_ERROR", "too many users are signing in at once: try again"],
} as const;

export type Refusal = keyof typeof CREDENTIALS;
