import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { ExecutionResult, GraphQLError, GraphQLFormattedError } from "postgraphile/graphql";
import type { Caller, RefusedCredential } from "../../db/caller.ts";
import { loginRequired, type MessageContext } from "../../db/errors.ts";
import { type BodyLimits, parseJson, readJson } from "../../gate/pipeline/body.ts";
import { contextOfExchange, type Exchange, type Head } from "../../gate/pipeline/exchange.ts";
import type { HttpInterface } from "../../gate/pipeline/pipeline.ts";
import { ClientGone } from "../../gate/pipeline/response.ts";
import { invalidToken, Problem, problem } from "../../problems/problem.ts";
import { type ErrorFormat, formatError, throwRefusal } from "../execute/errors.ts";
import { attributesOf, type GraphQLRequest } from "../execute/operation.ts";
import { graphqlCaller, refuseInvalid } from "./caller.ts";
import {
  type Answer,
  GRAPHQL,
  type MediaType,
  mediaTypeOf,
  refusal,
  refusalOf,
  sendAnswer,
  wantsEvents,
  writeResult,
} from "./envelope.ts";
import { requestOf } from "./request.ts";
import { type StreamOptions, sendEvents } from "./stream.ts";

export type GraphQLHttpOptions = StreamOptions & {
  readonly limits: BodyLimits;
  /** HTTP status of an answer with an INTERNAL_ERROR. */
  readonly internalStatus: number;
  messagesFor(role: string): MessageContext;
  onInternalError(error: unknown, requestId: string): void;
};

const ALLOW = "GET, POST, OPTIONS";

/**
 * GraphQL over HTTP: POST with a JSON body, or GET with a query. With application/json, every well-formed request gets
 * status 200. With application/graphql-response+json, a document that cannot be executed gets 400.
 */
export const graphqlInterface = (options: GraphQLHttpOptions): HttpInterface => ({
  ...GRAPHQL,
  async handle(exchange) {
    const { request, response, head } = exchange;
    head.notes.route = "/graphql";
    // CORS has answered a preflight.
    if (request.method === "OPTIONS") return void response.writeHead(204, [...head.headers, "Allow", ALLOW]).end();
    const mediaType = mediaTypeOf(request.headers.accept);
    const answered = await answerTo(exchange, mediaType, options);
    if (answered) await sendAnswer(exchange, mediaType, answered);
  },
});

/** Null if the results are sent as events, which have begun. */
async function answerTo(exchange: Exchange, mediaType: MediaType, options: GraphQLHttpOptions): Promise<Answer | null> {
  const { request, response, head } = exchange;
  try {
    const graphqlRequest = await readRequest(request, response, options.limits);
    return await run(graphqlRequest, exchange, mediaType, options);
  } catch (error) {
    if (error instanceof Problem) return refusalOf(error, exchange);
    if (response.destroyed) throw error;
    const { requestId } = head;
    head.notes.code = "INTERNAL_ERROR";
    options.onInternalError(error, requestId);
    const { status, code, message } = problem("internal error");
    return refusal(mediaType === "application/json" ? options.internalStatus : status, code, message, { requestId });
  }
}

async function run(
  graphqlRequest: GraphQLRequest,
  exchange: Exchange,
  mediaType: MediaType,
  options: GraphQLHttpOptions,
): Promise<Answer | null> {
  const { request, response, head, identity: requestIdentity } = exchange;
  const { engine } = options;
  const caller = await graphqlCaller(requestIdentity, options.anonymousRole);
  // The operation runs without a caller, so that the client would not notice.
  if (caller.refused !== null) response.setHeader("WWW-Authenticate", invalidToken(caller.refused.message));
  let made: ErrorFormat | null = null;
  const format = () => (made ??= formatFor(caller, head, options));
  const requestErrors = (errors: readonly GraphQLError[]) => answerErrors(errors, format(), mediaType, options);

  const operation = await engine.prepare(graphqlRequest, head.notes.span);
  if ("kind" in operation) head.notes.span?.set(attributesOf(operation));
  if ("kind" in operation && operation.kind === "mutation" && request.method === "GET") {
    response.setHeader("Allow", "POST");
    throw problem("POST only", { message: "a mutation must be sent with POST" });
  }
  if (wantsEvents(request.headers.accept)) {
    // A stream lasts for hours: its client would not notice that it is anonymous.
    if ("kind" in operation && operation.kind === "subscription") refuseInvalid(caller, request.headers);
    await sendEvents(exchange, operation, caller, format(), options);
    return null;
  }
  if ("errors" in operation) return requestErrors(operation.errors);
  if (operation.kind === "subscription")
    throw problem("invalid request", {
      message: "a subscription needs a WebSocket, or the header Accept: text/event-stream, at the same path",
    });

  const context = contextOfExchange(exchange, "/graphql", caller);
  const gone = new ClientGone(response);
  const result = await engine.execute(operation, { caller, request: context }, gone);
  // The client has disconnected: the errors of its cancelled queries must not be logged.
  if (gone.aborted) return { status: 200, body: "" };
  if (operation.kind === "query" && result.errors) throwRefusal(result.errors);
  if (result.data === undefined) return requestErrors(result.errors ?? []);
  const errors = result.errors?.map((error) => formatError(error, format()));
  const answered = answer(result, errors, caller, options.internalStatus);
  context.recipient!.atLeast(answered.body.length);
  const position = result.extensions?.changePosition as string | undefined;
  return position === undefined ? answered : { ...answered, headers: ["Change-Position", position] };
}

/** The answer to a request that is not executed. */
function answerErrors(
  errors: readonly GraphQLError[],
  format: ErrorFormat,
  mediaType: MediaType,
  { internalStatus }: GraphQLHttpOptions,
): Answer {
  const formatted = errors.map((error) => formatError(error, format));
  const [invalid, internal] = mediaType === "application/json" ? [200, internalStatus] : [400, 500];
  return { status: formatted.some(isInternal) ? internal : invalid, body: JSON.stringify({ errors: formatted }) };
}

function answer(
  result: ExecutionResult,
  errors: readonly GraphQLFormattedError[] | undefined,
  { refused }: Caller,
  internalStatus: number,
): Answer {
  const extensions = { ...result.extensions, ...(refused !== null && authOf(refused)) };
  const status = errors?.some(isInternal) ? internalStatus : 200;
  return { status, body: writeResult(result.data as string | null, errors, extensions) };
}

/** Tells a client whose credential is not valid that its operation has run without it: there may be fewer rows, and no error. */
function authOf(refused: RefusedCredential) {
  const { code, message } = loginRequired(refused);
  return { auth: { code, message } };
}

const isInternal = ({ extensions }: GraphQLFormattedError) => extensions?.code === "INTERNAL_ERROR";

const formatFor = (caller: Caller, { requestId, notes }: Head, options: GraphQLHttpOptions): ErrorFormat => ({
  ...options.messagesFor(caller.role),
  anonymous: caller.role === options.anonymousRole,
  refused: caller.refused,
  requestId,
  onFormatted: (code) => {
    notes.code ??= code;
  },
  onInternalError: (error) => options.onInternalError(error, requestId),
});

async function readRequest(
  request: IncomingMessage,
  response: ServerResponse,
  limits: BodyLimits,
): Promise<GraphQLRequest> {
  const { headers } = request;
  if (request.method === "POST") return located(requestOf(await readJson(request, limits)), headers);
  if (request.method === "GET") return located(requestOf(queryParameters(request, limits)), headers);
  response.setHeader("Allow", ALLOW);
  throw problem("POST only", { message: "send a POST request, or a GET request with a query" });
}

/** Which servers may answer is also said by the headers of REST. */
const located = (request: GraphQLRequest, headers: IncomingHttpHeaders): GraphQLRequest => ({
  ...request,
  readsAfter: request.readsAfter ?? headers["change-position"]?.toString(),
  read: READ_PRIMARY.test(headers.prefer?.toString() ?? "") ? "primary" : request.read,
});

/** A preference among others: `Prefer: handling=lenient, read=primary` */
const READ_PRIMARY = /(?:^|,)\s*read="?primary"?\s*(?:[,;]|$)/i;

function queryParameters(request: IncomingMessage, limits: BodyLimits): unknown {
  const [, search] = /\?(.*)/s.exec(request.url ?? "") ?? [];
  const searchParams = new URLSearchParams(search);
  const text = (name: string) => searchParams.get(name) ?? undefined;
  const json = (name: string) => {
    const value = searchParams.get(name);
    return value === null ? undefined : parseJson(Buffer.from(value), limits.jsonMaxDepth);
  };
  return {
    query: text("query"),
    documentId: text("documentId"),
    operationName: text("operationName"),
    variables: json("variables"),
    extensions: json("extensions"),
  };
}
