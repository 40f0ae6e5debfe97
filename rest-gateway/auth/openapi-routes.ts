import type { HeaderName, ProblemStatus } from "../openapi/conventions/responses.ts";
import type { Parameter, PathItem } from "../openapi/document.ts";
import { queryParameter } from "../openapi/schema-parts.ts";
import type { AuthSchema } from "./openapi.ts";

/** A route of authentication, as the API reference describes it. */
export type Route = {
  readonly path: string;
  readonly method: keyof PathItem;
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  /** The schemas of the request body, of which one must match. */
  readonly body?: readonly AuthSchema[];
  readonly isBodyOptional?: boolean;
  /** The schema of a form, in place of a JSON body. */
  readonly form?: AuthSchema;
  readonly success: Success;
  readonly otherSuccess?: Success;
  /** Statuses of errors, besides COMMON_FAILURES. */
  readonly failures: readonly ProblemStatus[];
  /** Allowed without credentials. */
  readonly isOpen?: true;
};

export type Success = {
  readonly status: 200 | 201 | 204 | 302 | 303;
  readonly about: string;
  /** The schemas of the response body, of which one matches; empty for a response without a body. */
  readonly body: readonly AuthSchema[];
  /** The media type that the response has instead of JSON, or may have as an alternative to JSON. */
  readonly text?: "text/html" | "application/samlmetadata+xml";
  readonly headers?: readonly HeaderName[];
};

export const ok = (about: string, ...body: readonly AuthSchema[]): Success => ({ status: 200, about, body });
export const withCookie = (success: Success): Success => ({
  ...success,
  headers: [...(success.headers ?? []), "Set-Cookie"],
});
export const created = (about: string, ...body: readonly AuthSchema[]): Success => ({
  status: 201,
  about,
  body,
  headers: ["Location"],
});

/** Errors of a request body. */
export const OF_BODIES: readonly ProblemStatus[] = [400, 413, 415];

const KEY_ID: Parameter = {
  name: "keyId",
  in: "path",
  description: "The id of the key.",
  required: true,
  schema: { type: "string", format: "uuid" },
};

const CODE = queryParameter("code", "The code that the app shows; it may be sent in the body instead.");

export const ROUTES: readonly Route[] = [
  {
    path: "/auth/login",
    method: "post",
    operationId: "login",
    summary: "Sign in for tokens",
    description:
      "Send the username or e-mail and the password. If a second factor is enabled and no `code` is sent, the response is 401 `MFA_REQUIRED` with a `challenge`. To complete the login, send the challenge and the code, or the credentials again with the code.",
    body: ["Login", "LoginWithChallenge"],
    success: ok("Tokens.", "TokenPair"),
    failures: [401, 403, ...OF_BODIES],
    isOpen: true,
  },
  {
    path: "/auth/refresh",
    method: "post",
    operationId: "refresh",
    summary: "Renew tokens",
    description:
      "A refresh token is valid for one request: do not send it in parallel. If it is used again, all tokens of its sign-in are revoked.",
    body: ["Refresh"],
    success: ok("The new tokens.", "TokenPair"),
    failures: [401, ...OF_BODIES],
    isOpen: true,
  },
  {
    path: "/auth/logout",
    method: "post",
    operationId: "logout",
    summary: "Sign out everywhere",
    description: "Requires a Bearer token. Revokes all tokens of the user and ends the session; API keys remain valid.",
    success: ok("Signed out.", "Message"),
    failures: [401, 403],
  },
  {
    path: "/auth/register",
    method: "post",
    operationId: "register",
    summary: "Sign up",
    description: "Creates a user with an account, and signs the user in.",
    body: ["Registration"],
    success: created("Signed up. `Location` is the path of the user.", "Registered"),
    failures: [409, ...OF_BODIES],
    isOpen: true,
  },
  {
    path: "/auth/email",
    method: "post",
    operationId: "changeEmail",
    summary: "Change the e-mail",
    description:
      "Changes the e-mail that the user signs in with, and the e-mail of the user. The previous one stays reserved for the account for `EMAIL_RESERVATION` seconds. Not allowed with an API key.",
    body: ["EmailChange"],
    success: ok("The e-mail is changed.", "ChangedEmail"),
    failures: [401, 403, 409, ...OF_BODIES],
  },
  {
    path: "/auth/password",
    method: "post",
    operationId: "changePassword",
    summary: "Change the password",
    description:
      "Ends all tokens and sessions of the user. Needs a `code` if a second factor is enabled. A caller with a token gets new tokens, a caller with a cookie a new cookie. Not allowed with an API key.",
    body: ["PasswordChange"],
    success: ok("The password is changed.", "TokenPair", "Message"),
    failures: [401, 403, ...OF_BODIES],
  },
  {
    path: "/auth/keys",
    method: "get",
    operationId: "listKeys",
    summary: "List the caller's keys",
    description: "Newest first. Not allowed with an API key.",
    success: ok("All valid keys of the caller.", "KeyList"),
    failures: [401, 403],
  },
  {
    path: "/auth/keys",
    method: "post",
    operationId: "createKey",
    summary: "Create a key",
    description:
      "A client that sends the key in `X-API-Key` acts as its user. If the sign-in is older than `RECENT_SIGN_IN`, the response is 401 `PASSWORD_REQUIRED` unless `password` is sent, and `code` if a second factor is enabled. Not allowed with an API key.",
    body: ["KeyInput"],
    success: created("The key, which is shown only now.", "NewKey"),
    failures: [401, 403, 409, ...OF_BODIES],
  },
  {
    path: "/auth/keys/{keyId}",
    method: "get",
    operationId: "readKey",
    summary: "Read a key",
    description: "Returns all but the key itself. Not allowed with an API key.",
    parameters: [KEY_ID],
    success: ok("The key.", "Key"),
    failures: [400, 401, 403, 404],
  },
  {
    path: "/auth/keys/{keyId}",
    method: "delete",
    operationId: "deleteKey",
    summary: "Revoke a key",
    description: "The key is rejected from then on. Not allowed with an API key.",
    parameters: [KEY_ID],
    success: { status: 204, about: "Revoked.", body: [] },
    failures: [400, 401, 403, 404],
  },
  {
    path: "/api/auth/login",
    method: "post",
    operationId: "sessionLogin",
    summary: "Sign in for a session",
    description: "Takes the body of `/auth/login` and sets a session cookie. Ends any other session of the user.",
    body: ["Login", "LoginWithChallenge"],
    success: withCookie(ok("Signed in.", "SessionLogin")),
    failures: [401, 403, ...OF_BODIES],
    isOpen: true,
  },
  {
    path: "/api/auth/logout",
    method: "post",
    operationId: "sessionLogout",
    summary: "End the session",
    success: withCookie(ok("Signed out.", "Message")),
    failures: [401, 403],
  },
  {
    path: "/api/auth/me",
    method: "get",
    operationId: "readSession",
    summary: "Read the session",
    success: withCookie(ok("The signed-in user.", "Session")),
    failures: [401, 403],
  },
  {
    path: "/csrf-token",
    method: "get",
    operationId: "readCsrfToken",
    summary: "Get a CSRF token",
    description:
      "Changes that are authenticated by the cookie require it in `X-CSRF-Token`. It is valid as long as the session.",
    success: ok("The token of the session.", "CsrfToken"),
    failures: [401],
    isOpen: true,
  },
  {
    path: "/api/mfa/enable",
    method: "post",
    operationId: "enableFactor",
    summary: "Start to enable a second factor",
    description:
      "Returns a secret for an authenticator app. Send its first code to `/api/mfa/verify` within 10 minutes. If the sign-in is older than `RECENT_SIGN_IN`, the response is 401 `PASSWORD_REQUIRED` unless the password is sent; otherwise the body is ignored.",
    body: ["Enrolment"],
    isBodyOptional: true,
    success: ok("The secret.", "FactorEnrolment"),
    failures: [401, 403, 409, ...OF_BODIES],
  },
  {
    path: "/api/mfa/verify",
    method: "post",
    operationId: "verifyFactor",
    summary: "Enable the second factor",
    description: "Ends all other sign-ins of the user. API keys remain valid.",
    parameters: [CODE],
    body: ["FactorCode"],
    isBodyOptional: true,
    success: ok("The factor is enabled; the backup codes.", "BackupCodes"),
    failures: [401, 403, ...OF_BODIES],
  },
  {
    path: "/api/mfa/backup-codes",
    method: "post",
    operationId: "renewBackupCodes",
    summary: "Renew the backup codes",
    description: "Needs the password and a code. The old backup codes become invalid.",
    body: ["Confirmation"],
    success: ok("The new codes.", "BackupCodes"),
    failures: [401, 403, 409, ...OF_BODIES],
  },
  {
    path: "/api/mfa/disable",
    method: "post",
    operationId: "disableFactor",
    summary: "Disable the second factor",
    description: "Needs the password and a code.",
    body: ["Confirmation"],
    success: ok("The factor is disabled.", "Message"),
    failures: [401, 403, 409, ...OF_BODIES],
  },
  {
    path: "/.well-known/jwks.json",
    method: "get",
    operationId: "readPublicKeys",
    summary: "Read the public keys",
    description: "The keys that verify access tokens signed with RS256. Empty if tokens are signed with a secret.",
    success: ok("A set of JSON Web Keys.", "Jwks"),
    failures: [],
    isOpen: true,
  },
];
