import { z } from "zod";
import { anonymous, type Caller } from "../../db/caller.ts";
import { loginRequired } from "../../db/errors.ts";
import { parseShape } from "../../gate/pipeline/body.ts";
import type { RequestIdentity } from "../../identity/caller-resolver.ts";
import { isRefusal, problem } from "../../problems/problem.ts";
import type { Reason } from "../../problems/reasons.ts";

/** Refusals that are not about a missing or invalid credential: GraphQL rejects them as every other interface does. */
const REJECTED: ReadonlySet<Reason> = new Set<Reason>([
  "no csrf token",
  "foreign page",
  "disagreement",
  "service key in browser",
  "service key off",
  "too many attempts",
  "issuer unavailable",
  "busy",
]);

/** The caller of a GraphQL request: anonymous if a credential is not valid. Throws, or rejects with, Problem. */
export function graphqlCaller(identity: RequestIdentity, anonymousRole: string): Caller | Promise<Caller> {
  try {
    const caller = identity.caller();
    return caller instanceof Promise ? caller.catch((error) => orAnonymous(error, anonymousRole)) : caller;
  } catch (error) {
    return orAnonymous(error, anonymousRole);
  }
}

/**
 * The caller of a WebSocket, from the headers of the upgrade and the payload of `connection_init`. In the payload,
 * `{ Authorization: "Bearer …" }`, `apikey` and `X-API-Key`, in upper or lower case, replace the headers of the same name. Throws,
 * or rejects with, Problem, also if a credential in the payload is misspelt or not valid: a client that sends one expects to be
 * signed in, and would otherwise wait for events that it may not see.
 */
export function socketCaller(
  identity: RequestIdentity,
  payload: Readonly<Record<string, unknown>>,
  anonymousRole: string,
): Caller | Promise<Caller> {
  const misspelt = Object.keys(payload).find((name) => !isCredential(name) && LIKE_CREDENTIAL.test(name));
  if (misspelt !== undefined) throw refusedPayload(`connectionParams has no ${misspelt}: ${HOW_TO_SEND}`);
  const sent = Object.fromEntries(Object.entries(payload).map(([name, value]) => [name.toLowerCase(), value]));
  const headers = parseShape(CREDENTIALS, sent, "connectionParams", refusedPayload);
  return graphqlCaller(identity.onSocket(headers), anonymousRole);
}

/**
 * Throws Problem if the message that opens a socket, or the headers of a stream, have credentials that are refused. Without
 * credentials the caller is anonymous.
 */
export function refuseInvalid(caller: Caller, payload: Readonly<Record<string, unknown>>): Caller {
  const hasCredentials = Object.entries(payload).some(([name, value]) => isCredential(name) && value);
  if (!hasCredentials) return caller;
  if (caller.refused?.isExpired) throw loginRequired(caller.refused);
  if (caller.refused !== null) throw refusedPayload(caller.refused.message);
  return caller;
}

const HOW_TO_SEND = "send Authorization: Bearer …";
/** Names that a client may have meant: `authToken`, `access_token`, `headers`. */
const LIKE_CREDENTIAL = /auth|token|bearer|jwt|api.?key|^headers$/i;

const refusedPayload = (why: string) => problem("credential refused", { why });

const TEXT = z
  .string(`must be a string: ${HOW_TO_SEND}`)
  .nullish()
  .transform((value) => value ?? undefined);

/** The credentials in the payload, by name in lower case. */
const CREDENTIALS = z.object({ authorization: TEXT, apikey: TEXT, "x-api-key": TEXT });

const isCredential = (name: string) => Object.hasOwn(CREDENTIALS.shape, name.toLowerCase());

function orAnonymous(error: unknown, anonymousRole: string): Caller {
  if (!isRefusal(error)) throw error;
  if (REJECTED.has(error.reason)) throw error;
  const isExpired = error.reason === "expired token" || error.reason === "expired key";
  return anonymous(anonymousRole, { isExpired, message: error.more.fault?.message ?? error.message });
}
