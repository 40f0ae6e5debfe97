import type { IncomingMessage } from "node:http";
import type { Result } from "../../../db/transaction/transaction.ts";
import { codingOf, compress } from "../../../gate/pipeline/compression.ts";
import { endWith, sendText } from "../../../gate/pipeline/response.ts";
import { type Problem, problem } from "../../../problems/problem.ts";
import { contentTag, isNotModified, lastModifiedText, tagIn, tagOfCopy } from "../../conventions/conditional.ts";
import type { DataExchange } from "../../conventions/data-interface.ts";
import { answerOf, type RestAnswer } from "../../conventions/endpoint.ts";
import type { Header } from "../../conventions/headers.ts";
import { answerList } from "../../conventions/paging.ts";
import { type ErrorDialect, problemBody, problemHeaders, restAnswer } from "../../conventions/problem.ts";
import type { Lifecycle } from "../../conventions/version.ts";
import { noSuchRow } from "../problem.ts";
import { isOfOneRow, type NamedDialect, type Preferences, type RequestText, type ResourceRequest } from "../request.ts";
import type { Resource } from "../resource.ts";
import { RESULT, reasonOf, textAt } from "../runner.ts";

/** The row of the statement as a response. Throws Problem when nothing was read or written. */
export function answer(request: ResourceRequest, result: Result, sent: RequestText): RestAnswer {
  const { operation, resource } = request;
  const reason = reasonOf(result, request);
  if (reason === "missing") throw noSuchRow(missingOf(request));
  if (reason === "stale") throw problem("record changed");
  if (reason === "forbidden") {
    const action = operation.kind === "delete" ? "delete" : "change";
    throw problem("action not permitted", { action, singular: resource.description.singular });
  }

  const row = result.rows[0];
  const text = (column: number) => textAt(row, column);
  const body = row![RESULT.body] ?? null;
  if (operation.kind === "delete") return answerOf(204);
  if (operation.kind === "list") {
    const { paging } = operation;
    if (paging.form === "export") return answerOf(200, body);
    return answerList(paging, body!, Number(text(RESULT.total)), pathOf(sent), sent.parameters);
  }
  if (operation.kind === "create" && operation.isMany) return answerOf(201, body);
  const created = operation.kind === "create";
  const headers: Header[] = created ? [["Location", locationOf(request, text(RESULT.id)!)]] : [];
  const modified = text(RESULT.modified);
  return {
    ...answerOf(created ? 201 : 200, body, headers),
    etag: etagOf(request, text(RESULT.version), body!),
    lastModified: modified === null || !isOfOneRow(request.selection) ? null : new Date(Number(modified) * 1000),
  };
}

/** What is missing: the record, or the parent of the collection. */
const missingOf = ({ operation, resource }: ResourceRequest): Resource =>
  ("parent" in operation && operation.parent?.resource) || resource;

/** The path of page links: that of the same version, however it was chosen. */
const pathOf = ({ style, path, prefix }: RequestText): string => style.prefix + path.slice(prefix.length);

export const locationOf = ({ resource, style }: ResourceRequest, id: string): string =>
  `${style.prefix}/${resource.description.name}/${id}`;

/** `"v1-734"`: the form of the response and the version of the row. If the response shows other rows too, a hash of the body. */
function etagOf({ style, selection }: ResourceRequest, version: string | null, body: Buffer): string {
  if (version === null || !isOfOneRow(selection)) return contentTag(body);
  return `"v${style.version}${style.version === 1 && style.isCamel ? "c" : ""}-${version}"`;
}

const VARY =
  "Origin, Accept, Prefer, X-API-Version, Accept-Version, Authorization, apikey, X-API-Key, Cookie, Accept-Encoding";

export type ResourceExchange = DataExchange & {
  readonly preferences: Preferences;
  text: RequestText | null;
  parsed: ResourceRequest | null;
};

/** Sends an answer, or 304 if the client has it already. */
export async function sendAnswer(exchange: ResourceExchange, given: RestAnswer, lifecycle: Lifecycle): Promise<void> {
  const { request, response, head } = exchange;
  const { style, contentType } = exchange.text!;
  const answer = lifecycle.isDeprecated(style.version) ? withDeprecation(given, lifecycle.block) : given;
  const { etag, lastModified, body } = answer;
  const all = [...head.headers, "Cache-Control", "private, no-cache", "Vary", VARY];
  for (const [name, value] of headersOf(exchange, lifecycle, false)) all.push(name, value);
  for (const [name, value] of answer.headers) all.push(name, value);
  if (lastModified !== null) all.push("Last-Modified", lastModifiedText(lastModified));
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (isRead && answer.status === 200 && isNotModified(request.headers, answer)) {
    if (etag !== null) all.push("ETag", tagOfCopy(request.headers, etag));
    response.writeHead(304, all);
    response.end();
  } else {
    const coding = body === null ? null : codingOf(request, contentType, body.length);
    if (etag !== null) all.push("ETag", tagIn(etag, coding));
    const isSent = body !== null && request.method !== "HEAD";
    const sent = isSent && coding !== null ? await compress(body, coding) : body;
    if (sent !== null) all.push("Content-Type", contentType);
    if (coding !== null) all.push("Content-Encoding", coding);
    // The length of a compressed body is only known when it is compressed.
    if (sent !== null && (isSent || coding === null)) all.push("Content-Length", String(sent.length));
    response.writeHead(answer.status, all);
    if (isSent) endWith(response, sent!);
    else response.end();
  }
  finishReading(request);
}

/** Sends a problem in the dialect that the client prefers. */
export function sendProblem(exchange: ResourceExchange, problem: Problem, lifecycle: Lifecycle): void {
  const { request, response, head } = exchange;
  head.notes.code = problem.code;
  const answered = restAnswer(problem);
  const headers = headersOf(exchange, lifecycle, true);
  const all = [...head.headers, "Vary", VARY, ...headers.flat(), ...problemHeaders(answered)];
  sendText(response, problem.status, all, problemBody(answered, head.requestId, errorDialect(exchange.preferences)));
  finishReading(request);
}

/** The unread rest of a body would block the next request on the connection. */
function finishReading(request: IncomingMessage): void {
  if (!request.complete) request.resume();
}

/** Headers of every response to the request, whether it fails or not. */
function headersOf(exchange: ResourceExchange, lifecycle: Lifecycle, isProblem: boolean): Header[] {
  const { text } = exchange;
  const headers: Header[] = [];
  if (text) headers.push(["X-API-Version", String(text.style.version)]);
  const applied = appliedPreferences(exchange, isProblem);
  if (applied !== "") headers.push(["Preference-Applied", applied]);
  if (text && lifecycle.isDeprecated(text.style.version))
    headers.push(...lifecycle.headers(text.path.slice(text.prefix.length)));
  return headers;
}

type Applies = (exchange: ResourceExchange, isProblem: boolean) => boolean;

/** Whether a dialect that the client names has an effect on the response. */
const APPLIES: Readonly<Record<NamedDialect, Applies>> = {
  detail: (_, isProblem) => isProblem,
  flat: ({ preferences }, isProblem) => isProblem && !preferences.dialects.has("detail"),
  envelope: ({ parsed }, isProblem) =>
    !isProblem && parsed?.operation.kind === "list" && parsed.operation.paging.form === "skip and limit",
  partial: ({ request }) => request.method === "PUT",
  case: ({ text }) => text?.style.version === 1,
  none: () => true,
};

/** The header Preference-Applied; "" for none. */
function appliedPreferences(exchange: ResourceExchange, isProblem: boolean): string {
  const { named, handling, read } = exchange.preferences;
  const dialects = [...named].filter((name) => APPLIES[name](exchange, isProblem)).map((name) => `dialect=${name}`);
  const others = [
    ["handling", handling],
    ["read", exchange.request.method === "GET" || exchange.request.method === "HEAD" ? read : null],
  ].filter(([, value]) => value !== null);
  return [...dialects, ...others.map((pair) => pair.join("="))].join(", ");
}

export function errorDialect({ dialects }: Preferences): ErrorDialect {
  if (dialects.has("detail")) return "detail";
  return dialects.has("flat") ? "flat" : "nested";
}

const OBJECT_END = 0x7d;

/** Adds the member `deprecation`, where the body is an object that could have one. */
function withDeprecation(answer: RestAnswer, block: object): RestAnswer {
  const { body } = answer;
  if (body === null || body.at(-1) !== OBJECT_END) return answer;
  const isEmpty = body.toString().trim() === "{}";
  const member = `${isEmpty ? "" : ","}"deprecation":${JSON.stringify(block)}}`;
  return { ...answer, body: Buffer.concat([body.subarray(0, -1), Buffer.from(member)]) };
}
