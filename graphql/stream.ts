import type { ExecutionResult, GraphQLError } from "postgraphile/graphql";
import type { Caller } from "../db/caller.ts";
import type { EventStream, EventStreams } from "../http/event-stream.ts";
import type { Exchange } from "../http/exchange.ts";
import { recipientOf } from "../http/recipient.ts";
import { contextOf } from "../http/request.ts";
import type { SocketCallers } from "../identity/socket-caller.ts";
import { graphqlCaller } from "./caller.ts";
import type { Engine } from "./engine.ts";
import { type ErrorFormat, formatError } from "./errors.ts";
import type { PreparedOperation } from "./operation.ts";
import { SubscriptionEvents } from "./subscription-events.ts";

export type StreamOptions = {
  readonly engine: Engine;
  readonly streams: EventStreams;
  readonly callers: SocketCallers;
  readonly anonymousRole: string;
};

/** Whether a client wants the results as events: it names the type first. Clients such as urql name it last, and prefer JSON. */
export const wantsEvents = (accept: string | undefined): boolean => /^\s*text\/event-stream\b/i.test(accept ?? "");

/**
 * Sends the results of an operation as events: `next` with each result, and `complete`. A subscription resumes with
 * Last-Event-ID.
 * Source: graphql-sse, PROTOCOL.md, "Distinct connections mode".
 */
export async function sendEvents(
  exchange: Exchange,
  operation: PreparedOperation,
  caller: Caller,
  format: ErrorFormat,
  { engine, streams, callers, anonymousRole }: StreamOptions,
): Promise<void> {
  let events: SubscriptionEvents | null = null;
  const stream = streams.open(exchange, () => {
    const position = events?.resumePoint;
    return position ? engine.textOf(position) : undefined;
  });
  const closed = new AbortController();
  const onEnded = (message: string) => {
    sendNext(stream, { errors: [{ message, extensions: { code: "AUTH_EXPIRED" } }] });
    complete(stream);
  };
  const resolve = () => graphqlCaller(exchange.identity, anonymousRole);
  const watching = callers.open(caller, { resolve, onEnded });
  stream.onceClosed(() => {
    closed.abort(new Error("the client has closed the connection"));
    watching.close();
    void events?.return();
  });

  try {
    if ("errors" in operation) return sendResult(stream, operation, format);
    const recipient = recipientOf(exchange.identity, caller);
    const identity = {
      caller,
      request: contextOf(exchange.request, "/graphql", {
        recipient,
        showsCredentials: exchange.identity.showsCredentials,
      }),
    };
    const lastEventId = exchange.request.headers["last-event-id"];
    const since = typeof lastEventId === "string" && lastEventId !== "" ? lastEventId : null;
    const started = await engine.start(operation, identity, closed.signal, since).finally(() => recipient.close());
    if (!(started instanceof SubscriptionEvents)) return sendResult(stream, started, format);
    events = started;
    if (stream.isClosed) return void events.return();
    for await (const result of events) {
      sendResult(stream, result, format, events.position ? engine.textOf(events.position) : undefined);
      // The client connects again, and resumes after what it has read.
      if (stream.isBehind) return stream.end();
    }
  } catch (error) {
    if (!stream.isClosed) sendResult(stream, { errors: [error as GraphQLError] }, format);
  } finally {
    if (!stream.isClosed) complete(stream);
  }
}

function sendResult(
  stream: EventStream,
  { errors, ...result }: Pick<ExecutionResult, "data"> & { readonly errors?: readonly GraphQLError[] | undefined },
  format: ErrorFormat,
  id?: string,
): void {
  const formatted = errors?.map((error) => formatError(error, format));
  sendNext(stream, { ...result, ...(formatted && { errors: formatted }) }, id);
}

const sendNext = (stream: EventStream, result: object, id?: string) =>
  stream.send({ event: "next", data: JSON.stringify(result), id });

function complete(stream: EventStream): void {
  stream.send({ event: "complete", data: "" });
  stream.end();
}
