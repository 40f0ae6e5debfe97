import type { Socket } from "node:net";
import pg from "pg";
import { type Change, type ChangeFeed, type ChangeFilter, FeedInterrupted, type IdentityChange } from "./feed.ts";
import { Hub } from "./hub.ts";

/** The pause between attempts to reconnect; the first is made as soon as the connection is lost. */
const RECONNECT_MILLISECONDS = 500;
const CONNECT_MILLISECONDS = 10_000;
const KEEPALIVE_MILLISECONDS = 10_000;
/** The pause between checks that the server responds, because a server may disappear without closing the connection. */
const CHECK_MILLISECONDS = 5000;

export type NotificationFeedOptions = {
  /** A direct connection: LISTEN does not pass through a pooler in transaction mode. */
  readonly connectionString: string;
  readonly onError: (error: Error) => void;
};

/**
 * The feed that listens to NOTIFY. Triggers notify the channel "changes", event triggers of DDL "schema_changes", the triggers of
 * accounts, sessions and keys "accounts"; DBAs notify "pgrst", as with PostgREST. While the connection is lost,
 * changes are missed: all subscriptions are interrupted.
 */
export class NotificationFeed implements ChangeFeed {
  readonly #options: NotificationFeedOptions;
  readonly #hub = new Hub();
  readonly #schemaListeners: (() => void)[] = [];
  readonly #identityListeners: ((change: IdentityChange) => void)[] = [];
  #client: pg.Client | null = null;
  #reconnectTimer: NodeJS.Timeout | undefined;
  #checkTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: NotificationFeedOptions) {
    this.#options = options;
  }

  /** Connects; rejects when the first attempt fails. A connection that is lost later is restored. */
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
    client.on("end", () => this.#handleLoss(client));
    try {
      await client.connect();
      await client.query("listen changes; listen schema_changes; listen pgrst; listen accounts");
    } catch (error) {
      void client.end().catch(() => {});
      throw error;
    }
    // Closed while connecting.
    if (this.#closed) return client.end();
    this.#client = client;
    this.#scheduleCheck(client);
  }

  /** Subscriptions that have not ended. */
  get subscriptions(): number {
    return this.#hub.size;
  }

  subscribe(filter: ChangeFilter): AsyncIterableIterator<Change> {
    const subscription = this.#hub.subscribe(filter);
    // Without a connection no change would arrive.
    if (!this.#client) subscription.end(lostConnection());
    return subscription;
  }

  onSchemaChange(listener: () => void): void {
    this.#schemaListeners.push(listener);
  }

  onIdentityChange(listener: (change: IdentityChange) => void): void {
    this.#identityListeners.push(listener);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#reconnectTimer);
    clearTimeout(this.#checkTimer);
    this.#hub.end();
    await this.#client?.end();
  }

  #receive(channel: string, payload: string): void {
    if (channel === "changes") this.#publish(parseChange(payload));
    else if (channel === "accounts") this.#identityChanged(parseIdentityChange(payload));
    else this.#schemaChanged();
  }

  #publish(change: Change | null): void {
    if (change) this.#hub.publish(change);
  }

  #identityChanged(change: IdentityChange | null): void {
    if (change) for (const listener of this.#identityListeners) listener(change);
  }

  #schemaChanged(): void {
    for (const listener of this.#schemaListeners) listener();
  }

  #handleLoss(client: pg.Client): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    clearTimeout(this.#checkTimer);
    this.#hub.end(lostConnection());
    this.#identityChanged("lost");
    this.#reconnectAfter(0);
  }

  #scheduleCheck(client: pg.Client): void {
    this.#checkTimer = setTimeout(() => void this.#check(client), CHECK_MILLISECONDS);
  }

  async #check(client: pg.Client): Promise<void> {
    const late = setTimeout(() => {
      this.#options.onError(new Error("the database does not respond"));
      this.#handleLoss(client);
      // The server would not respond to Terminate.
      (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
    }, CHECK_MILLISECONDS);
    await client.query("").catch(() => {});
    clearTimeout(late);
    if (!this.#closed && this.#client === client) this.#scheduleCheck(client);
  }

  #reconnectAfter(milliseconds: number): void {
    this.#reconnectTimer = setTimeout(() => {
      this.start().then(
        () => {
          this.#identityChanged("back");
          this.#schemaChanged();
        },
        (error: Error) => {
          this.#options.onError(error);
          if (!this.#closed) this.#reconnectAfter(RECONNECT_MILLISECONDS);
        },
      );
    }, milliseconds);
  }
}

const lostConnection = () => new FeedInterrupted("the connection to the database was lost");

/** Any login may NOTIFY: a malformed payload is ignored, and rows are read under policies. */
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

/** A forged payload only causes another check. */
function parseIdentityChange(payload: string): IdentityChange | null {
  try {
    const { user, session, key } = JSON.parse(payload);
    if (user !== undefined) return { user: String(user) };
    if (session !== undefined) return { session: String(session) };
    return key === undefined ? null : { key: String(key) };
  } catch {
    return null;
  }
}
