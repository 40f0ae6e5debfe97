import type { ByteBudget, Holding } from "../db/admission/byte-budget.ts";
import { problem } from "../problems/problem.ts";

/** Whose presence is tracked. */
export type Tracked = { readonly presenceKey: string; readonly socket: { readonly network: string } };

/** What a client says about itself. `ref` is new with each change, and unique in the topic; the JSON contains it as `phx_ref`. */
type Meta = { readonly ref: string; readonly json: string; readonly bytes: number };

/** The presence of one client. */
type Presence = {
  /** Unique among the processes of the service. */
  readonly id: string;
  readonly key: string;
  /** What the client makes this process hold, also if it is a client of another one. */
  readonly holding: Holding;
  /** The process of the client; null for this one. */
  readonly from: string | null;
  /** Whether that process has begun to tell who is present, and has not named the client yet. */
  isDoubted: boolean;
  /** As the members of the topic know it. */
  announced: Meta | null;
  /** As it is. */
  current: Meta | null;
};

/** The JSON of `presence.current` in another process; null if the client has gone. */
export type PresenceChange = {
  readonly id: string;
  readonly key: string;
  /** Of the client: its presences count for it in each process. */
  readonly network: string;
  readonly meta: { readonly ref: string; readonly json: string } | null;
};

/** Maximum bytes of what a client says about itself, as JSON. */
export const MAX_META_BYTES = 4096;
/** Maximum bytes of all keys and metas of a topic: a member that joins receives them in one message. */
export const MAX_TOPIC_BYTES = 1_048_576;

/** Milliseconds in which changes are collected, so that many clients that come or go at once do not cause a message each. */
const DELAY = 50;
/** The messages about changes of a topic, to all members together: at most so many for each millisecond, */
const MESSAGES = 10;
/** and so many bytes for each millisecond, */
const BYTES = 100_000;
/** and so many bytes at once, or this part of what one network may hold. Further changes wait for the next messages. */
const BYTES_AT_ONCE = 16_000_000;
const PART_AT_ONCE = 1 / 4;
/** What a presence makes the service hold: its text, as members know it, in the message of the state and its buffers. */
const COPIES = 4;
const OVERHEAD = 1000;

export type PresencesOptions = {
  readonly budget: Pick<ByteBudget, "hold" | "share">;
  /** A reference that is new in all processes. */
  newRef(): string;
  /** The number of members that receive changes. */
  audience(): number;
  /** Called with the JSON of `{ joins, leaves }`. Further changes wait until the promise, if there is one, resolves. */
  send(diff: string): Promise<void> | null | void;
  /** Called with each change by a client of this process. */
  share(change: PresenceChange): void;
};

/**
 * Who is present in a topic: clients of this process, and of others. All members know the same: what `state` returns, which is also the
 * sum of the changes that were sent. The more members, the more changes are sent together.
 */
export class Presences {
  readonly #options: PresencesOptions;
  readonly #own = new Map<Tracked, Presence>();
  /** Those of other processes, by id. */
  readonly #remote = new Map<string, Presence>();
  /** Those that the members know, by key. */
  readonly #announced = new Map<string, Set<Presence>>();
  /** Those that have changed since, in the order of their first change. */
  readonly #changed = new Set<Presence>();
  #state: string | null = "{}";
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #isSending = false;
  /** When the next changes may be sent, in milliseconds. */
  #nextAt = 0;

  constructor(options: PresencesOptions) {
    this.#options = options;
  }

  /** The number of clients that are present. */
  get size(): number {
    return this.#own.size + this.#remote.size;
  }

  /** Throws Problem, and changes nothing, if the payload is too large or the topic has too many presences. */
  track(member: Tracked, payload: Readonly<Record<string, unknown>>): void {
    const ref = this.#options.newRef();
    const meta = metaOf(ref, JSON.stringify({ ...payload, phx_ref: ref }));
    if (meta.bytes > MAX_META_BYTES) throw problem("presence too large", { max: MAX_META_BYTES });
    const { presenceKey: key, socket } = member;
    const known = this.#own.get(member);
    const presence = known ?? this.#open(ref, key, socket.network, null);
    this.#admit(presence, meta);
    this.#own.set(member, presence);
    this.#set(presence, meta);
    this.#options.share(changeOf(presence));
  }

  untrack(member: Tracked): void {
    const presence = this.#own.get(member);
    if (!presence) return;
    this.#own.delete(member);
    presence.holding.close();
    this.#set(presence, null);
    this.#options.share(changeOf(presence));
  }

  /** A client of the process `from` has come, changed or gone. Throws Problem like `track`. */
  receive({ id, key, network, meta }: PresenceChange, from: string): void {
    const known = this.#remote.get(id);
    if (known && known.from !== from) return;
    if (known) known.isDoubted = false;
    if (meta === null) {
      if (known) this.#remove(known);
    } else if (known?.current?.ref !== meta.ref) {
      const presence = known ?? this.#open(id, key, network, from);
      const received = metaOf(meta.ref, meta.json);
      this.#admit(presence, received);
      this.#remote.set(id, presence);
      this.#set(presence, received);
    }
  }

  /** The process will tell who is present. */
  doubt(from: string): void {
    for (const presence of this.#remote.values()) if (presence.from === from) presence.isDoubted = true;
  }

  /** The process has told who is present; or, with `all`, it has ended. */
  forget(from: string, all: boolean): void {
    for (const presence of [...this.#remote.values()])
      if (presence.from === from && (all || presence.isDoubted)) this.#remove(presence);
  }

  /** The clients of this process. */
  get own(): PresenceChange[] {
    return [...this.#own.values()].map(changeOf);
  }

  /** The JSON of what the members know. The same text until something else is sent. */
  state(): string {
    this.#state ??= jsonOf(
      [...this.#announced.values()].flatMap((all) => [...all]),
      "announced",
    );
    return this.#state;
  }

  #open(id: string, key: string, network: string, from: string | null): Presence {
    const holding = this.#options.budget.hold(network, "presences");
    return { ...{ id, key, holding, from }, isDoubted: false, announced: null, current: null };
  }

  /** Throws Problem, and closes a new presence, if the topic or the network may not have so many bytes. */
  #admit(presence: Presence, meta: Meta): void {
    const { holding, key, from, current } = presence;
    const bytes = meta.bytes + Buffer.byteLength(key);
    // Several processes may admit presences at the same time: their members should know the same nevertheless.
    const max = from === null ? MAX_TOPIC_BYTES : 2 * MAX_TOPIC_BYTES;
    const isTooMuch = this.#bytes + bytes - sizeOf(presence) > max;
    if (!isTooMuch && holding.take(OVERHEAD + COPIES * bytes - holding.bytes)) return;
    if (current === null) holding.close();
    throw isTooMuch ? problem("too many presences", { max: MAX_TOPIC_BYTES }) : problem("presences hold too much");
  }

  /** One of another process. */
  #remove(presence: Presence): void {
    this.#remote.delete(presence.id);
    presence.holding.close();
    this.#set(presence, null);
  }

  #set(presence: Presence, meta: Meta | null): void {
    this.#bytes -= sizeOf(presence);
    presence.current = meta;
    this.#bytes += sizeOf(presence);
    if (presence.announced === null && meta === null) this.#changed.delete(presence);
    else this.#changed.add(presence);
    this.#sendSoon();
  }

  #sendSoon(): void {
    if (this.#changed.size === 0 || this.#isSending) return;
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined;
        this.#send();
      },
      Math.max(DELAY, this.#nextAt - performance.now()),
    ).unref();
  }

  #send(): void {
    const audience = this.#options.audience();
    const atOnce = Math.min(BYTES_AT_ONCE, this.#options.budget.share * PART_AT_ONCE);
    const changed = this.#takeChanged(atOnce / audience);
    if (changed.length === 0) return;
    const left = changed.filter(({ announced }) => announced !== null);
    const joined = changed.filter(({ current }) => current !== null);
    const diff = audience === 0 ? "" : `{"joins":${jsonOf(joined, "current")},"leaves":${jsonOf(left, "announced")}}`;
    for (const presence of changed) this.#announce(presence);
    this.#state = null;
    const sent = audience > 0 ? this.#options.send(diff) : null;
    this.#nextAt = performance.now() + Math.max(audience / MESSAGES, (audience * diff.length) / BYTES);
    if (sent) void this.#sendAfter(sent);
    else this.#sendSoon();
  }

  /** Takes the oldest changes, at least one, and together about `maxBytes`. */
  #takeChanged(maxBytes: number): Presence[] {
    const taken: Presence[] = [];
    let bytes = 0;
    for (const presence of this.#changed) {
      if (taken.length > 0 && bytes >= maxBytes) break;
      taken.push(presence);
      this.#changed.delete(presence);
      bytes += (presence.announced?.bytes ?? 0) + sizeOf(presence);
    }
    return taken;
  }

  async #sendAfter(sent: Promise<void>): Promise<void> {
    this.#isSending = true;
    await sent;
    this.#isSending = false;
    this.#sendSoon();
  }

  #announce(presence: Presence): void {
    const { key, current } = presence;
    presence.announced = current;
    const all = this.#announced.get(key) ?? new Set();
    if (current !== null) this.#announced.set(key, all.add(presence));
    else if (all.delete(presence) && all.size === 0) this.#announced.delete(key);
  }
}

const metaOf = (ref: string, json: string): Meta => ({ ref, json, bytes: Buffer.byteLength(json) });

const sizeOf = ({ key, current }: Presence): number => (current ? current.bytes + Buffer.byteLength(key) : 0);

const changeOf = ({ id, key, holding: { network }, current }: Presence): PresenceChange => ({
  ...{ id, key, network },
  meta: current && { ref: current.ref, json: current.json },
});

/** By key: `{ "ada": { "metas": [{ "phx_ref": "…", … }] } }` */
function jsonOf(presences: readonly Presence[], which: "announced" | "current"): string {
  const keys = Map.groupBy(presences, ({ key }) => key);
  const members = [...keys].map(
    ([key, all]) => `${JSON.stringify(key)}:{"metas":[${all.map((each) => each[which]!.json).join()}]}`,
  );
  return `{${members.join()}}`;
}
