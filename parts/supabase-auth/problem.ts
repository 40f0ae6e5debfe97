import type { Destination } from "../../gate/pipeline/exchange.ts";
import type { HttpEnvelope } from "../../gate/pipeline/pipeline.ts";
import { sendText } from "../../gate/pipeline/response.ts";
import { headersOf, type Problem, problem } from "../../problems/problem.ts";
import { REASONS, type Reason } from "../../problems/reasons.ts";
import { refuseUser } from "../../rest-gateway/auth/problem.ts";

/** A request that breaks a rule, in the words of the wire. */
export const invalid = (message: string) => problem("invalid fields", { message });

/** Status and message are those of the reason unless they are given. */
type Row = readonly [code: string, status?: number, message?: string];

const NO_REFRESH_TOKEN: Row = ["refresh_token_not_found", 400, "Invalid Refresh Token: Refresh Token Not Found"];
const INVALID_KEY: Row = ["no_authorization", 401, "Invalid API key"];
const NO_JSON: Row = ["bad_json", 400, "Could not parse request body as JSON"];

/** The codes of the wire, by our reasons. Source: the server of Supabase Auth. */
const ROWS: Partial<Readonly<Record<Reason, Row>>> = {
  "wrong password": ["invalid_credentials", 400, "Invalid login credentials"],
  "account disabled": ["user_banned", 400, "User is banned"],
  "wrong password or not confirmed": ["invalid_credentials", 400, "Invalid login credentials, or email not confirmed"],
  "sign-up closed": ["signup_disabled", 422, "Signups not allowed for this instance"],
  "no such path": ["feature_disabled", 404, "This service does not have this feature"],
  "GraphQL only": ["feature_disabled"],
  "too many requests": ["over_request_rate_limit"],
  "too many attempts": ["over_request_rate_limit"],
  "too many registrations": ["over_request_rate_limit"],
  "bearer required": ["no_authorization"],
  "bad key": INVALID_KEY,
  "expired key": INVALID_KEY,
  "token without session": ["bad_jwt"],
  "session ended": ["session_not_found"],
  "revoked token": ["session_not_found", 403, REASONS["session ended"][2]],
  "invalid refresh token": NO_REFRESH_TOKEN,
  "no refresh token": NO_REFRESH_TOKEN,
  "revoked refresh token": NO_REFRESH_TOKEN,
  "refresh token reused": ["refresh_token_already_used", 400, "Invalid Refresh Token: Already Used"],
  "expired refresh token": ["session_expired", 400, "Invalid Refresh Token: Session Expired"],
  "invalid JSON": NO_JSON,
  "not an object": NO_JSON,
  "unsupported body": NO_JSON,
  "user exists": ["user_already_exists"],
  "email taken": ["email_exists", 422, "A user with this email address has already been registered"],
  "email malformed": ["validation_failed", 400, "Unable to validate email address: invalid format"],
  "weak password": ["weak_password"],
  "same password": ["same_password"],
  "current password wrong": ["current_password_invalid"],
  "reauthentication needed": ["reauthentication_needed"],
  "confirmation not proved": ["reauthentication_needed"],
  "nonce wrong": ["reauthentication_not_valid"],
  "second factor not proved": ["insufficient_aal"],
  "too many factors": ["too_many_enrolled_mfa_factors"],
  "factor name taken": ["mfa_factor_name_conflict"],
  "factor needs the other": ["insufficient_aal"],
  "factor removal needs a code": ["insufficient_aal"],
  "no such factor": ["mfa_factor_not_found"],
  "factor challenge expired": ["mfa_challenge_expired"],
  "passkey of an unconfirmed account": ["email_not_confirmed", 400, "Email not confirmed"],
  "passkey refused": ["mfa_verification_failed", 422],
  "passkey refused at login": ["webauthn_verification_failed", 400],
  "passkey not valid": ["webauthn_verification_failed", 400],
  "passkey challenge not valid": ["webauthn_challenge_not_found", 400],
  "passkey taken": ["webauthn_credential_exists", 422],
  "too many passkeys": ["too_many_passkeys", 422],
  "passkeys off": ["mfa_webauthn_enroll_not_enabled", 422],
  "no such passkey": ["webauthn_credential_not_found", 404],
  "factor code wrong": ["mfa_verification_failed"],
  "invalid sign-in code": ["flow_state_not_found", 404, "invalid flow state, no valid flow state found"],
  "identity taken": ["identity_already_exists", 422, "Identity is already linked to another user"],
  "too many identities": ["conflict"],
  "provider off": ["provider_disabled"],
  "SAML off": ["saml_provider_disabled"],
  "no such SAML provider": ["sso_provider_not_found"],
  "link expired": ["flow_state_not_found"],
  "link from elsewhere": ["bad_oauth_state"],
  "no such identity": ["identity_not_found", 422],
  "last way to sign in": ["single_identity_not_deletable", 422],
  cancelled: ["bad_oauth_callback"],
  expired: ["bad_oauth_state"],
  "not verified": ["bad_oauth_callback"],
  unavailable: ["unexpected_failure", 500],
  "sign-up off": ["signup_disabled"],
  "not admitted": ["signup_disabled"],
  "no e-mail": ["email_address_invalid"],
  "e-mail taken": ["email_exists", 422],
  "mail token invalid": ["otp_expired"],
  "invalid link": ["otp_expired", 403, "Email link is invalid or has expired"],
  "no mail": ["email_provider_disabled", 422],
  "too many mails": ["over_email_send_rate_limit"],
  "no administrator": ["not_admin"],
  "service key in browser": ["not_admin"],
  "service key off": ["not_admin"],
  "no such user": ["user_not_found"],
  "metadata of administrators": ["not_admin"],
  "phones off": ["phone_provider_disabled"],
  "anonymous users off": ["anonymous_provider_disabled"],
  "anonymous user": ["no_authorization"],
};

/** The codes of other reasons, by status. */
const BY_STATUS: Readonly<Record<number, string>> = {
  409: "conflict",
  413: "request_entity_too_large",
  429: "over_request_rate_limit",
  500: "unexpected_failure",
  503: "unexpected_failure",
  504: "request_timeout",
};

/** The version of the wire from which `code` is a text. */
const VERSION = "2024-01-01";
const VERSION_HEADER = "X-Supabase-Api-Version";

/** What a problem is on the wire. */
export function wireErrorOf(refused: Problem): {
  readonly code: string;
  readonly status: number;
  readonly message: string;
} {
  const [code = BY_STATUS[refused.status] ?? "validation_failed", status = refused.status, message = refused.message] =
    ROWS[refused.reason] ?? [];
  return { code, status, message };
}

/** Sends an error in the format of the version that the client has asked for. */
export function sendAuthProblem({ request, response, head }: Destination, refused: Problem): void {
  const { code, status, message } = wireErrorOf(refused);
  const { members } = refused.more;
  head.notes.code = code;
  const headers = [...head.headers, "Content-Type", "application/json; charset=utf-8", "Cache-Control", "no-store"];
  headers.push("X-Sb-Error-Code", code, ...Object.entries(headersOf(refused, { status, message })).flat());
  const asked = String(request.headers[VERSION_HEADER.toLowerCase()] ?? "");
  const isNew = asked >= VERSION;
  if (isNew) headers.push(VERSION_HEADER, VERSION);
  const error = isNew ? { code, message } : { code: status, error_code: code, msg: message };
  sendText(response, status, headers, JSON.stringify({ ...error, ...members }));
}

/** The form of the errors of `/auth/v1`. */
export const AUTH_V1: HttpEnvelope = { reject: sendAuthProblem };

/** At a sign-up, an e-mail that is taken has a code of its own. */
export const refuseSignUp = (raised: unknown): never => refuseUser(raised, problem("user exists"));
