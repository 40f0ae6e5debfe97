import type { IncomingMessage, ServerResponse } from "node:http";
import type { RequestIdentity } from "../../identity/caller-resolver.ts";
import { OTHER } from "../../telemetry/metrics.ts";
import type { Span } from "../../telemetry/span.ts";

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
export type Exchange = Destination & { readonly identity: RequestIdentity };

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
