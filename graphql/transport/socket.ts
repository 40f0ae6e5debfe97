import { CloseCode, GRAPHQL_TRANSPORT_WS_PROTOCOL, makeServer, type SubscribePayload } from "graphql-ws";
import { GraphQLError } from "postgraphile/graphql";
import type { RawData, WebSocket } from "ws";
import type { ByteBudget, Holder } from "../../db/admission/byte-budget.ts";
import type { MessageContext } from "../../db/errors.ts";
import type { IdentityChange } from "../../db/follow/notifications.ts";
import { CHARACTERS_PER_OPERATION } from "../../gate/limits/clients.ts";
import { type SocketExchange, type SocketRoute, TRY_AGAIN_LATER } from "../../gate/limits/upgrade-gate.ts";
import { contextOf, recipientOf } from "../../gate/pipeline/exchange.ts";
import { type SocketCaller, SocketCallers } from "../../identity/socket-caller.ts";
import { Problem, problem } from "../../problems/problem.ts";
import type { Span, Tracer } from "../../telemetry/span.ts";
import type { Engine } from "../execute/engine.ts";
import { asGraphQLError, type ErrorFormat, formatError } from "../execute/errors.ts";
import { attributesOf, type Operation } from "../execute/operation.ts";
import { refuseInvalid, socketCaller } from "./caller.ts";
import { clientMessageOf } from "./client-message.ts";
import { requestOf } from "./request.ts";
import { SocketSender } from "./socket-sender.ts";

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
  messagesFor(role: string): MessageContext;
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
  /** Whether the client has sent `connection_init`. */
  hasBegun: boolean;
  /** Null until it is known after `connection_init`. */
  caller: SocketCaller | null;
  readonly sender: SocketSender;
  /** Resolves when the next operation has been executed, or its events have begun. */
  started: PromiseWithResolvers<void>;
};

/** What `onSubscribe` has prepared, as graphql-ws passes it to the later hooks. */
type Arguments = {
  readonly operation: Operation;
  readonly extra: Session;
  /** Whether the operation has read rows. If so, the limits of unread results applied to it before it got a connection. */
  hasReadRows: boolean;
};

const BAD_REQUEST = 4400;
const FORBIDDEN = 4403;
/** The time in which a client has to send `connection_init`, in parts. */
const BEGIN_PARTS = 12;
const BEGIN_PART_MILLISECONDS = 250;
/** Maximum length of the reason in a close frame. */
const MAX_REASON = 123;

/** GraphQL over WebSocket (`graphql-transport-ws`): queries, mutations and subscriptions under the same rules as over HTTP. */
export function graphqlSocket(options: GraphQLSocketOptions): SocketRoute {
  const { engine } = options;
  const callers = new SocketCallers(options.onIdentityChange);
  const protocol = makeServer<Record<string, unknown>, Session>({
    // See closeSilent.
    connectionInitWaitTimeout: 0,
    onConnect: ({ extra, connectionParams }) => authenticate(extra, connectionParams, callers, options),
    onSubscribe: async ({ extra, subscriptions }, _id, payload) => {
      const refusal = countOperation(extra, payload);
      if (refusal !== null) return [refusal];
      if (Object.keys(subscriptions).length > options.maxSubscriptions)
        return [asGraphQLError(problem("too many operations", { max: options.maxSubscriptions }))];
      const operation = await prepare(engine, payload);
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
      return extra.sender.result(payload, hasReadRows);
    },
    onError: ({ extra }, _id, _payload, errors) => errors.map((error) => formatError(error, formatFor(extra, options))),
  });

  return {
    protocol: GRAPHQL_TRANSPORT_WS_PROTOCOL,
    accept(socket, exchange) {
      const closed = new AbortController();
      socket.once("close", () => closed.abort(new Error("the client has gone away")));
      const network = exchange.identity.network;
      const holder = { destroy: () => socket.terminate() };
      const { budget, maxBufferedBytes } = options;
      const sender = new SocketSender(socket, { network, budget, holder, maxBufferedBytes });
      socket.once("close", () => sender.close());
      const session: Session = {
        ...exchange,
        ...{ socket, closed: closed.signal, holder, hasBegun: false, caller: null, sender },
        started: Promise.withResolvers<void>(),
      };
      const onClose = protocol.opened(
        {
          protocol: socket.protocol,
          send: (message) => sender.send(message),
          close: (code, reason) => socket.close(code, reason),
          onMessage: (listener) =>
            exchange.onMessage((data) =>
              Promise.race([receive(session, data, listener, options), session.started.promise]),
            ),
        },
        session,
      );
      closeSilent(session);
      const onCloseError = (error: unknown) => options.onInternalError(error, session.requestId);
      socket.once("close", (code, reason) => void onClose(code, reason.toString()).catch(onCloseError));
    },
  };
}

/** Closes the socket of a client that does not begin. While the process is too busy to read what has arrived, no time passes. */
function closeSilent(session: Session): void {
  let left = BEGIN_PARTS;
  const timer = setInterval(() => {
    left -= 1;
    if (session.hasBegun || left === 0) clearInterval(timer);
    if (!session.hasBegun && left === 0)
      session.socket.close(CloseCode.ConnectionInitialisationTimeout, "Connection initialisation timeout");
  }, BEGIN_PART_MILLISECONDS);
  session.closed.addEventListener("abort", () => clearInterval(timer));
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
  session.hasBegun = true;
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
    socket.close(error.status < 500 ? FORBIDDEN : TRY_AGAIN_LATER, error.message.slice(0, MAX_REASON));
    return false;
  }
}

/** Counts an operation for RATE_LIMIT, before anything else is done for it. Returns why it is refused, or null. */
function countOperation(session: Session, { query }: SubscribePayload): GraphQLError | null {
  const { identity, caller } = session;
  const cost = 1 + Math.floor((query?.length ?? 0) / CHARACTERS_PER_OPERATION);
  const refusal = session.countOperation(identity.nameOf(caller!.current), cost);
  return refusal && asGraphQLError(refusal);
}

/** While there is no schema, each operation fails and the socket stays open. */
async function prepare(engine: Engine, payload: SubscribePayload): ReturnType<Engine["prepare"]> {
  try {
    return await engine.prepare(requestOf(payload));
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
  const { requestId } = extra;
  const span = tracer && startSpan(tracer, operation, extra);
  const request = span ? { ...plain, requestId, span } : { ...plain, requestId };
  try {
    const result = await engine.start(operation, { caller, request }, extra.closed, operation.after);
    if ("errors" in result && result.errors) span?.fail(result.errors[0]!.message);
    started.hasReadRows = recipient.bytes > 0;
    return result;
  } finally {
    extra.started.resolve();
    extra.started = Promise.withResolvers<void>();
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
  const message = clientMessageOf(data as Buffer, options.maxDepth);
  if (typeof message === "string") return socket.close(BAD_REQUEST, message);
  try {
    await listener(message as never);
  } catch (error) {
    options.onInternalError(error, requestId);
    socket.close(1011, "internal error");
  }
}

function formatFor({ caller, requestId }: Session, options: GraphQLSocketOptions): ErrorFormat {
  const { role, refused } = caller!.current;
  return {
    ...options.messagesFor(role),
    anonymous: role === options.anonymousRole,
    refused,
    requestId,
    onInternalError: (error) => options.onInternalError(error, requestId),
  };
}
