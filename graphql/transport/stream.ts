import type { ExecutionResult } from "postgraphile/graphql";
import type { Caller } from "../../db/caller.ts";
import type { EventStream, EventStreams } from "../../gate/pipeline/event-stream.ts";
import { contextOf, type Exchange, recipientOf } from "../../gate/pipeline/exchange.ts";
import type { SocketCallers } from "../../identity/socket-caller.ts";
import type { Engine } from "../execute/engine.ts";
import { type ErrorFormat, formatError } from "../execute/errors.ts";
import type { PreparedOperation } from "../execute/operation.ts";
import { SubscriptionEvents } from "../execute/subscription-events.ts";
import { graphqlCaller } from "./caller.ts";
import { writeResult } from "./envelope.ts";

export type StreamOptions = {
  readonly engine: Engine;
  readonly streams: EventStreams;
  readonly callers: SocketCallers;
  readonly anonymousRole: string;
};

/**
 * Sends the results of an operation as events: `next` with each result, and `complete`. A subscription resumes with
 * Last-Event-ID or `extensions.after`.
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
  const stream = streams.open(exchange, () => events?.resumePoint ?? undefined);
  const closed = new AbortController();
  const onEnded = (message: string) => {
    sendNext(stream, JSON.stringify({ errors: [{ message, extensions: { code: "AUTH_EXPIRED" } }] }));
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
    const recipient = recipientOf(exchange.identity, caller, exchange.response);
    const identity = {
      caller,
      request: contextOf(exchange.request, "/graphql", {
        recipient,
        showsCredentials: exchange.identity.showsCredentials,
      }),
    };
    const lastEventId = exchange.request.headers["last-event-id"];
    const since = typeof lastEventId === "string" && lastEventId !== "" ? lastEventId : operation.after;
    // Closed only after this turn of the event loop, in which the stream counts the event: otherwise a waiting request could be admitted
    // before the bytes of the event are counted.
    const close = () => setImmediate(() => recipient.close());
    const started = await engine.start(operation, identity, closed.signal, since).finally(close);
    if (!(started instanceof SubscriptionEvents)) return sendResult(stream, started, format);
    events = started;
    await events.begun;
    if (stream.isClosed) return void events.return();
    // A client whose connection is lost before the first event resumes here.
    stream.beat();
    for await (const result of events) {
      sendResult(stream, result, format, events.position ?? undefined);
      // The client connects again, and resumes after what it has read.
      if (stream.isBehind) return stream.end();
    }
  } catch (error) {
    if (!stream.isClosed) sendResult(stream, { errors: [error as Error] }, format);
  } finally {
    if (!stream.isClosed) complete(stream);
  }
}

function sendResult(
  stream: EventStream,
  {
    errors,
    ...result
  }: Pick<ExecutionResult, "data" | "extensions"> & { readonly errors?: readonly Error[] | undefined },
  format: ErrorFormat,
  id?: string,
): void {
  const formatted = errors?.map((error) => formatError(error, format));
  // That of a query or mutation is JSON text.
  const isText = typeof result.data === "string";
  if (isText) sendNext(stream, writeResult(result.data as unknown as string, formatted, result.extensions ?? {}), id);
  else sendNext(stream, JSON.stringify({ ...result, ...(formatted && { errors: formatted }) }), id);
}

const sendNext = (stream: EventStream, data: string, id?: string) => stream.send({ event: "next", data, id });

function complete(stream: EventStream): void {
  stream.send({ event: "complete", data: "" });
  stream.end();
}
