import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import helmet from "helmet";
import type { Logger } from "pino";
import { internalError, type Problem } from "../db/errors.ts";
import type { CallerResolver } from "../identity/caller-resolver.ts";
import { type Cors, cors } from "./cors.ts";
import { type Destination, type Exchange, type Head, setHead } from "./exchange.ts";
import type { ServiceState } from "./health.ts";
import type { RateLimit, Taken } from "./rate-limit.ts";
import { ambiguityOf, requestIdOf } from "./request.ts";

/** The URLs of an interface and the form of its errors; known before the interface itself can be created. */
export type HttpEnvelope = {
  serves(url: string): boolean;
  /** Responds with a problem that was found before the interface received the request. */
  reject(destination: Destination, problem: Problem): void;
};

/** One interface over HTTP: GraphQL, the tables, the resources, … */
export type HttpInterface = HttpEnvelope & {
  /** Responds to every request, also when it fails. */
  handle(exchange: Exchange): Promise<void>;
  /** Reads the parameter `api_key`, if the interface has a rule for it that differs from all others. */
  apiKeyIn?(url: string): string | null;
};

/** An interface that responds while the service starts and stops too. It knows no callers. */
export type StandingInterface = HttpEnvelope & { handle(destination: Destination): Promise<void> };

export type PipelineOptions = {
  readonly log: Logger;
  readonly corsOrigins: readonly string[];
  /** Null when requests are not limited. */
  readonly rateLimit: RateLimit | null;
  readonly standing: readonly StandingInterface[];
  /** The first one that serves a URL rejects its requests until the service is ready. The last one serves every URL. */
  readonly envelopes: readonly HttpEnvelope[];
};

/** Every HTTP request passes here once: request id, log, identity, limits, CORS, and then the interface that serves it. */
export class Pipeline {
  state: ServiceState = "starting";
  readonly listener: RequestListener = (request, response) => this.#receive(request, response);
  readonly #options: PipelineOptions;
  readonly #cors: Cors;
  /** Headers of every response. */
  readonly #headers: readonly string[];
  #interfaces: readonly HttpInterface[] = [];
  #callers: CallerResolver | null = null;

  constructor(options: PipelineOptions) {
    this.#options = options;
    this.#cors = cors(options.corsOrigins);
    this.#headers = [...securityHeaders(), ...this.#cors.headers];
  }

  /** Makes the service ready. The first of the interfaces that serves a URL handles it; the last one serves every URL. */
  open(interfaces: readonly HttpInterface[], callers: CallerResolver): void {
    this.#interfaces = interfaces;
    this.#callers = callers;
    this.state = "ready";
  }

  #receive(request: IncomingMessage, response: ServerResponse): void {
    const start = performance.now();
    const { rateLimit, log } = this.#options;
    const url = request.url!;
    const requestId = requestIdOf(request);
    response.once("close", () => logRequest(log, request, url, response, requestId, performance.now() - start));

    const served = this.state === "ready" ? serving(this.#interfaces, url) : undefined;
    const identity = served ? this.#callers!.identify(request, served.apiKeyIn?.(url)) : null;
    const taken = rateLimit?.count(request, identity?.knownName ?? null);
    const limits = taken ? rateLimit!.headersOf(taken) : [];
    const head: Head = { requestId, headers: ["X-Request-Id", requestId, ...limits, ...this.#headers] };

    // CORS responds to a preflight itself.
    if (request.method === "OPTIONS") setHead(response, head);
    this.#cors.handle(request, response, () => {
      const envelope = served ?? this.#envelopeAt(url);
      const rejection = rejectionOf(request, taken);
      if (rejection !== null) return envelope.reject({ request, response, head }, rejection);
      if (served === undefined || identity === null) return this.#handleUnready({ request, response, head });
      const exchange = { request, response, head, identity };
      served.handle(exchange).catch((error) => this.#fail(error, served, exchange));
    });
  }

  #handleUnready(destination: Destination): void {
    const url = destination.request.url!;
    const standing = serving(this.#options.standing, url);
    if (standing) standing.handle(destination).catch((error) => this.#fail(error, standing, destination));
    else this.#envelopeAt(url).reject(closing(destination), serviceUnavailable(this.state));
  }

  #envelopeAt(url: string): HttpEnvelope {
    return serving(this.#options.envelopes, url)!;
  }

  #fail(error: unknown, envelope: HttpEnvelope, destination: Destination): void {
    const { response, head } = destination;
    // The client that has closed the connection has caused the error.
    if (response.destroyed) return;
    this.#options.log.error({ requestId: head.requestId, err: error }, "unhandled error");
    if (response.headersSent) response.destroy();
    else envelope.reject(destination, internalError());
  }
}

function serving<T extends HttpEnvelope>(list: readonly T[], url: string): T | undefined {
  for (const each of list) if (each.serves(url)) return each;
  return undefined;
}

/** Why a request is rejected before its interface receives it. */
function rejectionOf(request: IncomingMessage, taken: Taken | undefined): Problem | null {
  if (taken?.isOver) return tooManyRequests(taken);
  const ambiguity = ambiguityOf(request);
  return ambiguity === null ? null : { status: 400, code: "VALIDATION_ERROR", message: ambiguity };
}

const tooManyRequests = ({ retryAfter }: Taken): Problem => ({
  status: 429,
  code: "RATE_LIMITED",
  message: `too many requests: try again in ${retryAfter} s`,
  retryAfter,
});

const serviceUnavailable = (state: ServiceState): Problem => ({
  status: 503,
  code: "INTERNAL_ERROR",
  message: `the service is ${state}: try again`,
});

/** The client connects again, perhaps to another process. */
const closing = ({ request, response, head }: Destination): Destination => ({
  request,
  response,
  head: { ...head, headers: [...head.headers, "Connection", "close"] },
});

/** Helmet's headers, names and values alternate. They are the same for every response, so helmet runs once. */
function securityHeaders(): readonly string[] {
  const headers: string[] = [];
  const recorder = {
    setHeader: (name: string, value: string) => headers.push(name, value),
    removeHeader: () => {},
  };
  helmet()({} as IncomingMessage, recorder as unknown as ServerResponse, () => {});
  return headers;
}

/** The status that nginx, and other servers since, log for a client that closed the connection before the response. */
const CLIENT_GONE = 499;

function logRequest(
  log: Logger,
  { method }: IncomingMessage,
  url: string,
  response: ServerResponse,
  requestId: string,
  took: number,
): void {
  const status = response.writableFinished ? response.statusCode : CLIENT_GONE;
  const level = levelOf(status);
  if (!log.isLevelEnabled(level)) return;
  log[level]({ requestId, method, path: url.split("?", 1)[0], status, milliseconds: Math.round(took) }, "request");
}

/** A service that starts or stops responds with 503 many times to clients that wait for it, and nothing is wrong. */
function levelOf(status: number): "error" | "info" | "debug" {
  if (status < 400 || status === 503) return "debug";
  return status >= 500 ? "error" : "info";
}
