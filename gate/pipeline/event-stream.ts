import type { ServerResponse } from "node:http";
import type { ByteBudget, Holding } from "../../db/admission/byte-budget.ts";
import { problem } from "../../problems/problem.ts";
import { spreadOut } from "../limits/spread.ts";
import type { Exchange } from "./exchange.ts";

/** A client with more unsent bytes than this counts as too slow to receive every event immediately. */
const MAX_WAITING_BYTES = 1_048_576;
/** Milliseconds after which a browser connects again. */
const RETRY_MILLISECONDS = 1000;

export type StreamEvent = {
  readonly event: string;
  /** Text, usually JSON. */
  readonly data: string;
  /** A client that connects again sends it in the header Last-Event-ID. */
  readonly id?: string | undefined;
};

/** Every response that sends events (`text/event-stream`). They end when the service stops, and clients connect again. */
export class EventStreams {
  readonly #heartbeat: number;
  readonly #budget: ByteBudget;
  readonly #open = new Set<EventStream>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `heartbeat`: milliseconds between two heartbeats. */
  constructor(heartbeat: number, budget: ByteBudget) {
    this.#heartbeat = heartbeat;
    this.#budget = budget;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Counts what a stream makes the service hold, until its response is closed. Throws Problem if its network may not hold it. */
  reserve({ identity, response }: Exchange, bytes: number): void {
    const held = this.#budget.reserve(identity.network, "subscriptions", bytes, response);
    if (held === null) throw problem("address holds too much", { retryAfter: 1 });
    response.once("close", () => held.close());
    if (response.destroyed) held.close();
  }

  /** Begins the response. `idNow` returns the id of everything that has been sent so far. */
  open(exchange: Exchange, idNow: () => string | undefined = () => undefined): EventStream {
    const { response, identity } = exchange;
    const unread = this.#budget.hold(identity.network, "messages", response);
    const stream = new EventStream(exchange, unread, idNow);
    this.#open.add(stream);
    // The client connects again, to another process.
    if (this.#isClosed) stream.end();
    this.#timer ??= setInterval(() => this.#beat(), this.#heartbeat).unref();
    response.once("close", () => {
      unread.close();
      this.#open.delete(stream);
      if (this.#open.size > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    });
    return stream;
  }

  endAll(): void {
    for (const stream of this.#open) stream.end();
  }

  /** Ends all streams within `spread` milliseconds, and new ones at once. */
  async close(spread: number): Promise<void> {
    this.#isClosed = true;
    await spreadOut([...this.#open], spread, (stream) => stream.end());
  }

  #beat(): void {
    for (const stream of this.#open) stream.beat();
  }
}

/** Source: WHATWG HTML, "Server-sent events". */
export class EventStream {
  readonly #response: ServerResponse;
  readonly #unread: Holding;
  readonly #idNow: () => string | undefined;
  /** The events of this turn of the event loop, which are written together. */
  #text = "";

  /** Used by EventStreams only. */
  constructor({ response, head }: Exchange, unread: Holding, idNow: () => string | undefined) {
    this.#response = response;
    this.#unread = unread;
    this.#idNow = idNow;
    response.writeHead(200, [
      ...head.headers,
      ...["Content-Type", "text/event-stream; charset=utf-8", "Cache-Control", "no-store"],
      // nginx would collect the events in a buffer.
      ...["X-Accel-Buffering", "no"],
    ]);
    response.write(`retry: ${RETRY_MILLISECONDS}\n\n`);
  }

  /** Whether so many bytes wait for the client that no further events should be sent for now. */
  get isBehind(): boolean {
    return this.#response.writableLength + this.#text.length > MAX_WAITING_BYTES;
  }

  get isClosed(): boolean {
    return this.#response.destroyed || this.#response.writableEnded;
  }

  send({ event, data, id }: StreamEvent): void {
    if (this.isClosed) return;
    if (this.#text === "") queueMicrotask(() => this.#write());
    // A line break in JSON is white space, so any of the three kinds may be replaced by \n.
    this.#text += `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${data.replace(LINE_BREAK, "\ndata: ")}\n\n`;
  }

  /** Sends a heartbeat. An id without data is not an event: it only advances the position at which the client resumes. */
  beat(): void {
    if (this.isClosed || this.isBehind) return;
    const id = this.#idNow();
    this.#response.write(id === undefined ? ":\n\n" : `:\nid: ${id}\n\n`);
  }

  /** Calls back once, when the client has taken what was waiting. */
  onceTaken(listener: () => void): void {
    this.#write();
    if (this.#response.writableNeedDrain) this.#response.once("drain", listener);
    else queueMicrotask(listener);
  }

  onceClosed(listener: () => void): void {
    this.#response.once("close", listener);
  }

  end(): void {
    this.#write();
    this.#response.end();
  }

  #write(): void {
    const text = this.#text;
    this.#text = "";
    if (text === "" || this.isClosed) return;
    const bytes = Buffer.byteLength(text);
    if (this.#unread.send(bytes)) this.#response.write(text, () => this.#unread.give(bytes));
  }
}

const LINE_BREAK = /\r\n|\r|\n/g;
