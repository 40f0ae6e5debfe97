import pg from "pg";
import { queueConnection } from "../../db/cluster/queue.ts";

/** Milliseconds between two attempts to reconnect. The first attempt immediately follows the loss of the connection. */
const RECONNECT = 500;
const KEEPALIVE_MILLISECONDS = 10_000;

export type HeartbeatOptions = {
  /** A direct connection string: session locks do not work through a pooler in transaction mode. */
  readonly connectionString: string;
  readonly onError: (error: Error) => void;
};

/**
 * Shows that a worker is alive, by holding an advisory lock for its name. However this process ends, Postgres
 * releases the lock, and other processes take over the jobs of the worker (`tasks.free_jobs`).
 */
export class WorkerHeartbeat {
  readonly #options: HeartbeatOptions;
  #worker: string | null = null;
  #client: pg.Client | null = null;
  #connecting: Promise<void> | null = null;
  #reconnect: NodeJS.Timeout | undefined;

  constructor(options: HeartbeatOptions) {
    this.#options = options;
  }

  get isHeld(): boolean {
    return this.#client !== null;
  }

  /** Takes the lock. If that fails, it is retried later; until it succeeds, other processes may consider the worker dead. */
  hold(worker: string): Promise<void> {
    this.#worker = worker;
    this.#connecting ??= this.#connect(worker);
    return this.#connecting;
  }

  /** The worker has ended: any process may take over its jobs. */
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
      // If a lost session of this worker still holds the lock, this waits until Postgres has ended it.
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
