import { type Client, createClient } from "graphql-ws";
import { expect, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import type { DemoUser, TestService } from "./service.ts";
import { recorded } from "./transcript.ts";
import { POLL } from "./until.ts";

export type ClientOptions = {
  readonly as?: DemoUser;
  /** Payload of connection_init; overrides `as`. */
  readonly params?: Readonly<Record<string, unknown>>;
  /** Headers of the upgrade. */
  readonly headers?: Readonly<Record<string, string>>;
};

export type SocketError = {
  message: string;
  path?: (string | number)[];
  extensions: { code: string; requestId?: string };
};
type SocketResult = { data?: any; errors?: SocketError[]; extensions?: { changePosition?: string } };
/** `{ after: "…" }`, `{ changePosition: true }` */
type Extensions = Record<string, unknown>;
/** A service, on whatever database. */
type Served = Pick<TestService, "url" | "service">;

const RecordedSocket = recorded(WebSocket);

/** Connects a graphql-ws client as an application would, without retries. It is closed after the test. */
export function connect(service: Served, { as, params, headers = {} }: ClientOptions = {}): GraphQLClient {
  class SocketWithHeaders extends RecordedSocket {
    constructor(url: string, protocols: string | string[]) {
      super(url, protocols, { headers });
    }
  }
  const client = createClient({
    url: `${service.url.replace(/^http/, "ws")}/graphql`,
    webSocketImpl: SocketWithHeaders,
    connectionParams: params ?? (as && { Authorization: `Bearer ${(service as TestService).token(as)}` }),
    retryAttempts: 0,
    lazyCloseTimeout: 60_000,
  });
  const connected = new GraphQLClient(client, service);
  onTestFinished(() => void connected.end());
  return connected;
}

export class GraphQLClient {
  readonly #client: Client;
  readonly #service: Served;

  constructor(client: Client, service: Served) {
    this.#client = client;
    this.#service = service;
  }

  /** Executes a query or mutation and returns its result, sent as `next` or as `error`. */
  async run(query: string, variables?: Record<string, unknown>, extensions?: Extensions): Promise<SocketResult> {
    return new Promise((resolve, reject) => {
      this.#client.subscribe<any>(
        { query, ...(variables && { variables }), ...(extensions && { extensions }) },
        {
          next: (result) => resolve(result as SocketResult),
          error: (error) => (Array.isArray(error) ? resolve({ errors: error as never }) : reject(error)),
          complete: () => {},
        },
      );
    });
  }

  /** Subscribes and resolves when the subscription is active on the server. */
  async subscribe(query: string, variables?: Record<string, unknown>, extensions?: Extensions): Promise<Subscription> {
    const before = this.#service.service.open().subscriptions;
    const subscription = this.subscribeSoon(query, variables, extensions);
    await expect.poll(() => subscription.error ?? this.#service.service.open().subscriptions, POLL).not.toBe(before);
    if (subscription.error)
      throw Object.assign(new Error(`refused: ${JSON.stringify(subscription.error)}`), { errors: subscription.error });
    return subscription;
  }

  /** Subscribes without waiting. */
  subscribeSoon(query: string, variables?: Record<string, unknown>, extensions?: Extensions): Subscription {
    const payload = { query, ...(variables && { variables }), ...(extensions && { extensions }) };
    return new Subscription((sink) => this.#client.subscribe<any>(payload, sink));
  }

  on: Client["on"] = (...args) => this.#client.on(...args);

  end(): void {
    void this.#client.dispose();
  }
}

type Sink = { next(result: SocketResult): void; error(error: unknown): void; complete(): void };

/** The messages that one subscription has received. */
export class Subscription {
  /** The `data` of each event. */
  readonly events: any[] = [];
  /** The position of the last event. */
  position: string | undefined;
  /** The `errors` of the events that have errors. */
  readonly faults: SocketError[][] = [];
  /** Why the subscription ended: the errors of the server, or the close event of the socket. */
  error: SocketError[] | { code: number; reason: string } | null = null;
  completed = false;
  readonly unsubscribe: () => void;

  constructor(start: (sink: Sink) => () => void) {
    this.unsubscribe = start({
      next: ({ data, errors, extensions }) => {
        this.events.push(data);
        this.position = extensions?.changePosition;
        if (errors) this.faults.push(errors);
      },
      error: (error) => {
        this.error = error as never;
      },
      complete: () => {
        this.completed = true;
      },
    });
  }

  /** Waits until exactly these events were received, in this order. */
  async expect(...events: unknown[]): Promise<void> {
    await expect
      .poll(() => this.events, POLL)
      .toEqual(events)
      .catch((cause) => {
        const { faults, error } = this;
        throw new Error(`${cause.message}: ${JSON.stringify({ faults, error })}`, { cause });
      });
  }
}
