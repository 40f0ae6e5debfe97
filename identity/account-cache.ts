const MAX_KNOWN = 50_000;

export type RememberedOptions<Value> = {
  ask(key: string): Promise<Value>;
  /** Milliseconds that an answer is good for, however quiet the database is; Infinity until it tells of a change. */
  goodFor(value: Value): number;
  readonly clock: () => number;
};

type Known<Value> = { readonly value: Value; readonly until: number };

/**
 * Answers of the database, remembered until it tells of a change. While nobody listens to it nothing is remembered. An
 * answer that is known is given at once, and not as a promise.
 */
export class Remembered<Value> {
  readonly #options: RememberedOptions<Value>;
  readonly #known = new Map<string, Known<Value>>();
  readonly #asked = new Map<string, Promise<Value>>();
  #isListening = true;

  constructor(options: RememberedOptions<Value>) {
    this.#options = options;
  }

  of(key: string): Value | Promise<Value> {
    const known = this.#known.get(key);
    if (known !== undefined && known.until > this.#options.clock()) return known.value;
    return this.#ask(key);
  }

  /** What was answered last, if that is known: it may be out of date by some seconds. */
  lastOf(key: string): Value | undefined {
    return this.#known.get(key)?.value;
  }

  forget(key: string): void {
    this.#known.delete(key);
    // What was asked before a change is told is not remembered after it.
    this.#asked.delete(key);
  }

  forgetWhere(holds: (value: Value) => boolean): void {
    for (const [key, { value }] of this.#known) if (holds(value)) this.#known.delete(key);
    this.#asked.clear();
  }

  forgetAll(): void {
    this.#known.clear();
    this.#asked.clear();
  }

  /** Whether changes are heard of. */
  listen(isListening: boolean): void {
    this.#isListening = isListening;
    this.forgetAll();
  }

  async #ask(key: string): Promise<Value> {
    const asked = this.#asked.get(key) ?? this.#options.ask(key);
    this.#asked.set(key, asked);
    try {
      const value = await asked;
      if (this.#isListening && this.#asked.get(key) === asked) this.#remember(key, value);
      return value;
    } finally {
      if (this.#asked.get(key) === asked) this.#asked.delete(key);
    }
  }

  #remember(key: string, value: Value): void {
    if (this.#known.size >= MAX_KNOWN) this.#known.delete(this.#known.keys().next().value as string);
    const { clock } = this.#options;
    this.#known.set(key, { value, until: clock() + this.#options.goodFor(value) });
  }
}
