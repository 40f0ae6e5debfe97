import type { Row } from "./reasons.ts";

/** What only `/auth/v1` refuses. The texts are those of its wire, which clients compare. */
export const AUTH_V1 = {
  "bearer required": [401, "AUTH_REQUIRED", "This endpoint requires a valid Bearer token"],
  "token without session": [403, "INVALID_TOKEN", "invalid JWT: unable to parse or verify signature, {why}"],
  "session ended": [403, "VERIFICATION_FAILED", "Session from session_id claim in JWT does not exist"],
  "refresh token reused": [400, "VERIFICATION_FAILED", "Invalid Refresh Token: Already Used"],
  "user exists": [422, "RESOURCE_CONFLICT", "User already registered"],
  "weak password": [422, "VALIDATION_ERROR", "Password is too weak"],
  "same password": [422, "VALIDATION_ERROR", "New password should be different from the old password."],
  "current password wrong": [400, "PERMISSION_DENIED", "Current password is not valid"],
  "reauthentication needed": [
    400,
    "PASSWORD_REQUIRED",
    "The sign-in is older than {seconds} seconds: sign in again, or send current_password",
  ],
  "second factor not proved": [401, "MFA_REQUIRED", "AAL2 session is required to update the user when MFA is enabled."],
  "too many factors": [422, "RESOURCE_CONFLICT", "Maximum number of verified factors reached, unenroll to continue"],
  "factor name taken": [
    422,
    "RESOURCE_CONFLICT",
    'A factor with the friendly name "{name}" for this user already exists',
  ],
  "factor needs the other": [403, "MFA_REQUIRED", "AAL2 required to enroll a new factor"],
  "factor removal needs a code": [422, "MFA_REQUIRED", "AAL2 required to unenroll verified factor"],
  "no such factor": [422, "RESOURCE_NOT_FOUND", "Factor not found"],
  "factor challenge expired": [422, "VALIDATION_ERROR", "MFA challenge has expired, verify against another challenge"],
  "factor code wrong": [422, "VALIDATION_ERROR", "Invalid TOTP code entered"],
  "link expired": [404, "INVALID_TOKEN", "The URL to link an identity has expired, or was opened before"],
  "link from elsewhere": [
    400,
    "PERMISSION_DENIED",
    "The browser does not come from the page that links an identity: use PKCE, or send its Referer",
  ],
  "mail token invalid": [403, "INVALID_TOKEN", "Token has expired or is invalid"],
  "no administrator": [403, "PERMISSION_DENIED", "User not allowed"],
  "no such user": [404, "RESOURCE_NOT_FOUND", "User not found"],
  "metadata of administrators": [403, "PERMISSION_DENIED", "Updating app_metadata requires admin privileges"],
  "phones off": [400, "VALIDATION_ERROR", "Phone numbers are not supported"],
  "password without e-mail": [
    422,
    "VALIDATION_ERROR",
    "Updating password of an anonymous user without an email or phone is not allowed",
  ],
  "anonymous user": [403, "PERMISSION_DENIED", "Anonymous user not allowed to perform these actions"],
  "anonymous users off": [422, "VALIDATION_ERROR", "Anonymous sign-ins are disabled"],
} as const satisfies Readonly<Record<string, Row>>;
