import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Logger } from "pino";
import type { Database } from "../../db/database.ts";
import { networkOf } from "../../db/network.ts";
import type { CallerResolver, RequestIdentity } from "../../identity/caller-resolver.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import { forRequest, type Span, type Tracer } from "../../telemetry/span.ts";
import { NOT_COUNTED, type RateLimit } from "../limits/clients.ts";
import type { Turns } from "../limits/turns.ts";
import type { RequestMetrics } from "../operations/metrics.ts";
import { readToEnd } from "./body.ts";
import { type Cors, cors } from "./cors.ts";
import {
  type AddressReader,
  ambiguityOf,
  type Destination,
  type Exchange,
  type Head,
  hasBody,
  isRefused,
  keepExchange,
  RequestNotes,
  requestIdOf,
  setHead,
} from "./exchange.ts";
import { RefusalLog } from "./refusal-log.ts";
import { DATA_HEADERS } from "./security-headers.ts";

/** The format of the errors of an interface. Exists before the interface itself can be created. */
export type HttpEnvelope = {
  /** Responds with a problem that occurs before the interface receives the request. */
  reject(destination: Destination, problem: Problem): void;
};

/** One interface over HTTP: GraphQL, the tables, the resources, … */
export type HttpInterface = HttpEnvelope & {
  /** Responds to every request, even if it fails. */
  handle(exchange: Exchange): Promise<void>;
  /** Whether its requests do not wait for their turn. An operator must see that the service is overloaded. */
  readonly isAlwaysOn?: boolean;
  /** Whether its responses are data, for which it sends `Vary: Origin` itself; absent for an interface with pages. */
  readonly sendsData?: boolean;
  /** Whether its requests are refused while the database is overloaded; absent for pages. */
  readonly needsDatabase?: boolean;
  /** Whether parameters of its URLs are filters and arguments, so that only a value with the format of an API key is one. */
  readonly hasFilters?: boolean;
};

/** An interface that also responds while the service starts and stops, when callers cannot be identified. */
export type AlwaysOnInterface = HttpEnvelope & {
  readonly isAlwaysOn: true;
  handle(destination: Destination | Exchange): Promise<void>;
};

export type PipelineOptions = {
  readonly log: Logger;
  readonly corsOrigins: readonly string[];
  /** Null: requests are not limited, and every one is handled at once. */
  readonly limits: { readonly turns: Turns; readonly rateLimit: RateLimit; readonly addressOf: AddressReader } | null;
  /** Until the service is ready, an envelope rejects the requests of its path. */
  readonly starting: Routes<HttpEnvelope | AlwaysOnInterface>;
  /** Called with the name of the setting whose limit has rejected a request. */
  onLimit?(setting: string): void;
  /** Null when requests are not measured. */
  readonly metrics: Pick<RequestMetrics, "observe"> | null;
  /** Null when requests are not traced. */
  readonly tracer?: Tracer | null;
};

/** A request that has arrived. */
type QueuedRequest = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  readonly notes: RequestNotes;
  /** The interface at its path; null if the service was not ready when it arrived. */
  readonly served: HttpInterface | null;
  /** Null until it is needed. */
  identity: RequestIdentity | null;
};

/** What the pipeline needs to know about callers, and about the work that they wait for. */
export type PipelineContext = {
  readonly callers: Pick<CallerResolver, "identify">;
  /** Refuses requests while it is overloaded, and counts bodies; absent where only operators send them. */
  readonly database?: Pick<Database, "waiting" | "refuses" | "budget">;
};

export type ServiceState = "starting" | "ready" | "draining";

/** Handles every HTTP request: request id, log, identity, limits, CORS, and then the interface at its path. */
export class Pipeline {
  state: ServiceState = "starting";
  readonly listener: RequestListener = (request, response) => this.#receive(request, response);
  readonly #options: PipelineOptions;
  /** Without redaction: searching a line for secrets takes longer than writing it, and these lines have only known fields. */
  readonly #requestLog: Logger;
  readonly #refusals = new RefusalLog();
  #cors: Cors;
  #routes: Routes<HttpInterface> | null = null;
  #context: PipelineContext | null = null;

  constructor(options: PipelineOptions) {
    this.#options = options;
    this.#requestLog = options.log.child({}, { redact: [], level: "trace" });
    this.#cors = cors(options.corsOrigins);
  }

  /** Allows these origins from the next request on. */
  allowOrigins(origins: readonly string[]): void {
    this.#cors = cors(origins);
  }

  /** Makes the service ready. */
  open(routes: Routes<HttpInterface>, context: PipelineContext): void {
    this.#routes = routes;
    this.#context = context;
    this.state = "ready";
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const start = performance.now();
    const { limits, log, metrics, starting, tracer } = this.#options;
    const url = request.url!;
    const requestId = requestIdOf(request);
    const notes = new RequestNotes();
    if (tracer) notes.span = startSpan(tracer, request, requestId);
    const served = this.#routes?.find(url) ?? null;
    const queued: QueuedRequest = { request, response, requestId, notes, served, identity: null };
    const isAtOnce = limits === null || isAlwaysOn(served ?? starting.find(url));
    const client = () => this.#clientOf(queued);
    if (hasBody(request)) readToEnd(request, response);
    response.once("close", () => {
      if (!isAtOnce) limits.turns.intake.answered(client, request.socket);
      const method = request.method!;
      const status = response.writableFinished ? response.statusCode : CLIENT_GONE;
      const milliseconds = performance.now() - start;
      metrics?.observe(method, notes, status, milliseconds / 1000);
      if (notes.span) endSpan(notes.span, method, status, notes);
      const level = levelOf(status);
      if (!log.isLevelEnabled(level)) return;
      const write = (more: number) => {
        const details = detailsOf({ requestId, method, url, status, milliseconds }, notes);
        this.#requestLog[level](more > 0 ? { ...details, more } : details, "request");
      };
      // Each line is wanted at `debug`.
      if (level !== "info" || isAtOnce || log.isLevelEnabled("debug")) write(0);
      else this.#refusals.add(client(), `${status} ${notes.code}`, write);
    });
    if (isAtOnce) this.#handle(queued);
    else limits.turns.add({ client, run: () => this.#handle(queued), refuse: () => this.#refuse(queued) });
  }

  /** Refuses a request before anything is known about its sender. */
  #refuse(queued: QueuedRequest): void {
    const { request, response } = queued;
    if (response.destroyed) return;
    this.#options.onLimit?.("process_queue");
    const head = this.#headOf(queued, []);
    if (request.method === "OPTIONS") setHead(response, head);
    this.#cors.handle(request, response, () =>
      this.#envelopeOf(queued).reject({ request, response, head }, problem("overloaded")),
    );
  }

  #handle(queued: QueuedRequest): void {
    const { request, response, requestId, notes, served } = queued;
    // The client has closed the connection while it waited.
    if (response.destroyed) return;
    const { rateLimit, turns } = this.#options.limits ?? {};
    const identity = this.#identify(queued);
    const { headers, refusal } = rateLimit?.count(this.#clientOf(queued), request) ?? NOT_COUNTED;
    const head = this.#headOf(queued, headers);

    // cors responds to a preflight with headers that were set before.
    if (request.method === "OPTIONS") setHead(response, head);
    this.#cors.handle(request, response, () => {
      const envelope = this.#envelopeOf(queued);
      const rejection = refusal ?? ambiguityOf(request);
      if (rejection !== null) return envelope.reject({ request, response, head }, rejection);
      const { database } = this.#context ?? {};
      if (database && served?.needsDatabase && isRefused(database, identity!))
        return envelope.reject({ request, response, head }, problem("overloaded"));
      if (served === null || identity === null) return this.#handleUnready({ request, response, head });
      const countMore = (knownName: string | null, cost: number) => {
        const refused = rateLimit?.countMore(knownName ?? identity.network, cost);
        if (refused) throw refused;
      };
      const counts = database && turns && hasBody(request);
      const counting = counts ? { response, identity, budget: database.budget, turns } : undefined;
      const exchange: Exchange = { request, response, head, identity, countMore, counting };
      keepExchange(exchange);
      const handled = notes.span
        ? forRequest({ span: notes.span, requestId }, () => served.handle(exchange))
        : served.handle(exchange);
      handled.catch((error) => this.#fail(error, served, exchange));
    });
  }

  /** Null if the service was not ready when the request arrived. */
  #identify(queued: QueuedRequest): RequestIdentity | null {
    const { request, served } = queued;
    if (served) queued.identity ??= this.#context!.callers.identify(request, served.hasFilters);
    return queued.identity;
  }

  #clientOf(queued: QueuedRequest): string {
    return this.#identify(queued)?.client ?? networkOf(this.#options.limits!.addressOf(queued.request));
  }

  /** `limits` are the headers of the rate limit. */
  #headOf({ request, requestId, notes, served }: QueuedRequest, limits: readonly string[]): Head {
    const traced = notes.span?.header ? ["traceresponse", notes.span.header] : [];
    // The next request of this client goes to another process.
    const closing = this.state === "draining" ? CLOSE : [];
    const common = this.#commonHeaders(served, request);
    return { requestId, headers: ["X-Request-Id", requestId, ...traced, ...limits, ...closing, ...common], notes };
  }

  /** Responses that are data need fewer headers. */
  #commonHeaders(served: HttpInterface | null, { headers }: IncomingMessage): readonly string[] {
    if (!served?.sendsData) return this.#cors.pageHeaders;
    return headers.origin === undefined ? DATA_HEADERS : this.#cors.dataHeaders;
  }

  #handleUnready(destination: Destination): void {
    const found = this.#options.starting.find(destination.request.url!);
    if (isAlwaysOn(found)) found.handle(destination).catch((error) => this.#fail(error, found, destination));
    else found.reject(closed(destination), problem("service not ready", { state: this.state }));
  }

  #envelopeOf({ served, request }: QueuedRequest): HttpEnvelope {
    return served ?? this.#options.starting.find(request.url!);
  }

  #fail(error: unknown, envelope: HttpEnvelope, destination: Destination): void {
    const { response, head } = destination;
    // The error is a consequence of the client closing the connection.
    if (response.destroyed) return;
    this.#options.log.error({ requestId: head.requestId, err: error }, "unhandled error");
    if (response.headersSent) response.destroy();
    else envelope.reject(destination, problem("internal error"));
  }
}

const isAlwaysOn = (found: HttpEnvelope | AlwaysOnInterface): found is AlwaysOnInterface =>
  "isAlwaysOn" in found && found.isAlwaysOn;

const CLOSE = ["Connection", "close"] as const;

/** Closes the connection, so that the client connects again, perhaps to another process. */
const closed = ({ request, response, head }: Destination): Destination => ({
  request,
  response,
  head: { ...head, headers: [...head.headers, ...CLOSE] },
});

/** The status that nginx, and other servers since, log for a client that closed the connection before the response. */
const CLIENT_GONE = 499;

type Finished = {
  readonly requestId: string;
  readonly method: string;
  readonly url: string;
  readonly status: number;
  readonly milliseconds: number;
};

const detailsOf = ({ url, milliseconds, ...request }: Finished, { code, span }: RequestNotes) => ({
  ...request,
  ...(span && { traceId: span.traceId }),
  path: url.split("?", 1)[0],
  milliseconds: Math.round(milliseconds),
  ...(code !== null && { code }),
});

/** Source of the names: OpenTelemetry, "Semantic conventions for HTTP spans". */
function startSpan(tracer: Tracer, { method = "", url = "", headers }: IncomingMessage, requestId: string): Span {
  const attributes = { "http.request.method": method, "url.path": url.split("?", 1)[0]!, "request.id": requestId };
  return tracer.start(method, headers, attributes);
}

function endSpan(span: Span, method: string, status: number, { route, code }: RequestNotes): void {
  span.rename(`${method} ${route}`);
  span.set({ "http.route": route, "http.response.status_code": status, ...(code !== null && { "error.type": code }) });
  if (status >= 500) span.fail(code ?? String(status));
  span.end();
}

/** Clients may receive these many times: 429 above a limit, which the log names once a minute, and 503 while the service starts or stops. */
const REPEATED = [429, 503];

function levelOf(status: number): "error" | "info" | "debug" {
  if (status < 400 || REPEATED.includes(status)) return "debug";
  return status >= 500 ? "error" : "info";
}

/** The paths that begin with the same segments. */
type Node<T> = { at: T | undefined; below: T | undefined; readonly next: Map<string, Node<T>> };

const emptyNode = <T>(): Node<T> => ({ at: undefined, below: undefined, next: new Map() });

/**
 * A table of paths, which are compared by segments. `/graphql` is this path alone, `/rest/v1/*` is `/rest/v1` and every path below
 * it. The longest path decides; `rest` is for every other URL.
 *
 *   new Routes([["/docs/*", site], ["/docs/live", reference]], nothing).find("/docs/live?table=users")  // reference
 */
export class Routes<T> {
  readonly #root = emptyNode<T>();
  readonly #rest: T;

  constructor(rows: Iterable<readonly [path: string, value: T]>, rest: T) {
    this.#rest = rest;
    for (const [path, value] of rows) this.#add(path, value);
  }

  #add(path: string, value: T): void {
    const isBelow = path.endsWith("/*");
    let node = this.#root;
    for (const segment of path.slice(1, isBelow ? -2 : undefined).split("/")) {
      const next = node.next.get(segment) ?? emptyNode<T>();
      node.next.set(segment, next);
      node = next;
    }
    node[isBelow ? "below" : "at"] = value;
  }

  /** Percent-encoded characters are not decoded. */
  find(url: string): T {
    const question = url.indexOf("?");
    const end = question < 0 ? url.length : question;
    let node = this.#root;
    let found = this.#rest;
    // The first character is a slash, unless the URL is `*` or has a host: such a URL has no row.
    let start = url.startsWith("/") ? 1 : Infinity;
    while (start <= end && node.next.size > 0) {
      const slash = url.indexOf("/", start);
      const segmentEnd = slash < 0 || slash > end ? end : slash;
      const next = node.next.get(url.slice(start, segmentEnd));
      if (!next) break;
      node = next;
      found = node.below ?? found;
      if (segmentEnd === end) return node.at ?? found;
      start = segmentEnd + 1;
    }
    return found;
  }
}
