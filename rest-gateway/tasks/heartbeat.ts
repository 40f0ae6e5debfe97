import pg from "pg";
import { queueConnection } from "../../db/cluster/queue.ts";

/** Milliseconds between two attempts; the first is made as soon as the connection is lost. */
const RECONNECT = 500;
const KEEPALIVE_MILLISECONDS = 10_000;

export type PresenceOptions = {
  /** A direct connection: a lock of a session does not pass through a pooler in transaction mode. */
  readonly connectionString: string;
  readonly onError: (error: Error) => void;
};

/**
 * Holds an advisory lock in a worker's name for as long as this process lives. Postgres lets go of it when the process is
 * gone, however that went: then others take over what the worker has left (`tasks.free_jobs`).
 */
export class Presence {
  readonly #options: PresenceOptions;
  #worker: string | null = null;
  #client: pg.Client | null = null;
  #connecting: Promise<void> | null = null;
  #reconnect: NodeJS.Timeout | undefined;

  constructor(options: PresenceOptions) {
    this.#options = options;
  }

  /** Whether others can see that the worker lives. */
  get isHeld(): boolean {
    return this.#client !== null;
  }

  /** Resolves when the lock is held. What can't be had now is had later: until then others may take the worker for dead. */
  hold(worker: string): Promise<void> {
    this.#worker = worker;
    this.#connecting ??= this.#connect(worker);
    return this.#connecting;
  }

  /** The worker has ended: its jobs are anybody's. */
  async release(): Promise<void> {
    this.#worker = null;
    clearTimeout(this.#reconnect);
    await this.#connecting;
    this.#connecting = null;
    const client = this.#client;
    this.#client = null;
    await client?.end();
  }

  async #connect(worker: string): Promise<void> {
    const { connectionString, onError } = this.#options;
    const client = new pg.Client({
      ...queueConnection(connectionString),
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEPALIVE_MILLISECONDS,
    });
    client.on("error", onError);
    try {
      await client.connect();
      // Waits for a session of ours that is lost, and that Postgres has not seen the end of.
      await client.query("select pg_advisory_lock(tasks.lock_of($1))", [worker]);
      this.#client = client;
      client.on("end", () => {
        if (this.#client === client) this.#connectAgain(0);
      });
    } catch (error) {
      onError(error as Error);
      void client.end().catch(() => {});
      this.#connectAgain(RECONNECT);
    }
  }

  #connectAgain(milliseconds: number): void {
    this.#client = null;
    if (this.#worker === null) return;
    this.#reconnect = setTimeout(() => {
      if (this.#worker !== null) this.#connecting = this.#connect(this.#worker);
    }, milliseconds);
  }
}
