import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

export type SubscriberOptions = {
  readonly url: string;
  /** The body of a POST request; without it, the request is a GET. */
  readonly body?: unknown;
  /** The ids of the rows in an event; none for an event without rows. */
  idsOf(event: string, data: any): readonly number[];
};

const PAUSE_MILLISECONDS = 50;

/** A client of Server-Sent Events that connects again for ever, with the id of the last event, and keeps the ids of the rows. */
export class Subscriber {
  readonly ids: number[] = [];
  /** How often the service has said that changes were missed, or could not be sent. */
  gaps = 0;
  connections = 0;
  /** A stream has no duplicates. */
  readonly oldestDuplicate = null;
  #lastEventId: string | undefined;
  #isClosed = false;
  #cut: () => void = () => {};
  readonly #finished: Promise<void>;

  constructor(options: SubscriberOptions) {
    this.#finished = this.#run(options);
  }

  /** Whether it can resume. */
  get isReady(): boolean {
    return this.#lastEventId !== undefined;
  }

  /** The server, or a network, ends the connection. */
  cut(): void {
    this.#cut();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cut();
    await this.#finished;
  }

  async #run(options: SubscriberOptions): Promise<void> {
    while (!this.#isClosed) {
      await this.#connect(options);
      await sleep(PAUSE_MILLISECONDS);
    }
  }

  #connect({ url, body, idsOf }: SubscriberOptions): Promise<void> {
    return new Promise((resolve) => {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (body !== undefined) headers["content-type"] = "application/json";
      if (this.#lastEventId !== undefined) headers["last-event-id"] = this.#lastEventId;
      const method = body === undefined ? "GET" : "POST";
      const sent = request(url, { method, headers, agent: false });
      sent.on("error", () => resolve());
      sent.on("close", () => resolve());
      sent.on("response", (response) => {
        if (response.statusCode === 200) this.connections++;
        let unread = "";
        response.setEncoding("utf8");
        response.on("data", (text: string) => {
          const blocks = (unread + text).split("\n\n");
          unread = blocks.pop()!;
          for (const block of blocks) this.#receive(block, idsOf);
        });
        response.on("error", () => {});
      });
      sent.end(body === undefined ? undefined : JSON.stringify(body));
      this.#cut = () => sent.destroy();
    });
  }

  #receive(block: string, idsOf: SubscriberOptions["idsOf"]): void {
    const valuesOf = (field: string) =>
      [...block.matchAll(new RegExp(`^${field}: ?(.*)$`, "gm"))].map(([, value]) => value!);
    const [event = "message"] = valuesOf("event");
    const [id] = valuesOf("id");
    const data = valuesOf("data").join("\n");
    const value = data === "" ? null : JSON.parse(data);
    // A result of GraphQL may have errors.
    if (event === "gap" || event === "problem" || value?.errors) this.gaps++;
    else if (value !== null) this.ids.push(...idsOf(event, value));
    if (id !== undefined) this.#lastEventId = id;
  }
}
