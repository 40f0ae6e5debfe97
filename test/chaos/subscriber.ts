import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Received } from "./received.ts";

export type SubscriberOptions = {
  readonly url: string;
  /** The body of a POST request; without it, the request is a GET. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The ids of the rows in an event; none for an event without rows. */
  idsOf(event: string, data: any): readonly number[];
  /** Returns the ids of all rows. After a gap the subscriber needs them, unless they follow by themselves. */
  read?(): Promise<readonly number[]>;
  /** Milliseconds until it connects again. */
  readonly pause?: number;
};

/** What to subscribe to at the service with this URL, to get the rows of public.events. */
export const SUBSCRIPTIONS = {
  table: (url: string) => ({
    url: `${url}/rest/v1/events?id=gt.0&order=id`,
    idsOf: (event: string, data: any) => (event === "INSERT" ? [data.new.id] : []),
  }),
  graphql: (url: string) => ({
    url: `${url}/graphql`,
    body: { query: "subscription { onEventCreated { id } }" },
    idsOf: (_event: string, { data }: any) => (data ? [Number(data.onEventCreated.id)] : []),
  }),
} as const;

const PAUSE_MILLISECONDS = 50;
const MISSED = "CHANGES_MISSED";

/** A client of Server-Sent Events that connects again for ever, with the id of the last event, and keeps the ids of the rows. */
export class Subscriber {
  readonly received: Received;
  connections = 0;
  /** A stream has no duplicates. */
  readonly oldestDuplicate = null;
  #lastEventId: string | undefined;
  #isClosed = false;
  /** The table is read when the next subscription has begun. */
  #mustRead = false;
  #cut: () => void = () => {};
  readonly #finished: Promise<void>;

  constructor(options: SubscriberOptions) {
    this.received = new Received(options.read);
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
      await sleep(options.pause ?? PAUSE_MILLISECONDS);
    }
  }

  #connect({ url, body, idsOf, headers: given }: SubscriberOptions): Promise<void> {
    return new Promise((resolve) => {
      const headers: Record<string, string> = { ...given, accept: "text/event-stream" };
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
    if (this.#mustRead && id !== undefined) {
      this.#mustRead = false;
      this.received.readAgain();
    }
    if (value?.errors?.[0].extensions.code === MISSED) {
      this.#startAgain();
      return;
    }
    // A result of GraphQL may have other errors.
    if (event === "gap" || event === "problem" || value?.errors) this.received.gaps++;
    else if (event === "snapshot") this.received.replace(value.map((row: { readonly id: number }) => row.id));
    else if (value !== null) this.received.add(idsOf(event, value));
    if (id !== undefined) this.#lastEventId = id;
  }

  /** The subscription of GraphQL has ended with an error. */
  #startAgain(): void {
    this.received.gaps++;
    this.#lastEventId = undefined;
    this.#mustRead = true;
  }
}
