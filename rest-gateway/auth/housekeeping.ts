const HOUR = 3_600_000;
/** Seconds after the end of its last session, which nothing can start again, until an anonymous account is deleted: 30 days. */
export const ANONYMOUS_SECONDS = 30 * 24 * 3600;

export type HousekeepingOptions = {
  purge(): Promise<void>;
  onError(error: unknown): void;
};

/** Deletes expired attempts, tokens, sessions, e-mails, reservations, anonymous accounts and security events at start and every hour. */
export class Housekeeping {
  readonly #options: HousekeepingOptions;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: HousekeepingOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#purge();
    this.#timer = setInterval(() => {
      this.#running = this.#purge();
    }, HOUR);
    this.#timer.unref();
  }

  /** Stops, and waits for a running purge. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  async #purge(): Promise<void> {
    const { purge, onError } = this.#options;
    await purge().catch(onError);
  }
}
