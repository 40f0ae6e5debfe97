import type { ServerResponse } from "node:http";
import { type Holder, Recipient } from "../../db/admission/byte-budget.ts";
import type { Caller } from "../../db/caller.ts";
import type { Database } from "../../db/database.ts";
import { networkOf } from "../../db/network.ts";
import type { RequestContext } from "../../db/transaction/identity.ts";
import type { RequestIdentity } from "../../identity/caller-resolver.ts";
import type { Exchange } from "./exchange.ts";
import { contextOf } from "./request.ts";

/** The client of a request, as the limits count it. Close it when the client has received all results. */
export function recipientOf(identity: RequestIdentity, caller: Caller, holder: Holder | null = null): Recipient {
  const network = networkOf(identity.address);
  return new Recipient(identity.nameOf(caller) ?? network, network, { holder });
}

/**
 * Whether the database is overloaded and would refuse a request of this caller. False if identifying the caller needs a query, and
 * for an invalid credential, which the interface reports.
 */
export function isRefused(database: Pick<Database, "waiting" | "refuses">, identity: RequestIdentity): boolean {
  if (database.waiting === 0) return false;
  try {
    const caller = identity.caller();
    if (!(caller instanceof Promise)) return database.refuses(caller.role, recipientOf(identity, caller).client);
    caller.catch(() => {});
  } catch {}
  return false;
}

/** The request as functions and policies see it. Call this when the caller is known; `path` is without the query string. */
export const contextOfExchange = (
  { request, response, head, identity }: Exchange,
  path: string,
  caller: Caller,
): RequestContext => {
  const recipient = recipientOfResponse(response, identity, caller);
  const { showsCredentials, trial } = identity;
  const plain = contextOf(request, path, { recipient, showsCredentials });
  const { requestId } = head;
  const context = trial ? { ...plain, requestId, trial, operator: trial.operator } : { ...plain, requestId };
  const { span } = head.notes;
  return span === null ? context : { ...context, span };
};

/** The client that waits for a response. It is closed with the response: when all of it is sent, or the client has disconnected. */
export function recipientOfResponse(response: ServerResponse, identity: RequestIdentity, caller: Caller): Recipient {
  const recipient = recipientOf(identity, caller, response);
  if (response.destroyed) recipient.close();
  response.once("close", () => recipient.close());
  return recipient;
}
