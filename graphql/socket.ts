import { GRAPHQL_TRANSPORT_WS_PROTOCOL, makeServer, type SubscribePayload } from "graphql-ws";
import { GraphQLError } from "postgraphile/graphql";
import type { RawData, WebSocket } from "ws";
import type { IdentityChange } from "../db/changes/feed.ts";
import { ApiError, type ConstraintMessages } from "../db/errors.ts";
import { parseJson } from "../http/body.ts";
import { contextOf } from "../http/request.ts";
import type { SocketExchange, SocketRoute } from "../http/upgrade-gate.ts";
import { socketCaller } from "./caller.ts";
import type { Engine } from "./engine.ts";
import { type ErrorFormat, formatError } from "./errors.ts";
import type { Operation } from "./operation.ts";
import { FORBIDDEN, SocketCaller } from "./socket-caller.ts";

export type GraphQLSocketOptions = {
  readonly engine: Engine;
  readonly anonymousRole: string;
  /** Operations that may run on one socket. */
  readonly maxSubscriptions: number;
  /** Bytes that may wait for a client that reads too slowly. */
  readonly maxBufferedBytes: number;
  /** Levels of brackets that a message may have. */
  readonly maxDepth: number;
  constraintMessages(): ConstraintMessages;
  /** Tells of callers whose rights have changed. */
  onIdentityChange(listener: (change: IdentityChange) => void): void;
  onInternalError(error: unknown, requestId: string): void;
};

/** One client: who it is becomes known when it says `connection_init`. */
type Session = SocketExchange & {
  readonly socket: WebSocket;
  /** Aborted when the client has gone. */
  readonly gone: AbortSignal;
  /** Null until then. */
  caller: SocketCaller | null;
};

/** What a client may say; the other types of the protocol are the server's. */
const CLIENT_TYPES: ReadonlySet<unknown> = new Set(["connection_init", "ping", "pong", "subscribe", "complete"]);

const BAD_REQUEST = 4400;
/** Bytes that a close frame has for it. */
const MAX_REASON = 123;
const TOO_SLOW = 4429;

/** GraphQL over WebSocket (`graphql-transport-ws`): queries, mutations and subscriptions under the same rules as over HTTP. */
export function graphqlSocket(options: GraphQLSocketOptions): SocketRoute {
  const { engine } = options;
  const signedIn = new Set<SocketCaller>();
  options.onIdentityChange((change) => {
    for (const caller of signedIn) if (caller.isConcernedBy(change)) caller.checkSoon();
  });
  const protocol = makeServer<Record<string, unknown>, Session>({
    onConnect: ({ extra, connectionParams }) => signIn(extra, connectionParams, signedIn, options),
    onSubscribe: ({ extra, subscriptions }, _id, payload) => {
      if (Object.keys(subscriptions).length > options.maxSubscriptions) return [tooMany(options.maxSubscriptions)];
      const operation = prepare(engine, payload);
      if ("errors" in operation) return operation.errors;
      // graphql-ws hands this to execute and subscribe below.
      return {
        schema: engine.schema,
        document: operation.document,
        operationName: operation.operationName,
        operation,
        extra,
      } as never;
    },
    execute: (args) => start(engine, args),
    subscribe: (args) => start(engine, args),
    onNext: ({ extra }, _id, _payload, _args, result) => ({
      ...result,
      ...(result.errors && { errors: result.errors.map((error) => formatError(error, formatFor(extra, options))) }),
    }),
    onError: ({ extra }, _id, _payload, errors) => errors.map((error) => formatError(error, formatFor(extra, options))),
  });

  return {
    path: "/graphql",
    protocol: GRAPHQL_TRANSPORT_WS_PROTOCOL,
    accept(socket, exchange) {
      const leaving = new AbortController();
      socket.once("close", () => leaving.abort(new Error("the client has gone away")));
      const session: Session = {
        ...exchange,
        socket,
        gone: leaving.signal,
        caller: null,
      };
      const onClose = protocol.opened(
        {
          protocol: socket.protocol,
          send: (text) => send(socket, text, options.maxBufferedBytes),
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

/** False closes the socket, with 4403 unless somebody has closed it before. */
async function signIn(
  session: Session,
  said: Readonly<Record<string, unknown>> = {},
  signedIn: Set<SocketCaller>,
  options: GraphQLSocketOptions,
): Promise<boolean> {
  const { identity, socket } = session;
  const resolve = () => socketCaller(identity, said, options.anonymousRole);
  try {
    const caller = new SocketCaller(await resolve(), { socket, resolve });
    session.caller = caller;
    signedIn.add(caller);
    socket.once("close", () => signedIn.delete(caller));
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    socket.close(FORBIDDEN, error.problem.message.slice(0, MAX_REASON));
    return false;
  }
}

/** What can't be answered now is an error of the operation; the socket stays. */
function prepare(engine: Engine, { query, variables, operationName }: SubscribePayload): ReturnType<Engine["prepare"]> {
  try {
    return engine.prepare({ query, variables: variables ?? undefined, operationName: operationName ?? undefined });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { message, code } = error.problem;
    return { errors: [new GraphQLError(message, { extensions: { code } })] };
  }
}

async function start(engine: Engine, args: unknown) {
  const { operation, extra } = args as { operation: Operation; extra: Session };
  // The socket is closed then: nobody reads what would be answered.
  if (!(await extra.caller!.check())) return { errors: [new GraphQLError("signed out")] };
  const request = contextOf(extra.request, "/graphql");
  return engine.start(operation, { caller: extra.caller!.current, request }, extra.gone);
}

async function receive(
  session: Session,
  data: RawData,
  listener: (message: never) => Promise<void>,
  options: GraphQLSocketOptions,
): Promise<void> {
  const { socket, requestId } = session;
  // What a client sends after it was told to go.
  if (socket.readyState !== socket.OPEN) return;
  let message: { readonly type?: unknown } | null;
  try {
    message = parseJson(data as Buffer, options.maxDepth) as typeof message;
  } catch {
    return socket.close(BAD_REQUEST, "the message is not valid JSON");
  }
  if (!CLIENT_TYPES.has(message?.type))
    return socket.close(BAD_REQUEST, "the message type is not allowed for a client");
  try {
    await listener(message as never);
  } catch (error) {
    options.onInternalError(error, requestId);
    socket.close(1011, "internal error");
  }
}

async function send(socket: WebSocket, text: string, maxBufferedBytes: number): Promise<void> {
  if (socket.readyState !== socket.OPEN) return;
  if (socket.bufferedAmount > maxBufferedBytes) return socket.close(TOO_SLOW, "the client reads too slowly");
  socket.send(text);
}

function formatFor({ caller, requestId }: Session, options: GraphQLSocketOptions): ErrorFormat {
  const { role, refused } = caller!.current;
  return {
    constraintMessages: options.constraintMessages(),
    anonymous: role === options.anonymousRole,
    expired: refused === "expired",
    requestId,
    onInternalError: (error) => options.onInternalError(error, requestId),
  };
}

const tooMany = (max: number) =>
  new GraphQLError(`too many operations on this socket: the maximum is ${max}`, {
    extensions: { code: "RATE_LIMITED" },
  });
