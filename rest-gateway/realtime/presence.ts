/** Whose presence is tracked. */
type Tracked = { readonly presenceKey: string };

/** What a client says about itself, with a reference that is new with each change. */
type Meta = { readonly phx_ref: string } & Readonly<Record<string, unknown>>;

/** By key: `{ "ada": { "metas": [{ "phx_ref": "…", … }] } }` */
type Keys = Record<string, { metas: Meta[] }>;

/** Milliseconds in which changes are collected, so that many clients that come or go at once do not cause a message each. */
const DELAY = 50;

/** Who is present in a topic. */
export class Presences {
  readonly #metas = new Map<Tracked, Meta>();
  readonly #send: (diff: string) => void;
  readonly #joined = new Map<Meta, string>();
  readonly #left = new Map<Meta, string>();
  #timer: NodeJS.Timeout | undefined;
  #count = 0;

  /** `send` is called with the JSON of `{ joins, leaves }`. */
  constructor(send: (diff: string) => void) {
    this.#send = send;
  }

  track(member: Tracked, payload: Readonly<Record<string, unknown>>): void {
    this.untrack(member);
    const meta = { ...payload, phx_ref: String(++this.#count) };
    this.#metas.set(member, meta);
    this.#joined.set(meta, member.presenceKey);
    this.#sendSoon();
  }

  untrack(member: Tracked): void {
    const meta = this.#metas.get(member);
    if (!meta) return;
    this.#metas.delete(member);
    // The others do not know it yet.
    if (!this.#joined.delete(meta)) this.#left.set(meta, member.presenceKey);
    this.#sendSoon();
  }

  /** The JSON of who is present. */
  state(): string {
    return JSON.stringify(byKey([...this.#metas].map(([{ presenceKey }, meta]) => [meta, presenceKey])));
  }

  #sendSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (this.#joined.size === 0 && this.#left.size === 0) return;
      const diff = JSON.stringify({ joins: byKey(this.#joined), leaves: byKey(this.#left) });
      this.#joined.clear();
      this.#left.clear();
      this.#send(diff);
    }, DELAY);
  }
}

function byKey(metas: Iterable<readonly [Meta, string]>): Keys {
  // A key may be any text, such as __proto__.
  const keys: Keys = Object.create(null);
  for (const [meta, key] of metas) {
    keys[key] ??= { metas: [] };
    keys[key].metas.push(meta);
  }
  return keys;
}
