import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import { pipeline } from "node:stream/promises";
import type { Logger } from "pino";
import { discardRest } from "../../gate/pipeline/body.ts";
import { EXPOSED_HEADERS } from "../../gate/pipeline/cors.ts";
import { type Exchange, hasBody } from "../../gate/pipeline/exchange.ts";
import { problem } from "../../problems/problem.ts";

const { request: requestHttp } = process.getBuiltinModule("node:http");

/** Every path of the storage server is below it. */
export const STORAGE = "/storage/v1";

/** The first segments of its paths. Not S3, whose requests have their credentials elsewhere than in Authorization. */
const SERVED = ["object", "bucket", "render", "upload"];
const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/** Milliseconds in which the storage server neither takes nor sends a byte. */
const IDLE = 60_000;
/** Requests of one network that may be open at the storage server. */
const MAX_OPEN = 50;
const MINUTE = 60_000;

const OF_UPLOADS = ["tus-resumable", "upload-length", "upload-metadata", "upload-offset"];
/** What the storage server gets of a request. Cookies and other keys are credentials of this service alone. */
const SENT: ReadonlySet<string> = new Set([
  ...["accept", "accept-encoding", "accept-language", "cache-control", "content-length", "content-type", "prefer"],
  ...["if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since", "range", "user-agent"],
  ...[
    "upload-checksum",
    "upload-concat",
    "upload-defer-length",
    "x-client-info",
    "x-metadata",
    "x-signature",
    "x-upsert",
  ],
  ...OF_UPLOADS,
]);
/** What the client gets of a response. Other headers may act on all pages of this service. */
const RETURNED: ReadonlySet<string> = new Set([
  ...["accept-ranges", "age", "cache-control", "content-disposition", "content-encoding", "content-language"],
  ...["content-length", "content-range", "content-type", "etag", "expires", "last-modified", "location", "retry-after"],
  ...["tus-extension", "tus-max-size", "tus-version", "upload-expires", "x-robots-tag"],
  ...OF_UPLOADS,
]);

/**
 * A file that someone has uploaded is no page of this service: no script of it runs, and it reads no cookie. Pages of other sites may
 * show images.
 */
const OF_FILES = {
  "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
  "Cross-Origin-Resource-Policy": "cross-origin",
  "Access-Control-Expose-Headers": [...EXPOSED_HEADERS, ...OF_UPLOADS].join(","),
};
/** What a page of this service would run or apply, as the browser says in Sec-Fetch-Dest. */
const ACTIVE = /^(?:script|style|worker|sharedworker|serviceworker|.*worklet)$/;

/** A server of files beside the service, which checks the same tokens. */
export class StorageServer {
  readonly #url: URL;
  /** Ends with a slash. */
  readonly #base: string;
  readonly #own: URL;
  readonly #log: Logger;
  /** Network → its requests that are open. */
  readonly #open = new Map<string, number>();
  #warnedAt = Number.NEGATIVE_INFINITY;

  /** `url` is without a slash at its end. */
  constructor(url: string, ownUrl: string, log: Logger) {
    this.#url = new URL(url);
    this.#base = `${this.#url.pathname.replace(/\/$/, "")}/`;
    this.#own = new URL(ownUrl);
    this.#log = log;
  }

  /**
   * Passes a request on, and the response back, both as they arrive. The credentials must be valid here too: a token that was revoked is
   * refused. Rejects with Problem, or when one of the connections breaks.
   */
  async pass(exchange: Exchange): Promise<void> {
    const { request, response, head, identity } = exchange;
    const path = this.#pathOf(request);
    await identity.caller();
    if (response.destroyed) return;
    response.once("close", this.#hold(identity.network));
    const outgoing = this.#send(path, exchange);
    response.once("close", () => {
      outgoing.destroy();
      request.unpipe(outgoing);
      if (!request.complete) discardRest(request);
    });
    try {
      const answered = await answerOf(outgoing, request);
      response.writeHead(answered.statusCode!, headersOf(answered.headers, head.headers));
      await pipeline(answered, response);
    } catch (error) {
      if (response.destroyed && !outgoing.errored) throw error;
      this.#warn(error);
      throw problem("storage unavailable");
    }
  }

  /** Throws Problem for what is not passed on. */
  #pathOf({ method, url, headers }: IncomingMessage): string {
    if (!METHODS.includes(method!))
      throw problem("method not allowed", { method: method!, allowed: METHODS.join(", "), allow: METHODS });
    if (headers["sec-fetch-site"] === "same-origin" && ACTIVE.test(String(headers["sec-fetch-dest"])))
      throw problem("not permitted", { message: "a page of this service may not run a file" });
    const rest = url!.slice(STORAGE.length).replace(/^\//, "");
    const target = URL.parse(`${this.#url.origin}${this.#base}${rest}`);
    const [path] = rest.split("?", 1) as [string];
    // Encoded too: who decodes %2f may go up from there.
    const goesUp = /(?:^|[/\\]|%2f|%5c)(?:\.|%2e){2}(?:$|[/\\]|%2f|%5c)/i.test(path);
    if (target === null || goesUp || !SERVED.includes(path.split("/", 1)[0]!)) throw problem("no such path");
    return `${target.pathname}${target.search}`;
  }

  /** Counts a request until the result is called. Throws Problem if the network has too many. */
  #hold(network: string): () => void {
    const open = this.#open.get(network) ?? 0;
    if (open >= MAX_OPEN) throw problem("too many requests", { retryAfter: 1 });
    this.#open.set(network, open + 1);
    return () => {
      const left = this.#open.get(network)! - 1;
      if (left > 0) this.#open.set(network, left);
      else this.#open.delete(network);
    };
  }

  #send(path: string, { request: { method, headers }, head, identity }: Exchange): ClientRequest {
    const { protocol, hostname, port } = this.#url;
    const request = protocol === "https:" ? requestHttps : requestHttp;
    const sent = Object.entries(headers).filter(([name]) => SENT.has(name));
    const { authorization } = headers;
    return request({
      // A connection of its own: the server may close one that is kept while a request is on its way, which cannot be sent again.
      ...{ method, path, port, agent: false, timeout: IDLE },
      hostname: hostname.replace(/^\[|\]$/g, ""),
      headers: {
        ...Object.fromEntries(sent),
        ...(authorization?.toLowerCase().startsWith("bearer ") && { authorization }),
        // Otherwise the body of a DELETE would arrive as the next request.
        ...(headers["transfer-encoding"] !== undefined && { "transfer-encoding": "chunked" }),
        // A server that closes its connection after a refusal resets it, before the refusal is read.
        connection: "keep-alive",
        "x-forwarded-for": identity.address,
        "x-forwarded-host": this.#own.host,
        "x-forwarded-prefix": STORAGE,
        "x-forwarded-proto": this.#own.protocol.slice(0, -1),
        "x-request-id": head.requestId,
      },
    });
  }

  /** Tells operators, once a minute. */
  #warn(err: unknown): void {
    const now = performance.now();
    if (now - this.#warnedAt < MINUTE) return;
    this.#warnedAt = now;
    this.#log.warn({ err }, "the storage server of STORAGE_URL does not respond, or breaks off");
  }
}

/** Sends the body of `request`, if it has one, and waits for the head of the response. */
function answerOf(outgoing: ClientRequest, request: IncomingMessage): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    outgoing.once("response", (answered) => {
      const { statusCode = 0 } = answered;
      if (statusCode >= 200 && statusCode <= 599) resolve(answered);
      else reject(new Error(`the status ${statusCode}`));
    });
    outgoing.once("timeout", () => outgoing.destroy(new Error(`nothing for ${IDLE} ms`)));
    outgoing.on("error", reject);
    // After an upgrade, for example.
    outgoing.once("close", () => reject(new Error("no response")));
    if (hasBody(request)) request.pipe(outgoing);
    else outgoing.end();
  });
}

/** The headers of this service, with those of files, and what the storage server says about the file. */
function headersOf(answered: IncomingHttpHeaders, own: readonly string[]): string[] {
  const kept = own.filter((_, i) => !(own[i - (i % 2)]! in OF_FILES));
  const vary = ["Origin", ...(answered.vary === undefined ? [] : [answered.vary])].join(", ");
  const returned = Object.entries(answered).filter(([name]) => RETURNED.has(name));
  return [
    ...kept,
    ...Object.entries(OF_FILES).flat(),
    "Vary",
    vary,
    ...returned.flatMap(([name, value]) => [name, String(value)]),
  ];
}
