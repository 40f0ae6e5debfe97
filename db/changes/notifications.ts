import type { Socket } from "node:net";
import pg from "pg";
import { type Change, type ChangeFeed, type ChangeFilter, FeedInterrupted, type IdentityChange } from "./feed.ts";
import { Hub } from "./hub.ts";

/** Between two attempts to connect again; the first is made as soon as the connection is lost. */
const RECONNECT_MILLISECONDS = 500;
const CONNECT_MILLISECONDS = 10_000;
const KEEPALIVE_MILLISECONDS = 10_000;
/** Between two questions whether the server is still there: of one that has vanished without a word nothing is heard. */
const ASK_MILLISECONDS = 5000;

export type NotificationFeedOptions = {
  /** A direct connection: LISTEN does not pass through a pooler in transaction mode. */
  readonly connectionString: string;
  readonly onError: (error: Error) => void;
};

/**
 * The feed by LISTEN: triggers send the channel "changes", the event triggers of DDL "schema_changes"; "pgrst" is what
 * DBAs of PostgREST send; "principals" comes from the triggers of accounts, sessions and keys. While the connection is
 * lost, changes are missed: all subscribers are told.
 */
export class NotificationFeed implements ChangeFeed {
  readonly #options: NotificationFeedOptions;
  readonly #hub = new Hub();
  readonly #schemaListeners: (() => void)[] = [];
  readonly #principalListeners: ((change: IdentityChange) => void)[] = [];
  #client: pg.Client | null = null;
  #reconnect: NodeJS.Timeout | undefined;
  #asking: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: NotificationFeedOptions) {
    this.#options = options;
  }

  /** Connects; rejects when that fails the first time. Later losses are mended by themselves. */
  async start(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#options.connectionString,
      application_name: "content-service changes",
      connectionTimeoutMillis: CONNECT_MILLISECONDS,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEPALIVE_MILLISECONDS,
    });
    client.on("notification", ({ channel, payload }) => this.#receive(channel, payload ?? ""));
    client.on("error", this.#options.onError);
    client.on("end", () => this.#lost(client));
    try {
      await client.connect();
      await client.query("listen changes; listen schema_changes; listen pgrst; listen principals");
    } catch (error) {
      void client.end().catch(() => {});
      throw error;
    }
    // Closed while it was connecting.
    if (this.#closed) return client.end();
    this.#client = client;
    this.#askAgain(client);
  }

  /** Subscriptions that have not ended. */
  get subscriptions(): number {
    return this.#hub.size;
  }

  subscribe(filter: ChangeFilter): AsyncIterableIterator<Change> {
    const subscription = this.#hub.subscribe(filter);
    // It would wait for changes that nobody tells us of.
    if (!this.#client) subscription.end(lostConnection());
    return subscription;
  }

  onSchemaChange(listener: () => void): void {
    this.#schemaListeners.push(listener);
  }

  onIdentityChange(listener: (change: IdentityChange) => void): void {
    this.#principalListeners.push(listener);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#reconnect);
    clearTimeout(this.#asking);
    this.#hub.end();
    await this.#client?.end();
  }

  #receive(channel: string, payload: string): void {
    if (channel === "changes") this.#publish(parseChange(payload));
    else if (channel === "principals") this.#principalChanged(parsePrincipal(payload));
    else this.#schemaChanged();
  }

  #publish(change: Change | null): void {
    if (change) this.#hub.publish(change);
  }

  #principalChanged(change: IdentityChange | null): void {
    if (change) for (const listener of this.#principalListeners) listener(change);
  }

  #schemaChanged(): void {
    for (const listener of this.#schemaListeners) listener();
  }

  #lost(client: pg.Client): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    clearTimeout(this.#asking);
    this.#hub.end(lostConnection());
    this.#principalChanged("lost");
    this.#startAgain(0);
  }

  #askAgain(client: pg.Client): void {
    this.#asking = setTimeout(() => void this.#ask(client), ASK_MILLISECONDS);
  }

  async #ask(client: pg.Client): Promise<void> {
    const late = setTimeout(() => {
      this.#options.onError(new Error("the database does not answer"));
      this.#lost(client);
      // Nobody would answer a polite end.
      (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
    }, ASK_MILLISECONDS);
    await client.query("").catch(() => {});
    clearTimeout(late);
    if (!this.#closed && this.#client === client) this.#askAgain(client);
  }

  #startAgain(milliseconds: number): void {
    this.#reconnect = setTimeout(() => {
      this.start().then(
        () => {
          this.#principalChanged("back");
          this.#schemaChanged();
        },
        (error: Error) => {
          this.#options.onError(error);
          if (!this.#closed) this.#startAgain(RECONNECT_MILLISECONDS);
        },
      );
    }, milliseconds);
  }
}

const lostConnection = () => new FeedInterrupted("the connection to the database was lost");

/** Anybody who may connect may NOTIFY: what does not look like a change is left alone, and rows are read under policies. */
function parseChange(payload: string): Change | null {
  try {
    const { schema, table, operation, keys } = JSON.parse(payload);
    if (typeof table !== "string" || typeof operation !== "string" || typeof keys !== "object") return null;
    const texts = Object.entries(keys ?? {}).map(([name, value]) => [name, String(value)]);
    return { schema, table, operation, keys: Object.fromEntries(texts) } as Change;
  } catch {
    return null;
  }
}

/** Whoever forges one makes us look again, and no more. */
function parsePrincipal(payload: string): IdentityChange | null {
  try {
    const { user, session, key } = JSON.parse(payload);
    if (user !== undefined) return { user: String(user) };
    if (session !== undefined) return { session: String(session) };
    return key === undefined ? null : { key: String(key) };
  } catch {
    return null;
  }
}
