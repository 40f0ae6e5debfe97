import { type ClientRequest, type IncomingMessage, request } from "node:http";
import { expect, onTestFinished } from "vitest";
import { recordFrame, recordSent } from "./transcript.ts";

export type ReceivedEvent = { readonly event: string; readonly id: string | undefined; readonly data: any };

export type StreamSent = {
  readonly headers?: Readonly<Record<string, string>>;
  readonly lastEventId?: string | undefined;
  readonly method?: string;
  readonly body?: unknown;
};

/** A client of Server-Sent Events, which reads as the standard says and shows what it has read. */
export class EventStreamClient {
  readonly events: ReceivedEvent[] = [];
  status = 0;
  headers: IncomingMessage["headers"] = {};
  /** The response up to now. */
  text = "";
  lastEventId: string | undefined;
  isEnded = false;
  response: IncomingMessage | null = null;
  readonly #request: ClientRequest;
  #unread = "";

  constructor(url: string, { headers = {}, lastEventId, method = "GET", body }: StreamSent = {}) {
    this.lastEventId = lastEventId;
    const resume = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
    const json = body === undefined ? {} : { "content-type": "application/json" };
    this.#request = request(url, {
      method,
      headers: { accept: "text/event-stream", ...json, ...resume, ...headers },
      agent: false,
    });
    this.#request.on("error", () => {
      this.isEnded = true;
    });
    this.#request.on("response", (response) => this.#read(response));
    const text = body === undefined ? undefined : JSON.stringify(body);
    recordSent(this.#request, text);
    this.#request.end(text);
    onTestFinished(() => this.close());
  }

  close(): void {
    this.#request.destroy();
  }

  /** The events of these names, when there are so many. */
  async take(count: number, ...names: readonly string[]): Promise<ReceivedEvent[]> {
    const wanted = () => this.events.filter(({ event }) => names.length === 0 || names.includes(event));
    await expect.poll(() => wanted().length, { timeout: 120_000, interval: 10 }).toBeGreaterThanOrEqual(count);
    return wanted().slice(0, count);
  }

  #read(response: IncomingMessage): void {
    this.response = response;
    this.status = response.statusCode!;
    this.headers = response.headers;
    response.setEncoding("utf8");
    response.on("data", (text: string) => {
      this.text += text;
      const blocks = (this.#unread + text).split("\n\n");
      this.#unread = blocks.pop()!;
      for (const block of blocks) this.#receive(block);
    });
    response.on("close", () => {
      this.isEnded = true;
    });
  }

  /** Source: WHATWG HTML, "Interpreting an event stream". */
  #receive(block: string): void {
    recordFrame("event stream received", block);
    let event = "message";
    const data: string[] = [];
    for (const line of block.split("\n")) {
      const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!;
      if (field === "event") event = value;
      if (field === "data") data.push(value);
      if (field === "id") this.lastEventId = value;
    }
    if (data.length === 0) return;
    const text = data.join("\n");
    this.events.push({ event, id: this.lastEventId, data: text === "" ? "" : JSON.parse(text) });
  }
}

/** The stream of a table with a column `title`, as EventSource reads it: when it ends, it connects again, and names the last event. */
export function followStream(url: () => string, headers: Readonly<Record<string, string>>) {
  const connect = (lastEventId?: string) => new EventStreamClient(url(), { headers, lastEventId });
  const streams = [connect()];
  const timer = setInterval(() => {
    const last = streams.at(-1)!;
    if (last.isEnded) streams.push(connect(last.lastEventId));
  }, 100);
  onTestFinished(() => clearInterval(timer));
  const events = () => streams.flatMap((stream) => stream.events);
  return {
    count: (name: string) => events().filter(({ event }) => event === name).length,
    titles: () => events().flatMap(({ event, data }) => (event === "INSERT" ? [data.new.title as string] : [])),
    snapshots: () =>
      events().flatMap(({ event, data }) => (event === "snapshot" ? data.map(({ title }: Titled) => title) : [])),
  };
}

type Titled = { readonly title: string };
