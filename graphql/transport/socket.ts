import { GRAPHQL_TRANSPORT_WS_PROTOCOL, makeServer, type SubscribePayload } from "graphql-ws";
import { GraphQLError } from "postgraphile/graphql";
import type { RawData, WebSocket } from "ws";
import type { ByteBudget, Holder, Holding } from "../../db/admission/byte-budget.ts";
import type { TableName } from "../../db/catalog/catalog.ts";
import type { ConstraintMessages } from "../../db/errors.ts";
import type { IdentityChange } from "../../db/follow/notifications.ts";
import { networkOf } from "../../db/network.ts";
import { Problem, problem } from "../../db/problems/problem.ts";
import type { SocketExchange, SocketRoute } from "../../http/limits/upgrade-gate.ts";
import { parseJson } from "../../http/pipeline/body.ts";
import { recipientOf } from "../../http/pipeline/recipient.ts";
import { contextOf } from "../../http/pipeline/request.ts";
import { type SocketCaller, SocketCallers } from "../../identity/socket-caller.ts";
import type { Span, Tracer } from "../../telemetry/span.ts";
import type { Engine } from "../execute/engine.ts";
import { asGraphQLError, type ErrorFormat, formatError } from "../execute/errors.ts";
import { attributesOf, type Operation } from "../execute/operation.ts";
import { refuseInvalid, socketCaller } from "./caller.ts";
import { requestOf } from "./request.ts";

export type GraphQLSocketOptions = {
  readonly engine: Engine;
  readonly anonymousRole: string;
  /** Maximum concurrent operations on one socket. */
  readonly maxSubscriptions: number;
  /** Maximum bytes buffered for a slow client, without the results of queries and mutations. */
  readonly maxBufferedBytes: number;
  /** Counts what clients make the service hold. */
  readonly budget: ByteBudget;
  /** Null when operations are not traced. */
  readonly tracer: Tracer | null;
  /** Maximum nesting of brackets in a message. */
  readonly maxDepth: number;
  constraintMessages(): ConstraintMessages;
  mayRead(role: string, table: TableName): boolean;
  /** Calls back when the rights of a user, session or key have changed. */
  onIdentityChange(listener: (change: IdentityChange) => void): void;
  onInternalError(error: unknown, requestId: string): void;
};

/** One WebSocket connection. */
type Session = SocketExchange & {
  readonly socket: WebSocket;
  /** Aborted when the socket closes. */
  readonly closed: AbortSignal;
  /** Ends the socket if memory is short. */
  readonly holder: Holder;
  /** Null until the client has sent `connection_init`. */
  caller: SocketCaller | null;
  /** Bytes that the client has not taken yet: of results of queries and mutations, and of all other messages. */
  readonly unread: { readonly results: Holding; readonly others: Holding };
  /** Whether the next message that is sent counts as such a result. */
  sendsResult: boolean;
};

/** What `onSubscribe` has prepared, as graphql-ws passes it to the later hooks. */
type Arguments = {
  readonly operation: Operation;
  readonly extra: Session;
  /** Whether the operation has read rows. If so, the limits of unread results applied to it before it got a connection. */
  hasReadRows: boolean;
};

/** The message types that a client may send. Only the server sends the others. */
const CLIENT_TYPES: ReadonlySet<unknown> = new Set(["connection_init", "ping", "pong", "subscribe", "complete"]);

const BAD_REQUEST = 4400;
const FORBIDDEN = 4403;
/** Maximum length of the reason in a close frame. */
const MAX_REASON = 123;
const TOO_SLOW = 4429;

/** GraphQL over WebSocket (`graphql-transport-ws`): queries, mutations and subscriptions under the same rules as over HTTP. */
export function graphqlSocket(options: GraphQLSocketOptions): SocketRoute {
  const { engine } = options;
  const callers = new SocketCallers(options.onIdentityChange);
  const protocol = makeServer<Record<string, unknown>, Session>({
    onConnect: ({ extra, connectionParams }) => authenticate(extra, connectionParams, callers, options),
    onSubscribe: ({ extra, subscriptions }, _id, payload) => {
      const refusal = extra.countOperation(extra.identity.nameOf(extra.caller!.current));
      if (refusal !== null) return [asGraphQLError(refusal)];
      if (Object.keys(subscriptions).length > options.maxSubscriptions)
        return [asGraphQLError(problem("too many operations", { max: options.maxSubscriptions }))];
      const operation = prepare(engine, payload);
      if ("errors" in operation) return operation.errors;
      // graphql-ws passes this to execute and subscribe below.
      return {
        schema: engine.schema,
        document: operation.document,
        operationName: operation.operationName,
        operation,
        extra,
        hasReadRows: false,
      } as never;
    },
    execute: (args) => start(args, options),
    subscribe: (args) => start(args, options),
    onNext({ extra }, _id, _payload, args, { errors, ...result }) {
      const payload = {
        ...result,
        ...(errors && { errors: errors.map((error) => formatError(error, formatFor(extra, options))) }),
      };
      const { operation, hasReadRows } = args as unknown as Arguments;
      if (operation.kind === "subscription") return payload;
      return resultOf(extra, payload, () => hasReadRows || !isOverLimits(extra, options));
    },
    onError: ({ extra }, _id, _payload, errors) => errors.map((error) => formatError(error, formatFor(extra, options))),
  });

  return {
    path: "/graphql",
    protocol: GRAPHQL_TRANSPORT_WS_PROTOCOL,
    accept(socket, exchange) {
      const closed = new AbortController();
      socket.once("close", () => closed.abort(new Error("the client has gone away")));
      const network = networkOf(exchange.identity.address);
      const holder = { destroy: () => socket.terminate() };
      const unread = {
        results: options.budget.hold(network, "responses", holder),
        others: options.budget.hold(network, "messages", holder),
      };
      socket.once("close", () => {
        unread.results.close();
        unread.others.close();
      });
      const session: Session = {
        ...exchange,
        ...{ socket, closed: closed.signal, holder, caller: null, unread, sendsResult: false },
      };
      const onClose = protocol.opened(
        {
          protocol: socket.protocol,
          send: (text) => send(session, text, options),
          close: (code, reason) => socket.close(code, reason),
          onMessage: (listener) => socket.on("message", (data) => receive(session, data, listener, options)),
        },
        session,
      );
      const onCloseError = (error: unknown) => options.onInternalError(error, session.requestId);
      socket.once("close", (code, reason) => void onClose(code, reason.toString()).catch(onCloseError));
    },
  };
}

/**
 * Resolves the caller from the upgrade request and the payload of `connection_init`. False makes graphql-ws close the
 * socket with 4403, unless it is closed already.
 */
async function authenticate(
  session: Session,
  payload: Readonly<Record<string, unknown>> = {},
  callers: SocketCallers,
  options: GraphQLSocketOptions,
): Promise<boolean> {
  const { identity, socket } = session;
  const resolve = () => socketCaller(identity, payload, options.anonymousRole);
  try {
    const caller = callers.open(refuseInvalid(await resolve(), payload), {
      resolve,
      onEnded: (message) => socket.close(FORBIDDEN, message),
    });
    session.caller = caller;
    session.closed.addEventListener("abort", () => caller.close());
    // Closed while the caller was looked up.
    if (session.closed.aborted) caller.close();
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    socket.close(FORBIDDEN, error.message.slice(0, MAX_REASON));
    return false;
  }
}

/** While there is no schema, each operation fails and the socket stays open. */
function prepare(engine: Engine, payload: SubscribePayload): ReturnType<Engine["prepare"]> {
  try {
    return engine.prepare(requestOf(payload));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { errors: [asGraphQLError(error)] };
  }
}

async function start(args: unknown, { engine, tracer }: GraphQLSocketOptions) {
  const started = args as Arguments;
  const { operation, extra } = started;
  // The check has closed the socket, so this error is not sent.
  if (!(await extra.caller!.check())) return { errors: [new GraphQLError("signed out")] };
  const caller = extra.caller!.current;
  const recipient = recipientOf(extra.identity, caller, extra.holder);
  const plain = contextOf(extra.request, "/graphql", {
    recipient,
    showsCredentials: extra.identity.showsCredentials,
  });
  const span = tracer && startSpan(tracer, operation, extra);
  const request = span ? { ...plain, span, requestId: extra.requestId } : plain;
  try {
    const result = await engine.start(operation, { caller, request }, extra.closed, operation.after);
    if ("errors" in result && result.errors) span?.fail(result.errors[0]!.message);
    started.hasReadRows = recipient.bytes > 0;
    return result;
  } finally {
    span?.end();
    // Closed after this turn of the event loop, in which `send` counts the message: no waiting request is admitted before that.
    setImmediate(() => recipient.close());
  }
}

/** Traces an operation like a request over HTTP. For a subscription, only the start is traced, not the events. */
function startSpan(tracer: Tracer, operation: Operation, { request, requestId }: Session): Span | null {
  const { kind, name } = operation;
  const attributes = { ...attributesOf(operation), "url.path": "/graphql", "request.id": requestId };
  return tracer.start(name === null ? kind : `${kind} ${name}`, request.headers, attributes);
}

async function receive(
  session: Session,
  data: RawData,
  listener: (message: never) => Promise<void>,
  options: GraphQLSocketOptions,
): Promise<void> {
  const { socket, requestId } = session;
  // Messages that arrive after the close frame was sent are ignored.
  if (socket.readyState !== socket.OPEN) return;
  let message: { readonly type?: unknown; readonly payload?: Record<string, unknown> } | null;
  try {
    message = parseJson(data as Buffer, options.maxDepth) as typeof message;
  } catch {
    return socket.close(BAD_REQUEST, "the message is not valid JSON");
  }
  if (!CLIENT_TYPES.has(message?.type))
    return socket.close(BAD_REQUEST, "the message type is not allowed for a client");
  // graphql-ws refuses a message without a query; a trusted document has an id instead.
  const payload = message?.type === "subscribe" ? message.payload : undefined;
  if (payload?.query === undefined && namesDocument(payload)) payload!.query = "";
  try {
    await listener(message as never);
  } catch (error) {
    options.onInternalError(error, requestId);
    socket.close(1011, "internal error");
  }
}

const namesDocument = (payload: Record<string, any> | undefined): boolean =>
  payload?.documentId != null || payload?.extensions?.persistedQuery != null;

/** The result of a query or mutation. graphql-ws writes it as JSON just before it sends it: only then is `mayWait` called. */
const resultOf = <T extends object>(session: Session, payload: T, mayWait: () => boolean) => ({
  ...payload,
  toJSON() {
    session.sendsResult = mayWait();
    return payload;
  },
});

/** Whether the client reads slowly, and the limits of unread results are reached. */
function isOverLimits({ unread, identity }: Session, { maxBufferedBytes, budget }: GraphQLSocketOptions): boolean {
  return unread.results.bytes > maxBufferedBytes && budget.limitReached(networkOf(identity.address)) !== null;
}

/**
 * Sends a message. The client requests results, so a large one may take its time, like a response over HTTP. The client does not
 * request events one by one: if it does not take them, it is disconnected. So is a client that requests more and more results that
 * need no database, such as those of introspection, because no other limit applies to them.
 */
async function send(session: Session, text: string, { maxBufferedBytes }: GraphQLSocketOptions): Promise<void> {
  const { socket, unread } = session;
  const kind = session.sendsResult ? "results" : "others";
  session.sendsResult = false;
  if (socket.readyState !== socket.OPEN) return;
  // The socket's own count, `bufferedAmount`, is of characters.
  if (kind === "others" && unread.others.bytes > maxBufferedBytes)
    return socket.close(TOO_SLOW, "the client reads too slowly");
  const bytes = Buffer.byteLength(text);
  // The limits applied to a result before it was read from the database.
  if (kind === "results") unread.results.add(bytes);
  else if (!unread.others.send(bytes)) return;
  socket.send(text, () => unread[kind].give(bytes));
}

function formatFor({ caller, requestId }: Session, options: GraphQLSocketOptions): ErrorFormat {
  const { role, refused } = caller!.current;
  return {
    constraintMessages: options.constraintMessages(),
    mayRead: (table) => options.mayRead(role, table),
    anonymous: role === options.anonymousRole,
    refused,
    requestId,
    onInternalError: (error) => options.onInternalError(error, requestId),
  };
}
