import type { IncomingHttpHeaders } from "node:http";
import { anonymous, type Caller } from "../db/caller.ts";
import { ApiError, type Code } from "../db/errors.ts";
import type { RequestIdentity } from "../identity/caller-resolver.ts";
import { REFUSALS, type RefusalReason, RefusedError } from "../identity/refused.ts";

/** Refusals that are not about a missing or invalid credential: GraphQL rejects them as every other interface does. */
const REJECTED: ReadonlySet<RefusalReason> = new Set<RefusalReason>([
  "no csrf token",
  "foreign page",
  "disagreement",
  "service key in browser",
  "too many attempts",
  "issuer unavailable",
  "busy",
]);

/** The caller of a GraphQL request: anonymous if a credential is not valid. Throws, or rejects with, ApiError. */
export function graphqlCaller(identity: RequestIdentity, anonymousRole: string): Caller | Promise<Caller> {
  try {
    const caller = identity.caller();
    return caller instanceof Promise ? caller.catch((error) => orAnonymous(error, anonymousRole)) : caller;
  } catch (error) {
    return orAnonymous(error, anonymousRole);
  }
}

/**
 * The caller of a WebSocket, from the headers of the upgrade and the payload of `connection_init`:
 * `{ Authorization: "Bearer …" }`, `apikey` or `X-API-Key` in any case replace the header of that name. Throws, or rejects
 * with, ApiError.
 */
export function socketCaller(
  identity: RequestIdentity,
  payload: Readonly<Record<string, unknown>>,
  anonymousRole: string,
): Caller | Promise<Caller> {
  const headers: IncomingHttpHeaders = {};
  for (const [name, value] of Object.entries(payload)) {
    const header = name.toLowerCase();
    if (!PAYLOAD_HEADERS.has(header)) continue;
    if (value !== null && typeof value !== "string") return anonymous(anonymousRole, "invalid");
    headers[header] = value ?? undefined;
  }
  return graphqlCaller(identity.onSocket(headers), anonymousRole);
}

const PAYLOAD_HEADERS: ReadonlySet<string> = new Set(["authorization", "apikey", "x-api-key"]);

function orAnonymous(error: unknown, anonymousRole: string): Caller {
  if (!(error instanceof RefusedError)) throw error;
  if (REJECTED.has(error.reason)) throw rejection(error);
  const isExpired = error.reason === "expired token" || error.reason === "expired key";
  return anonymous(anonymousRole, isExpired ? "expired" : "invalid");
}

function rejection({ reason, more: { retryAfter } }: RefusedError): ApiError {
  const [status, , message] = REFUSALS[reason];
  return new ApiError({ status, code: CODES[status]!, message, ...(retryAfter !== undefined && { retryAfter }) });
}

const CODES: Readonly<Record<number, Code>> = {
  401: "AUTH_REQUIRED",
  403: "PERMISSION_DENIED",
  429: "RATE_LIMITED",
  503: "INTERNAL_ERROR",
};
