import type { IncomingMessage, ServerResponse } from "node:http";
import { type Holder, Recipient } from "../../db/admission/byte-budget.ts";
import type { Caller } from "../../db/caller.ts";
import type { Database } from "../../db/database.ts";
import type { RequestContext } from "../../db/transaction/identity.ts";
import type { RequestIdentity } from "../../identity/caller-resolver.ts";
import { OTHER } from "../../telemetry/metrics.ts";
import type { Span } from "../../telemetry/span.ts";
import { contextOf } from "./request.ts";

/** What the interfaces find out about a request, for the log and the metrics. */
export class RequestNotes {
  /** The template of the path, from a small fixed set of texts: `/users/{id}`. */
  route = OTHER;
  /** The code of the error that was sent. */
  code: string | null = null;
  /** Null when requests are not traced. */
  span: Span | null = null;
}

/** The first headers of every response, whichever interface sends it. */
export type Head = {
  readonly requestId: string;
  /** Includes X-Request-Id. Names and values alternate: the format that `writeHead` processes fastest. */
  readonly headers: readonly string[];
  readonly notes: RequestNotes;
};

/** A request and its response, which is still empty. */
export type Destination = { readonly request: IncomingMessage; readonly response: ServerResponse; readonly head: Head };

/** A request on its way from the pipeline to an interface. */
export type Exchange = Destination & {
  readonly identity: RequestIdentity;
  /**
   * Counts what the request multiplies, such as its messages, like `cost` further requests of a known caller or else of the network.
   * Throws Problem if they are too many.
   */
  countMore(knownName: string | null, cost: number): void;
};

/** Whether the request has a body, which may still be on its way. */
export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;

/** Sets the head of a response that is not sent by `writeHead` with a list of headers. */
export function setHead(response: ServerResponse, { headers }: Head): void {
  for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i]!, headers[i + 1]!);
}

const exchanges = new WeakMap<IncomingMessage, Exchange>();

/** Makes the exchange available to Express handlers, which receive the request alone. */
export const keepExchange = (exchange: Exchange): void => void exchanges.set(exchange.request, exchange);

/** The exchange of a request in an Express handler. */
export const exchangeOf = (request: IncomingMessage): Exchange => exchanges.get(request)!;

/** The identity of a request in an Express handler. */
export const identityOf = (request: IncomingMessage): RequestIdentity => exchangeOf(request).identity;

/** The client of a request, as the limits count it. Close it when the client has received all results. */
export function recipientOf(identity: RequestIdentity, caller: Caller, holder: Holder | null = null): Recipient {
  const { network } = identity;
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
