import type { ExecutionResult } from "postgraphile/graphql";
import type { Caller } from "../../db/caller.ts";
import { laterOf } from "../../db/changes/change.ts";
import type { Start } from "../../db/changes/position.ts";
import { feedGap } from "../../db/changes/reader.ts";
import type { EventStream, EventStreams } from "../../http/pipeline/event-stream.ts";
import type { Exchange } from "../../http/pipeline/exchange.ts";
import { recipientOf } from "../../http/pipeline/exchange.ts";
import { contextOf } from "../../http/pipeline/request.ts";
import type { SocketCallers } from "../../identity/socket-caller.ts";
import type { ChangeEvents, Subscriptions } from "../execute/change-events.ts";
import type { Engine } from "../execute/engine.ts";
import { type ErrorFormat, formatError } from "../execute/errors.ts";
import type { PreparedOperation } from "../execute/operation.ts";
import { graphqlCaller } from "./caller.ts";
import { writeResult } from "./envelope.ts";

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

/**
 * The events whose row the subscriber may see. A row that was deleted meanwhile, or that a policy hides, reads as null, and its
 * event is skipped.
 */
export class SubscriptionEvents implements AsyncIterableIterator<ExecutionResult> {
  readonly #results: AsyncGenerator<ExecutionResult>;
  readonly #changes: ChangeEvents;
  readonly #subscriptions: Subscriptions;
  #returned = false;
  /** Called when the events have ended; may be called again. */
  onEnd = () => {};
  /** The position of the last change that was dealt with; null before the first. */
  #last: Start | null = null;

  constructor(results: AsyncGenerator<ExecutionResult>, changes: ChangeEvents, subscriptions: Subscriptions) {
    this.#results = results;
    this.#changes = changes;
    this.#subscriptions = subscriptions;
  }

  /** Resolves when the point at which a subscriber resumes is known. */
  get begun(): Promise<void> {
    return this.#changes.begun;
  }

  /** The position, as text, at which a subscriber that has received the last event resumes; null before the first event. */
  get position(): string | null {
    return this.#last && this.#subscriptions.textOf(this.#last);
  }

  /** The same for a subscriber that has received every event so far; null if it is not known yet. */
  get resumePoint(): string | null {
    const { positions, waiting } = this.#changes;
    const isUpToDate = positions.length === 0 && waiting === 0;
    const delivered = isUpToDate ? this.#subscriptions.positionOf(this.#changes) : undefined;
    if (!delivered) return this.position;
    // While a batch is being delivered, the last event may be later than the position that counts as delivered.
    return this.#subscriptions.textOf(this.#last ? laterOf(delivered, this.#last) : delivered);
  }

  /** Throws if the events end before the subscriber ends them. */
  async next(): Promise<IteratorResult<ExecutionResult>> {
    for (;;) {
      const result = await this.#nextResult();
      // Grafast reports an error only if next() is already waiting; otherwise the results just end.
      if (result.done && !this.#returned) throw this.#changes.error ?? feedGap();
      if (result.done) return result;
      // There is one result for each change, in order.
      this.#last = this.#changes.positions.shift() ?? this.#last;
      if (isVisible(result.value)) return { value: { ...result.value, extensions: { changePosition: this.position } } };
    }
  }

  async #nextResult(): Promise<IteratorResult<ExecutionResult>> {
    try {
      const result = await this.#results.next();
      if (result.done) this.onEnd();
      return result;
    } catch (error) {
      this.onEnd();
      throw error;
    }
  }

  return(): Promise<IteratorResult<ExecutionResult>> {
    this.#returned = true;
    this.onEnd();
    return this.#results.return(undefined);
  }

  throw(error: unknown): Promise<IteratorResult<ExecutionResult>> {
    this.#returned = true;
    this.onEnd();
    return this.#results.throw(error);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

function isVisible({ data, errors = [] }: ExecutionResult): boolean {
  const isNull = data === null || data === undefined || Object.values(data)[0] === null;
  // If the null has another cause than a hidden row, the subscriber must receive the error.
  return !isNull || errors.some((error) => error.originalError || (error.path?.length ?? 0) !== 1);
}
