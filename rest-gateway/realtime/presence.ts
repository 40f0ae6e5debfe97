/** Whose presence is tracked. */
type Tracked = { readonly presenceKey: string };

/** What a client says about itself, with a reference that is new with each change. */
type Meta = { readonly phx_ref: string } & Readonly<Record<string, unknown>>;

/** By key: `{ "ada": { "metas": [{ "phx_ref": "…", … }] } }` */
type Keys = Record<string, { metas: Meta[] }>;

/** Milliseconds in which changes are collected, so that many clients that come or go at once do not cause a message each. */
const DELAY = 50;

/** A client that has come, or gone if `meta` is null. `ref` is the phx_ref, which is unique in the topic. */
export type PresenceChange = { readonly ref: string; readonly key: string; readonly meta: Meta | null };

export type PresencesOptions = {
  /** The beginning of the references of this process. */
  readonly prefix: string;
  /** Called with the JSON of `{ joins, leaves }`. */
  send(diff: string): void;
  /** Called with each change by a client of this process. */
  share(change: PresenceChange): void;
};

/** Who is present in a topic: clients of this process, and of others. */
export class Presences {
  readonly #metas = new Map<Tracked, Meta>();
  readonly #options: PresencesOptions;
  /** Those of other processes, by reference. */
  readonly #remote = new Map<string, Tracked & { readonly from: number }>();
  readonly #joined = new Map<Meta, string>();
  readonly #left = new Map<Meta, string>();
  #timer: NodeJS.Timeout | undefined;
  #count = 0;

  constructor(options: PresencesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#metas.size;
  }

  track(member: Tracked, payload: Readonly<Record<string, unknown>>): void {
    this.untrack(member);
    const ref = `${this.#options.prefix}${++this.#count}`;
    const meta = { ...payload, phx_ref: ref };
    this.#add(member, meta);
    this.#options.share({ ref, key: member.presenceKey, meta });
  }

  untrack(member: Tracked): void {
    const meta = this.#delete(member);
    if (meta) this.#options.share({ ref: meta.phx_ref, key: member.presenceKey, meta: null });
  }

  /** A client of the process with the number `from` has come or gone. */
  receive({ ref, key, meta }: PresenceChange, from: number): void {
    const known = this.#remote.get(ref);
    if (known && meta === null) {
      this.#remote.delete(ref);
      this.#delete(known);
    } else if (!known && meta !== null) {
      const tracked = { presenceKey: key, from };
      this.#remote.set(ref, tracked);
      this.#add(tracked, meta);
    }
  }

  /** The process with this number has ended. */
  forget(from: number): void {
    for (const [ref, { presenceKey: key, from: own }] of this.#remote)
      if (own === from) this.receive({ ref, key, meta: null }, from);
  }

  /** The clients of this process. */
  get own(): PresenceChange[] {
    return [...this.#metas]
      .filter(([, { phx_ref }]) => !this.#remote.has(phx_ref))
      .map(([{ presenceKey }, meta]) => ({ ref: meta.phx_ref, key: presenceKey, meta }));
  }

  /** The JSON of who is present. */
  state(): string {
    return JSON.stringify(byKey([...this.#metas].map(([{ presenceKey }, meta]) => [meta, presenceKey])));
  }

  #add(member: Tracked, meta: Meta): void {
    this.#metas.set(member, meta);
    this.#joined.set(meta, member.presenceKey);
    this.#sendSoon();
  }

  #delete(member: Tracked): Meta | undefined {
    const meta = this.#metas.get(member);
    if (!meta) return undefined;
    this.#metas.delete(member);
    // The others do not know it yet.
    if (!this.#joined.delete(meta)) this.#left.set(meta, member.presenceKey);
    this.#sendSoon();
    return meta;
  }

  #sendSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      if (this.#joined.size === 0 && this.#left.size === 0) return;
      const diff = JSON.stringify({ joins: byKey(this.#joined), leaves: byKey(this.#left) });
      this.#joined.clear();
      this.#left.clear();
      this.#options.send(diff);
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
