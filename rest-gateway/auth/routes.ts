import { queryParameter } from "../openapi/schema-parts.ts";
import { ADMIN_ROUTES } from "./admin/routes.ts";
import {
  accepted,
  BackupCodesAnswer,
  CsrfTokenAnswer,
  created,
  EmailAnswer,
  EnrolmentAnswer,
  JwksAnswer,
  KeyAnswer,
  KeyListAnswer,
  MessageAnswer,
  NewKeyAnswer,
  noContent,
  ok,
  SessionAnswer,
  SessionListAnswer,
  SessionLoginAnswer,
  SignedInAnswer,
  TokenPairAnswer,
  UserAnswer,
  withCookie,
} from "./answers.ts";
import {
  CodeBody,
  ConfirmationBody,
  EmailBody,
  EnrolmentBody,
  KeyBody,
  LOGIN_BODIES,
  LogoutBody,
  PasswordBody,
  RefreshBody,
} from "./bodies.ts";
import { FEDERATED_ROUTES } from "./federated/routes.ts";
import { createKey, deleteKey, listKeys, readKey } from "./keys.ts";
import { changeEmail, changePassword } from "./login-changes.ts";
import { MAIL_ROUTES } from "./mail/routes.ts";
import { disableFactor, enableFactor, renewBackupCodes, verifyFactor } from "./mfa.ts";
import { deleteSession, listSessions, logout, readUser } from "./own-sessions.ts";
import { PAGE_ROUTES } from "./pages/routes.ts";
import { type Routes, route } from "./route.ts";
import { readCsrfToken, readSession, sessionLogin, sessionLogout } from "./sessions.ts";
import { login, refresh, sendPublicKeys } from "./tokens.ts";

const CODE = queryParameter("code", "The code that the app shows; it may be sent in the body instead.");

/** Every route of authentication but those of parts. The router serves them, and the OpenAPI document describes them. */
export const ROUTES: Routes = {
  "POST /auth/login": route({
    operationId: "login",
    summary: "Sign in for tokens",
    description:
      "Send the username or e-mail and the password. If a second factor is enabled and no `code` is sent, the response is 401 `MFA_REQUIRED` with a `challenge`. To complete the login, send the challenge and the code, or the credentials again with the code. A passkey may take the place of the code, and alone it signs in without a password.",
    credential: "none",
    handlerBody: LOGIN_BODIES,
    answer: ok("Tokens, and the user.", SignedInAnswer),
    problems: [401, 403],
    handle: login,
  }),
  "POST /auth/refresh": route({
    operationId: "refresh",
    summary: "Renew tokens",
    description:
      "A refresh token is valid for one request: do not send it in parallel. If it is used again, all tokens of its sign-in are revoked.",
    credential: "none",
    body: RefreshBody,
    answer: ok("The new tokens.", TokenPairAnswer),
    problems: [401],
    handle: refresh,
  }),
  "POST /auth/logout": route({
    operationId: "logout",
    summary: "Sign out",
    description:
      "Requires a Bearer token or a session cookie. Ends all sessions of the user, or with `scope` the one of the caller (`local`) or all `others`; API keys remain valid.",
    credential: "signIn",
    handlerBody: [LogoutBody],
    isBodyOptional: true,
    answer: withCookie(ok("Signed out.", MessageAnswer)),
    handle: logout,
  }),
  "GET /auth/me": route({
    operationId: "readSignedInUser",
    summary: "Read the signed-in user",
    description: "With any credential of a user. `session` is the session of the request.",
    credential: "user",
    answer: withCookie(ok("The signed-in user.", UserAnswer)),
    handle: readUser,
  }),
  "GET /auth/sessions": route({
    operationId: "listSessions",
    summary: "List the caller's sessions",
    description: "Those that were used last come first. Not allowed with an API key.",
    credential: "account",
    answer: ok("All sessions that have not ended.", SessionListAnswer),
    handle: listSessions,
  }),
  "DELETE /auth/sessions/{sessionId}": route({
    operationId: "deleteSession",
    summary: "End a session",
    description: "Its tokens or its cookie are rejected from then on. Not allowed with an API key.",
    credential: "account",
    answer: noContent("Ended."),
    handle: deleteSession,
  }),
  "POST /auth/register": route({
    operationId: "register",
    summary: "Sign up",
    description:
      "Creates a user with an account, and signs the user in. With `EMAIL_CONFIRM=required` the response is 202 for every e-mail, and the user signs in after the e-mail is confirmed. With `SIGNUP=off` it is 403.",
    credential: "none",
    handlerBody: ["Registration"],
    answer: created("Signed up. `Location` is the path of the user.", "Registered"),
    otherAnswer: accepted("An e-mail to confirm the address is on its way.", MessageAnswer),
    problems: [403, 409],
    handle: async (call) => (await call.auth.signUp(call)) as object,
  }),
  "POST /auth/email": route({
    operationId: "changeEmail",
    summary: "Change the e-mail",
    description:
      "Changes the e-mail that the user signs in with, and the e-mail of the user. The previous one stays reserved for the account for `EMAIL_RESERVATION` seconds if it was confirmed. Unless `EMAIL_CONFIRM` is off, the link that the new address receives changes it, and the response is 202 for every address. Not allowed with an API key.",
    credential: "account",
    body: EmailBody,
    answer: ok("The e-mail is changed.", EmailAnswer),
    otherAnswer: accepted("An e-mail whose link changes the e-mail is on its way.", MessageAnswer),
    problems: [409],
    handle: async (call) => (await changeEmail(call)) as { email: string; message: string },
  }),
  "POST /auth/password": route({
    operationId: "changePassword",
    summary: "Change the password",
    description:
      "Ends all tokens and sessions of the user. Needs a `code` if a second factor is enabled. A caller with a token gets new tokens, a caller with a cookie a new cookie. Not allowed with an API key.",
    credential: "account",
    body: PasswordBody,
    answer: ok("The password is changed.", TokenPairAnswer, MessageAnswer),
    handle: changePassword,
  }),
  "GET /auth/keys": route({
    operationId: "listKeys",
    summary: "List the caller's keys",
    description: "Newest first. Not allowed with an API key.",
    credential: "account",
    answer: ok("All valid keys of the caller.", KeyListAnswer),
    handle: listKeys,
  }),
  "POST /auth/keys": route({
    operationId: "createKey",
    summary: "Create a key",
    description:
      "A client that sends the key in `X-API-Key` acts as its user. If the sign-in is older than `RECENT_SIGN_IN`, the response is 401 `PASSWORD_REQUIRED` unless `password` is sent, and `code` if a second factor is enabled. Not allowed with an API key.",
    credential: "account",
    body: KeyBody,
    answer: created("The key, which is shown only now.", NewKeyAnswer),
    problems: [409],
    handle: createKey,
  }),
  "GET /auth/keys/{keyId}": route({
    operationId: "readKey",
    summary: "Read a key",
    description: "Returns all but the key itself. Not allowed with an API key.",
    credential: "account",
    answer: ok("The key.", KeyAnswer),
    handle: readKey,
  }),
  "DELETE /auth/keys/{keyId}": route({
    operationId: "deleteKey",
    summary: "Revoke a key",
    description: "The key is rejected from then on. Not allowed with an API key.",
    credential: "account",
    answer: noContent("Revoked."),
    handle: deleteKey,
  }),
  "POST /api/auth/login": route({
    operationId: "sessionLogin",
    summary: "Sign in for a session",
    description: "Takes the body of `/auth/login` and sets a session cookie. Ends any other session of the user.",
    credential: "none",
    sameOrigin: true,
    handlerBody: LOGIN_BODIES,
    answer: withCookie(ok("Signed in.", SessionLoginAnswer)),
    problems: [401, 403],
    handle: sessionLogin,
  }),
  "POST /api/auth/logout": route({
    operationId: "sessionLogout",
    summary: "End the session",
    credential: "session",
    sameOrigin: true,
    answer: withCookie(ok("Signed out.", MessageAnswer)),
    handle: sessionLogout,
  }),
  "GET /api/auth/me": route({
    operationId: "readSession",
    summary: "Read the session",
    credential: "session",
    answer: withCookie(ok("The signed-in user.", SessionAnswer)),
    handle: readSession,
  }),
  "GET /csrf-token": route({
    operationId: "readCsrfToken",
    summary: "Get a CSRF token",
    description:
      "Changes that are authenticated by the cookie require it in `X-CSRF-Token`. It is valid as long as the session.",
    credential: "none",
    answer: ok("The token of the session.", CsrfTokenAnswer),
    problems: [401],
    handle: readCsrfToken,
  }),
  "POST /api/mfa/enable": route({
    operationId: "enableFactor",
    summary: "Start to enable a second factor",
    description:
      "Returns a secret for an authenticator app. Send its first code to `/api/mfa/verify` within 10 minutes. If the sign-in is older than `RECENT_SIGN_IN`, the response is 401 `PASSWORD_REQUIRED` unless the password is sent; otherwise the body is ignored.",
    credential: "account",
    handlerBody: [EnrolmentBody],
    isBodyOptional: true,
    answer: ok("The secret.", EnrolmentAnswer),
    problems: [409],
    handle: enableFactor,
  }),
  "POST /api/mfa/verify": route({
    operationId: "verifyFactor",
    summary: "Enable the second factor",
    description: "Ends all other sign-ins of the user. API keys remain valid.",
    parameters: [CODE],
    credential: "account",
    handlerBody: [CodeBody],
    isBodyOptional: true,
    answer: ok("The factor is enabled; the backup codes.", BackupCodesAnswer),
    handle: verifyFactor,
  }),
  "POST /api/mfa/backup-codes": route({
    operationId: "renewBackupCodes",
    summary: "Renew the backup codes",
    description: "Needs the password and a code. The old backup codes become invalid.",
    credential: "account",
    body: ConfirmationBody,
    answer: ok("The new codes.", BackupCodesAnswer),
    problems: [409],
    handle: renewBackupCodes,
  }),
  "POST /api/mfa/disable": route({
    operationId: "disableFactor",
    summary: "Disable the second factor",
    description: "Needs the password and a code.",
    credential: "account",
    body: ConfirmationBody,
    answer: ok("The factor is disabled.", MessageAnswer),
    problems: [409],
    handle: disableFactor,
  }),
  "GET /.well-known/jwks.json": route({
    operationId: "readPublicKeys",
    summary: "Read the public keys",
    description: "The keys that verify access tokens signed with RS256. Empty if tokens are signed with a secret.",
    credential: "none",
    answer: ok("A set of JSON Web Keys.", JwksAnswer),
    handle: sendPublicKeys,
  }),
  ...ADMIN_ROUTES,
  ...MAIL_ROUTES,
  ...PAGE_ROUTES,
  ...FEDERATED_ROUTES,
};
