import { ACCOUNTS } from "./accounts.ts";
import { AUTH_V1 } from "./auth-v1.ts";
import { CHANNELS } from "./channels.ts";
import { CREDENTIALS } from "./credentials.ts";
import { DATABASE } from "./database.ts";
import { REQUESTS } from "./requests.ts";
import { TABLES } from "./tables.ts";

/** The codes of GraphQL, which the REST endpoints send too, except AUTH_EXPIRED. */
export const CODES = [
  "AUTH_REQUIRED",
  "AUTH_EXPIRED",
  "PASSWORD_REQUIRED",
  "PERMISSION_DENIED",
  "RESOURCE_NOT_FOUND",
  "RESOURCE_CONFLICT",
  "VALIDATION_ERROR",
  "RATE_LIMITED",
  "INTERNAL_ERROR",
] as const;

/** The codes that only REST endpoints send. */
export const REST_CODES = [
  "USER_NOT_FOUND",
  "INVALID_ID",
  "INVALID_JSON",
  "MISSING_FIELD",
  "BAD_REQUEST",
  "UNSUPPORTED_VERSION",
  "PRECONDITION_FAILED",
  "TOKEN_EXPIRED",
  "INVALID_TOKEN",
  "VERIFICATION_FAILED",
  "MFA_REQUIRED",
  "NOT_CONFIGURED",
] as const;

export type Code = (typeof CODES)[number];
export type RestCode = Code | (typeof REST_CODES)[number];

/** `{name}` is a blank, for which `problem` gets a value. */
type Row = readonly [status: number, code: RestCode, text: string];

/**
 * Why a client gets an error → status, code and text. An interface has a table of its own for the reasons that it answers in another
 * way.
 */
export const REASONS = {
  ...DATABASE,
  ...CREDENTIALS,
  ...REQUESTS,
  ...ACCOUNTS,
  ...AUTH_V1,
  ...TABLES,
  ...CHANNELS,
} as const satisfies Readonly<Record<string, Row>>;

export type Reason = keyof typeof REASONS;
