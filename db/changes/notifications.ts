import type { Socket } from "node:net";
import pg from "pg";

/**
 * The rights of a user (by id), a session or a key (by SHA-256 in hex) have changed, or the identity providers of the table.
 * "lost": no changes are received until "back".
 */
export type IdentityChange =
  | { readonly user: string }
  | { readonly session: string }
  | { readonly key: string }
  | "providers"
  | "lost"
  | "back";

/** The pause between attempts to reconnect; the first is made as soon as the connection is lost. */
const RECONNECT_MILLISECONDS = 500;
const CONNECT_MILLISECONDS = 10_000;
const KEEPALIVE_MILLISECONDS = 10_000;
/** The pause between checks that the server responds, because a server may disappear without closing the connection. */
const CHECK_MILLISECONDS = 5000;

export type NotificationsOptions = {
  /** A direct connection: LISTEN does not pass through a pooler in transaction mode. */
  readonly connectionString: string;
  readonly onError: (error: Error) => void;
};

/**
 * Listens to NOTIFY. Event triggers of DDL notify the channel "schema_changes", the triggers of accounts, sessions and keys
 * "accounts"; DBAs notify "pgrst", as with PostgREST. After a lost connection the schema counts as changed.
 */
export class Notifications {
  readonly #options: NotificationsOptions;
  readonly #schemaListeners: (() => void)[] = [];
  readonly #settingsListeners: (() => void)[] = [];
  readonly #identityListeners: ((change: IdentityChange) => void)[] = [];
  #client: pg.Client | null = null;
  #reconnectTimer: NodeJS.Timeout | undefined;
  #checkTimer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: NotificationsOptions) {
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
      await client.query("listen schema_changes; listen pgrst; listen accounts");
    } catch (error) {
      void client.end().catch(() => {});
      throw error;
    }
    // Closed while connecting.
    if (this.#closed) return client.end();
    this.#client = client;
    this.#scheduleCheck(client);
  }

  /** Calls back when tables, functions, grants or comments have changed, or may have changed. */
  onSchemaChange(listener: () => void): void {
    this.#schemaListeners.push(listener);
  }

  /** Calls back when the settings in the database have changed, or may have changed. */
  onSettingsChange(listener: () => void): void {
    this.#settingsListeners.push(listener);
  }

  /** Calls back the listeners of schema changes, on request of the operator. */
  reloadSchema(): void {
    this.#schemaChanged();
  }

  /** Calls back when the rights of a user, session or key have changed. */
  onIdentityChange(listener: (change: IdentityChange) => void): void {
    this.#identityListeners.push(listener);
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#reconnectTimer);
    clearTimeout(this.#checkTimer);
    await this.#client?.end();
  }

  #receive(channel: string, payload: string): void {
    if (channel === "accounts") {
      this.#identityChanged(parseIdentityChange(payload));
      return;
    }
    // 'reload config' is also for the settings of roles, which are part of the catalog.
    this.#schemaChanged();
    if (channel === "pgrst" && payload !== "reload schema") this.#settingsChanged();
  }

  #identityChanged(change: IdentityChange | null): void {
    if (change) for (const listener of this.#identityListeners) listener(change);
  }

  #schemaChanged(): void {
    for (const listener of this.#schemaListeners) listener();
  }

  #settingsChanged(): void {
    for (const listener of this.#settingsListeners) listener();
  }

  #handleLoss(client: pg.Client): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    clearTimeout(this.#checkTimer);
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
          this.#settingsChanged();
        },
        (error: Error) => {
          this.#options.onError(error);
          if (!this.#closed) this.#reconnectAfter(RECONNECT_MILLISECONDS);
        },
      );
    }, milliseconds);
  }
}

/** A forged payload only causes another check. */
function parseIdentityChange(payload: string): IdentityChange | null {
  try {
    const { user, session, key, providers } = JSON.parse(payload);
    if (providers !== undefined) return "providers";
    if (user !== undefined) return { user: String(user) };
    if (session !== undefined) return { session: String(session) };
    return key === undefined ? null : { key: String(key) };
  } catch {
    return null;
  }
}
