import type { IncomingMessage } from "node:http";
import type { ByteBudget } from "../../db/admission/byte-budget.ts";
import type { Catalog } from "../../db/catalog/catalog.ts";
import { free } from "../../gate/limits/bulk.ts";
import type { SlowStreams } from "../../gate/limits/slow-streams.ts";
import {
  type Coding,
  codingOf,
  compress,
  compressParts,
  mayBeCompressed,
  STREAM_BYTES,
} from "../../gate/pipeline/compression.ts";
import type { Destination as HttpDestination } from "../../gate/pipeline/exchange.ts";
import type { HttpEnvelope } from "../../gate/pipeline/pipeline.ts";
import { type ClientGone, endAndFree, endWith, hasNoContent, sendText } from "../../gate/pipeline/response.ts";
import { PAGE_HEADERS } from "../../gate/pipeline/security-headers.ts";
import { CHALLENGE, Problem, RETRY_SECONDS } from "../../problems/problem.ts";
import type { Span } from "../../telemetry/span.ts";
import { contentTag, isNotModified, tagIn, tagOfCopy } from "../conventions/conditional.ts";
import { type Header, replaced } from "../conventions/headers.ts";
import type { Answer, StreamedAnswer } from "./answer/answer.ts";
import { internalProblem, problemOf } from "./answer/error-mapping.ts";
import { type TableProblem, tableAnswer } from "./problem.ts";

const JSON_TYPE = "application/json; charset=utf-8";
/** The request headers that a response depends on. */
const VARY = "Origin, Accept, Prefer, Range, Authorization, apikey, Accept-Profile, X-API-Key, Cookie, Accept-Encoding";

/** Where a response is sent. */
export type Destination = HttpDestination & { readonly stopwatch?: Stopwatch | null };

/** The form of the errors of the table interface. */
export const TABLES: HttpEnvelope = {
  reject: (destination, problem) => sendTableProblem(destination, tableAnswer(problem)),
};

/** Sends an answer, or 304 if the client already has it. */
export function sendAnswer(destination: Destination, answered: Answer): Promise<void> | void {
  const { request } = destination;
  const etag = tagOf(request.method!, answered);
  if (etag !== null && isNotModified(request.headers, { etag, lastModified: null }))
    return sendAs(destination, answered, notModified(answered), ["ETag", tagOfCopy(request.headers, etag)]);
  const coding = answered.body && codingOfAnswer(request, answered, answered.body.length);
  if (coding) return sendCompressed(destination, answered, etag, coding);
  sendAs(destination, answered, answered, etag === null ? [] : ["ETag", etag]);
}

async function sendCompressed(destination: Destination, answered: Answer, etag: string | null, coding: Coding) {
  const body = await compress(answered.body!, coding);
  if (answered.isDisposable) free(answered.body!);
  const tag = etag === null ? [] : ["ETag", tagIn(etag, coding)];
  sendAs(destination, answered, { ...answered, body, isDisposable: true }, ["Content-Encoding", coding, ...tag]);
}

/** Sends an answer as `sent`: whole, compressed or 304. In `more`, names and values alternate. */
function sendAs(
  { request, response, head, stopwatch }: Destination,
  answered: Answer,
  sent: Answer,
  more: string[],
): void {
  const { body } = sent;
  const common = isPage(answered) ? replaced(head.headers, pairsOf(PAGE_HEADERS)) : head.headers;
  const isBodiless = hasNoBody(request, sent.status);
  if (!isBodiless) more.push("Content-Length", String(body?.length ?? 0));
  writeHead(response, sent, common, more, stopwatch);
  if (isBodiless || body === null) response.end();
  else if (sent.isDisposable) endAndFree(response, body);
  else endWith(response, body);
}

/** Headers of a function that describes itself how its result is sent. */
const OF_REPRESENTATION = /^(?:content-(?:encoding|length|digest)|(?:repr-)?digest|etag|vary)$/i;

/** The coding of an answer of so many bytes. A part of the rows is not compressed: clients could take it as a part of the bytes. */
function codingOfAnswer(request: IncomingMessage, { status, headers, given }: Answer, bytes: number): Coding | null {
  if (!mayBeCompressed(request, bytes) || status >= 300 || status === 206) return null;
  if (given?.some(([name, value]) => OF_REPRESENTATION.test(name) || /\bno-transform\b/i.test(value))) return null;
  const type = [...(given ?? []), ...headers].find(([name]) => name.toLowerCase() === "content-type");
  return type ? codingOf(request, type[1], bytes) : null;
}

/** Writes the head of an answer. In `common` and `more`, names and values alternate. */
function writeHead(
  response: Destination["response"],
  { status, headers, given }: Omit<Answer, "body">,
  common: readonly string[],
  more: readonly string[],
  stopwatch: Destination["stopwatch"],
): void {
  const all = [...common, "Cache-Control", "private, no-cache", "Vary", VARY];
  for (const [name, value] of headers) all.push(name, value);
  all.push(...more);
  if (stopwatch) all.push("Server-Timing", stopwatch.text);
  response.writeHead(status, given ? replaced(all, given) : all);
}

/**
 * Sends an answer whose body arrives in parts, each when the client has taken the one before it. Without a length the body is
 * sent in chunks, so that a client can tell a broken response from a complete one.
 */
export async function sendStream(
  destination: Destination,
  { answer, parts, queue, close }: StreamedAnswer,
  { gone, network, budget, slowStreams }: StreamSending,
): Promise<void> {
  const { request, response, head, stopwatch } = destination;
  const unread = budget.hold(network, "streams", response);
  const unwatch = slowStreams.watch({ response, network, queue });
  const coding = codingOfAnswer(request, answer, Number.POSITIVE_INFINITY);
  if (coding) unread.add(STREAM_BYTES);
  try {
    writeHead(response, answer, head.headers, coding ? ["Content-Encoding", coding] : [], stopwatch);
    for await (const part of coding ? compressParts(parts, coding) : parts) {
      unread.add(part.length);
      const release = () => unread.give(part.length);
      await gone.unless(new Promise<void>((taken) => response.write(part, () => taken()))).finally(release);
    }
    response.end();
  } finally {
    unread.close();
    await close().finally(unwatch);
  }
}

type StreamSending = {
  readonly gone: ClientGone;
  /** That of the client. */
  readonly network: string;
  readonly budget: ByteBudget;
  readonly slowStreams: SlowStreams;
};

/** Larger bodies have no entity tag, because hashing takes a microsecond per 1000 bytes. */
export const MAX_TAGGED_BYTES = 262_144;

/**
 * The entity tag of a successful read: the tag that a function has set, otherwise a hash of the body. Null for changes,
 * for large bodies, and for HEAD, for which no body is produced.
 */
function tagOf(method: string, { status, headers, given, body }: Answer): string | null {
  const isRead = (method === "GET" || method === "HEAD" || method === "QUERY") && (status === 200 || status === 206);
  if (!isRead) return null;
  const own = given?.find(([name]) => name.toLowerCase() === "etag");
  if (own) return own[1];
  if (body === null || body.length > MAX_TAGGED_BYTES) return null;
  const tag = contentTag(body);
  const total = totalIn(headers);
  // The total is part of the tag. Otherwise 304 would confirm a cached response with an outdated total.
  return total === null ? tag : `${tag.slice(0, -1)}.${total}"`;
}

/** `0-9/42` → `42`; null when there is no total. */
function totalIn(headers: Answer["headers"]): string | null {
  const range = headers.find(([name]) => name === "Content-Range")?.[1];
  return range === undefined || range.endsWith("/*") ? null : range.slice(range.indexOf("/") + 1);
}

/** Headers that describe the body, which the client already has. Source: RFC 9110, 15.4.5. */
const OF_CONTENT = /^(content-(type|length|range|profile|encoding|language|disposition)|etag)$/i;

/** 304, for a client that already has the body. The caller adds the entity tag. */
function notModified({ headers, given }: Answer): Answer {
  const kept = ([name]: readonly [string, string]) => !OF_CONTENT.test(name);
  return { status: 304, headers: headers.filter(kept), ...(given && { given: given.filter(kept) }), body: null };
}

const hasNoBody = ({ method }: IncomingMessage, status: number) => method === "HEAD" || hasNoContent(status);

/** Functions can return pages. */
const isPage = ({ headers, given }: Answer): boolean => headers.some(isHtml) || given?.some(isHtml) === true;

const isHtml = ([name, value]: Header): boolean =>
  value.startsWith("text/html") && name.toLowerCase() === "content-type";

/** `["A", "1", "B", "2"]` → `[["A", "1"], ["B", "2"]]` */
const pairsOf = (list: readonly string[]): Header[] =>
  list.flatMap((name, i) => (i % 2 === 0 ? [[name, list[i + 1]!] as const] : []));

/** `{"code":"PGRST116","message":…,"details":…,"hint":…}` */
export const tableProblemBody = ({ code, message, details, hint, fields }: TableProblem) => ({
  code,
  message,
  details: details ?? null,
  hint: hint ?? null,
  fields,
});

/** Sends a problem, formatted as PostgREST formats its errors. */
export function sendTableProblem({ request, response, head }: Destination, problem: TableProblem): void {
  const { status, statusText, code, headers = {} } = problem;
  head.notes.code = code;
  const proxyStatus = `content-service; error=${tokenOf(code)}`;
  const all = [...head.headers, "Content-Type", JSON_TYPE, "Cache-Control", "no-store", "Proxy-Status", proxyStatus];
  if (status === 401) all.push("WWW-Authenticate", CHALLENGE);
  if (status === 503 || status === 429) all.push("Retry-After", String(RETRY_SECONDS));
  if (statusText !== undefined) response.statusMessage = statusText;
  const given = Object.entries(headers);
  const sent = given.length > 0 ? replaced(all, given) : all;
  sendText(response, status, sent, JSON.stringify(tableProblemBody(problem)));
  // The unread rest of the body would block the next request on the connection.
  if (!request.complete) request.resume();
}

/** Errors of another interface in the form of the table interface. */
export const tableErrors = (catalog: { readonly current: Catalog }) => ({
  ...TABLES,
  /** `code` replaces that of a Problem. Returns whether the error is internal. */
  sendError(destination: Destination, error: unknown, code: string | null): boolean {
    const problem =
      code !== null && error instanceof Problem
        ? { status: error.status, code, message: error.message }
        : problemOf(error, { isAnonymous: false, role: null, plan: null, refused: [], catalog: catalog.current });
    sendTableProblem(destination, problem ?? internalProblem(destination.head.requestId));
    return problem === null || problem.status === 500;
  },
});

/** The code that a function raises may contain any character; a header may not. */
const tokenOf = (code: string) => code.replace(/[^\w!#$%&'*+.^`|~-]/g, "_");

/** The database traces these stages itself. */
const TRACED: ReadonlySet<string> = new Set(["wait", "transaction"]);

/** Measures the stages of one request, for the header Server-Timing. The names are PostgREST's; `wait` is only here. */
export class Stopwatch {
  #last = performance.now();
  #text = "";
  readonly #span: Span | null;

  /** `span` is that of the request, whose children the stages become; null when it is not traced. */
  constructor(span: Span | null) {
    this.#span = span;
  }

  /** Ends the stage of this name. */
  mark(name: string): void {
    const now = performance.now();
    if (this.#span && !TRACED.has(name)) this.#span.child(name, {}, this.#last).end(now);
    if (this.#text !== "") this.#text += ", ";
    this.#text += `${name};dur=${(now - this.#last).toFixed(2)}`;
    this.#last = now;
  }

  /** `jwt;dur=0.03, parse;dur=0.02, plan;dur=0.01, wait;dur=0.05, transaction;dur=0.61, response;dur=0.01` (milliseconds) */
  get text(): string {
    return this.#text;
  }
}
