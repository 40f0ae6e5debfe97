import type { Socket } from "node:net";
import type { ClientBase, Pool, PoolClient } from "pg";
import type { Logger } from "pino";
import { every, type Repetition, retry } from "../repeat.ts";

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
/** The pause between checks that the server responds, because a server may disappear without closing the connection. */
const CHECK_MILLISECONDS = 5000;

type NotificationsOptions = {
  /** Direct connections: LISTEN does not pass through a pooler in transaction mode. One is kept. */
  readonly pool: Pick<Pool, "connect">;
  readonly onError: (error: Error) => void;
  /** Runs on the kept connection, once it is open and with each check of it. */
  onCheck?(client: ClientBase): Promise<void>;
};

/**
 * Listens to NOTIFY. Event triggers of DDL notify the channel "schema_changes", the triggers of accounts, sessions and keys
 * "accounts", and `realtime.send` "broadcasts"; DBAs notify "pgrst", as with PostgREST. After a lost connection the schema counts as
 * changed.
 */
export class Notifications {
  readonly #options: NotificationsOptions;
  readonly #schemaListeners: (() => void)[] = [];
  readonly #settingsListeners: (() => void)[] = [];
  readonly #identityListeners: ((change: IdentityChange) => void)[] = [];
  readonly #broadcastListeners: ((part: string) => void)[] = [];
  /** Called when the connection is back. */
  readonly #waiting: (() => void)[] = [];
  #client: PoolClient | null = null;
  #checks: Repetition | null = null;
  readonly #closing = new AbortController();

  constructor(options: NotificationsOptions) {
    this.#options = options;
  }

  /** Connects; rejects when the first attempt fails. A connection that is lost later is restored. */
  async start(): Promise<void> {
    const client = await this.#options.pool.connect();
    client.on("notification", ({ channel, payload }) => this.#receive(channel, payload ?? ""));
    try {
      // The name is how a DBA finds the connection.
      await client.query(
        "set application_name to 'content-service changes'; listen schema_changes; listen pgrst; listen accounts; listen broadcasts",
      );
    } catch (error) {
      client.release(true);
      throw error;
    }
    await this.#options.onCheck?.(client);
    // Closed while connecting.
    if (this.#isClosed) return client.release(true);
    this.#client = client;
    for (const callback of this.#waiting.splice(0)) callback();
    client.once("end", () => {
      if (this.#isClosed) return;
      client.release(true);
      this.#handleLoss(client);
    });
    this.#checks = every(CHECK_MILLISECONDS, () => this.#check(client), this.#options.onError);
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

  /** Calls back with the parts of broadcasts from SQL. */
  onBroadcast(listener: (part: string) => void): void {
    this.#broadcastListeners.push(listener);
  }

  /** Calls back, once, when notifications are received. Returns whether they are now: then it has called back. */
  whenListening(callback: () => void): boolean {
    if (this.#client === null) this.#waiting.push(callback);
    else callback();
    return this.#client !== null;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    void this.#checks?.stop();
    this.#client?.release(true);
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  #receive(channel: string, payload: string): void {
    if (channel === "accounts") {
      this.#identityChanged(parseIdentityChange(payload));
      return;
    }
    if (channel === "broadcasts") {
      for (const listener of this.#broadcastListeners) listener(payload);
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

  #handleLoss(client: PoolClient): void {
    if (this.#isClosed || this.#client !== client) return;
    this.#client = null;
    void this.#checks?.stop();
    this.#identityChanged("lost");
    void this.#reconnect();
  }

  async #check(client: PoolClient): Promise<void> {
    const late = setTimeout(() => {
      this.#options.onError(new Error("the database does not respond"));
      this.#handleLoss(client);
      // The server would not respond to Terminate.
      (client as unknown as { connection: { stream: Socket } }).connection.stream.destroy();
    }, CHECK_MILLISECONDS);
    const isAlive = await client.query("").then(
      () => true,
      () => false,
    );
    if (isAlive) await this.#options.onCheck?.(client);
    clearTimeout(late);
  }

  async #reconnect(): Promise<void> {
    const { onError } = this.#options;
    const { signal } = this.#closing;
    await retry(() => this.start(), { first: RECONNECT_MILLISECONDS, signal, onError }).catch(() => {});
    if (this.#isClosed) return;
    this.#identityChanged("back");
    this.#schemaChanged();
    this.#settingsChanged();
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

/** Whether an event trigger announces DDL to the service: its own, or one of a DBA that notifies `pgrst`, as for PostgREST. */
const IS_ANNOUNCED = `
  select exists (
    select from pg_event_trigger as e join pg_proc as p on p.oid = e.evtfoid
    where e.evtevent = 'ddl_command_end' and e.evtenabled in ('O', 'A') and p.prosrc ~* 'schema_changes|pgrst'
  ) as "isAnnounced"`;

const NOT_ANNOUNCED =
  "changes of the schema are not announced by this database: run notify pgrst, 'reload schema' after each, or send SIGUSR1 " +
  "to the service, or create an event trigger as a superuser";

/** The event trigger and its function that a superuser may create. */
export const ANNOUNCER = "announce_ddl";
const TRIGGER = `create function public.${ANNOUNCER}() returns event_trigger language plpgsql as $$ begin notify pgrst, 'reload schema'; end $$;
create event trigger ${ANNOUNCER} on ddl_command_end execute function public.${ANNOUNCER}();`;

/** Why the service does not notice DDL, and what a superuser can run; null if it does. */
export async function whyNotAnnounced(
  pool: Pick<Pool | ClientBase, "query">,
): Promise<{ readonly fault: string; readonly fix: string } | null> {
  const { rows } = await pool.query<{ isAnnounced: boolean }>(IS_ANNOUNCED);
  return rows[0]!.isAnnounced ? null : { fault: NOT_ANNOUNCED, fix: TRIGGER };
}

/** Says when the service cannot notice DDL, and what a DBA can do about it. */
export class SchemaAnnouncement {
  /** For `/health`; null if changes are announced. */
  fault: string | null = null;
  readonly #pool: Pick<Pool, "query">;
  readonly #log: Logger;
  #isReported: boolean;

  /** `isReported`: another process has logged the fault that the first check finds. */
  constructor(pool: Pick<Pool, "query">, { log, isReported }: { readonly log: Logger; readonly isReported: boolean }) {
    this.#pool = pool;
    this.#log = log;
    this.#isReported = isReported;
  }

  /** Checks it again, at start and after a reload of the schema. */
  async check(): Promise<void> {
    const { fault, fix } = (await whyNotAnnounced(this.#pool)) ?? { fault: null, fix: null };
    if (fault !== null && this.fault === null && !this.#isReported) this.#log.warn({ fix }, fault);
    this.fault = fault;
    this.#isReported = false;
  }
}
