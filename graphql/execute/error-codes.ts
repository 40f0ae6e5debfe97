import type { Problem } from "../../problems/problem.ts";
import type { Code, RestCode } from "../../problems/reasons.ts";

/** Codes that only REST endpoints send → the code of GraphQL. */
const CODES: Readonly<Record<Exclude<RestCode, Code>, Code>> = {
  USER_NOT_FOUND: "RESOURCE_NOT_FOUND",
  INVALID_ID: "VALIDATION_ERROR",
  INVALID_JSON: "VALIDATION_ERROR",
  MISSING_FIELD: "VALIDATION_ERROR",
  BAD_REQUEST: "VALIDATION_ERROR",
  UNSUPPORTED_VERSION: "VALIDATION_ERROR",
  PRECONDITION_FAILED: "RESOURCE_CONFLICT",
  TOKEN_EXPIRED: "AUTH_EXPIRED",
  INVALID_TOKEN: "AUTH_REQUIRED",
  VERIFICATION_FAILED: "AUTH_REQUIRED",
  MFA_REQUIRED: "AUTH_REQUIRED",
  NOT_CONFIGURED: "INTERNAL_ERROR",
};

/** Reason → code, of the subscriptions. */
const OF_REASON = { "changes missed": "CHANGES_MISSED", "changes unavailable": "CHANGES_UNAVAILABLE" } as const;

export const codeOf = ({ reason, code, more }: Problem): Code | (typeof OF_REASON)[keyof typeof OF_REASON] | string =>
  more.own?.code ?? OF_REASON[reason as keyof typeof OF_REASON] ?? CODES[code as keyof typeof CODES] ?? code;
