import { type HeaderName, headerReferences, type ProblemStatus, problems } from "../openapi/convention-responses.ts";
import type { Content, Operation, Parameter, PathItem, Response } from "../openapi/document.ts";
import { queryParameter, refer } from "../openapi/schema-parts.ts";
import type { AuthSchema } from "./responses.ts";

export const AUTH_TAG = { name: "authentication", description: "Signing in, and what one signs in with." };

/**
 * The routes of authentication. They are none of a version: they are at the root of the service, whose address `server` is
 * where that of the document is another one.
 */
export function authPaths(server: string | null): Readonly<Record<string, PathItem>> {
  const servers = server === null ? {} : { servers: [{ url: server }] };
  const paths: Record<string, PathItem> = {};
  for (const route of ROUTES)
    paths[route.path] = { ...paths[route.path], [route.method]: { ...operation(route), ...servers } };
  return paths;
}

type Route = {
  readonly path: string;
  readonly method: keyof PathItem;
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  /** One of them. */
  readonly body?: readonly AuthSchema[];
  readonly isBodyOptional?: boolean;
  readonly success: Success;
  /** Besides those that no route is safe from. */
  readonly failures: readonly ProblemStatus[];
  /** Nobody needs to be signed in. */
  readonly isOpen?: true;
};

type Success = {
  readonly status: 200 | 201 | 204;
  readonly about: string;
  /** One of them; none without a body. */
  readonly body: readonly AuthSchema[];
  readonly headers?: readonly HeaderName[];
};

const ok = (about: string, ...body: readonly AuthSchema[]): Success => ({ status: 200, about, body });
const withCookie = (success: Success): Success => ({ ...success, headers: ["Set-Cookie"] });
const created = (about: string, ...body: readonly AuthSchema[]): Success => ({
  status: 201,
  about,
  body,
  headers: ["Location"],
});

/** What may be wrong with a body. */
const OF_BODIES: readonly ProblemStatus[] = [400, 413, 415];

const KEY_ID: Parameter = {
  name: "keyId",
  in: "path",
  description: "The id of the key.",
  required: true,
  schema: { type: "string", format: "uuid" },
};

const CODE = queryParameter("code", "The code that the app shows; the body may have it instead.");

const ROUTES: readonly Route[] = [
  {
    path: "/auth/login",
    method: "post",
    operationId: "login",
    summary: "Sign in for tokens",
    description:
      "With username or e-mail and password. Where a second factor is enabled, 401 `MFA_REQUIRED` without a `code`: its `challenge` with the code, or all of it again, completes the login.",
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
      "A refresh token is good once: send it once, and not in parallel. One that comes again ends all that came of its sign-in.",
    body: ["Refresh"],
    success: ok("The next tokens.", "TokenPair"),
    failures: [401, ...OF_BODIES],
    isOpen: true,
  },
  {
    path: "/auth/logout",
    method: "post",
    operationId: "logout",
    summary: "Sign out everywhere",
    description: "Ends all tokens and the session of the user; keys go on. With a Bearer token.",
    success: ok("Signed out.", "Message"),
    failures: [401, 403],
  },
  {
    path: "/auth/register",
    method: "post",
    operationId: "register",
    summary: "Sign up",
    description: "Makes a user and his account, and signs him in.",
    body: ["Registration"],
    success: created("Signed up; `Location` is that of the user.", "Registered"),
    failures: [409, ...OF_BODIES],
    isOpen: true,
  },
  {
    path: "/auth/password",
    method: "post",
    operationId: "changePassword",
    summary: "Change the password",
    description:
      "Ends all tokens and sessions of the user. Who came with a token gets new ones, who came with a cookie another one. Not with a key.",
    body: ["PasswordChange"],
    success: ok("Changed.", "TokenPair", "Message"),
    failures: [401, 403, ...OF_BODIES],
  },
  {
    path: "/auth/keys",
    method: "get",
    operationId: "listKeys",
    summary: "List the caller's keys",
    description: "The newest first. Not with a key.",
    success: ok("All of them.", "KeyList"),
    failures: [401, 403],
  },
  {
    path: "/auth/keys",
    method: "post",
    operationId: "createKey",
    summary: "Make a key",
    description: "It stands for the caller, in `X-API-Key`. Not with a key.",
    body: ["KeyInput"],
    success: created("The key, which is shown only now.", "NewKey"),
    failures: [401, 403, 409, ...OF_BODIES],
  },
  {
    path: "/auth/keys/{keyId}",
    method: "get",
    operationId: "readKey",
    summary: "Read what a key is",
    description: "Not with a key.",
    parameters: [KEY_ID],
    success: ok("What it is.", "Key"),
    failures: [400, 401, 403, 404],
  },
  {
    path: "/auth/keys/{keyId}",
    method: "delete",
    operationId: "deleteKey",
    summary: "Revoke a key",
    description: "It is refused from then on. Not with a key.",
    parameters: [KEY_ID],
    success: { status: 204, about: "Revoked.", body: [] },
    failures: [400, 401, 403, 404],
  },
  {
    path: "/api/auth/login",
    method: "post",
    operationId: "sessionLogin",
    summary: "Sign in for a session",
    description: "As at `/auth/login`, for a cookie. It ends the session that the user has elsewhere.",
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
    success: withCookie(ok("Who is signed in.", "Session")),
    failures: [401, 403],
  },
  {
    path: "/csrf-token",
    method: "get",
    operationId: "readCsrfToken",
    summary: "Get a token for changes",
    description: "Changes that the cookie signs in for need it, in `X-CSRF-Token`. It is good as long as the session.",
    success: ok("The token of the session.", "CsrfToken"),
    failures: [401],
    isOpen: true,
  },
  {
    path: "/api/mfa/enable",
    method: "post",
    operationId: "enableFactor",
    summary: "Begin with a second factor",
    description: "Shows the secret for an authenticator app. Its first code, within 10 minutes, enables the factor.",
    success: ok("The secret.", "FactorEnrolment"),
    failures: [401, 403, 409],
  },
  {
    path: "/api/mfa/verify",
    method: "post",
    operationId: "verifyFactor",
    summary: "Enable the second factor",
    parameters: [CODE],
    body: ["FactorCode"],
    isBodyOptional: true,
    success: ok("Enabled, with the backup codes.", "BackupCodes"),
    failures: [401, 403, ...OF_BODIES],
  },
  {
    path: "/api/mfa/backup-codes",
    method: "post",
    operationId: "renewBackupCodes",
    summary: "Renew the backup codes",
    description: "The old ones are worth nothing then.",
    body: ["Confirmation"],
    success: ok("The new codes.", "BackupCodes"),
    failures: [401, 403, 409, ...OF_BODIES],
  },
  {
    path: "/api/mfa/disable",
    method: "post",
    operationId: "disableFactor",
    summary: "Disable the second factor",
    body: ["Confirmation"],
    success: ok("Disabled.", "Message"),
    failures: [401, 403, 409, ...OF_BODIES],
  },
  {
    path: "/.well-known/jwks.json",
    method: "get",
    operationId: "readPublicKeys",
    summary: "Read the public keys",
    description:
      "What access tokens are verified with that are signed by RS256; none where they are signed by a secret.",
    success: ok("A set of JSON Web Keys.", "Jwks"),
    failures: [],
    isOpen: true,
  },
];

/** What no route is safe from. */
const ALWAYS: readonly ProblemStatus[] = [429, 503, 504];

function operation({
  operationId,
  summary,
  description,
  parameters = [],
  success,
  failures,
  ...route
}: Route): Operation {
  return {
    operationId,
    tags: [AUTH_TAG.name],
    summary,
    ...(description !== undefined && { description }),
    parameters,
    ...(route.body && { requestBody: { required: !route.isBodyOptional, content: contentOf(route.body) } }),
    responses: { [success.status]: answered(success), ...problems(...failures, ...ALWAYS) },
    ...(route.isOpen && { security: [] }),
  };
}

const answered = ({ about, body, headers = [] }: Success): Response => ({
  description: about,
  headers: headerReferences("X-Request-Id", "X-RateLimit-Limit", "X-RateLimit-Remaining", ...headers),
  ...(body.length > 0 && { content: contentOf(body) }),
});

function contentOf(names: readonly AuthSchema[]): Content {
  const schemas = names.map((name) => refer("schemas", name));
  return { "application/json": { schema: schemas.length === 1 ? schemas[0]! : { oneOf: schemas } } };
}
