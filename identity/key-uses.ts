/** Milliseconds between two writes. */
const INTERVAL = 60_000;

export type KeyUsesOptions = {
  /** Stores that these keys have been used. */
  write(ids: readonly string[]): Promise<void>;
  /** Called when a write has failed; the next one includes its keys. */
  onError(error: unknown): void;
};

/** Collects the API keys that are used and stores their use together, once a minute. */
export class KeyUses {
  readonly #options: KeyUsesOptions;
  readonly #timer: NodeJS.Timeout;
  #used = new Set<string>();

  constructor(options: KeyUsesOptions) {
    this.#options = options;
    this.#timer = setInterval(() => void this.flush(), INTERVAL).unref();
  }

  add(id: string): void {
    this.#used.add(id);
  }

  async flush(): Promise<void> {
    if (this.#used.size === 0) return;
    const ids = this.#used;
    this.#used = new Set();
    try {
      await this.#options.write([...ids]);
    } catch (error) {
      for (const id of ids) this.#used.add(id);
      this.#options.onError(error);
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
  }
}
