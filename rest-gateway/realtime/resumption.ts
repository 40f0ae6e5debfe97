import { createHash } from "node:crypto";
import type { Start } from "../../db/changes/position.ts";
import type { LostChannel, LostChannels } from "./lost-channels.ts";

/** What identifies a channel of a client across connections. */
export type ChannelIdentity = {
  /** The parameter `client_id`, or else what the client has in common with itself: IP address and user agent. */
  readonly client: string;
  /** Whether no other client has the same `client`. */
  readonly isExact: boolean;
  /** Credentials, topic and bindings as text. */
  readonly channel: string;
};

/** Milliseconds that a channel can be resumed. */
const MAX_AGE = 60_000;
/** The oldest ones are forgotten. */
const MAX_LOST = 100_000;

export type ResumptionOptions = {
  textOf(position: Start): string;
  /** Those of all processes; null where the database has no table for them. */
  readonly shared: Pick<LostChannels, "add" | "take"> | null;
};

/** The channels that have lost their connections, and how far their clients had received changes. */
export class Resumption {
  readonly #options: ResumptionOptions;
  /** Those of this process, and those that it has taken over, in the order of their loss. */
  readonly #lost = new Map<string, readonly LostChannel[]>();

  constructor(options: ResumptionOptions) {
    this.#options = options;
  }

  /** The number of identities. */
  get size(): number {
    return this.#lost.size;
  }

  keep(identity: ChannelIdentity, position: Start, lastRef: number): void {
    this.#forgetExpired();
    const key = keyOf(identity);
    const lost = { position: this.#options.textOf(position), lastRef, expiresAt: Date.now() + MAX_AGE };
    const others = identity.isExact ? [] : (this.#lost.get(key) ?? []);
    this.#lost.delete(key);
    this.#lost.set(key, [...others, lost]);
    this.#options.shared?.add(key, lost);
  }

  /** To be awaited before `take`: takes over what another process knows of the channel. */
  async recall(identity: ChannelIdentity): Promise<void> {
    const key = keyOf(identity);
    const shared = (await this.#options.shared?.take(key)) ?? [];
    if (shared.length === 0) return;
    const isShared = ({ position }: LostChannel) => shared.some((other) => other.position === position);
    const others = identity.isExact ? [] : (this.#lost.get(key) ?? []).filter((own) => !isShared(own));
    this.#lost.set(key, [...others, ...shared]);
  }

  /**
   * The positions that a join may continue at. More than one, if several clients cannot be distinguished: then the earliest loses
   * nothing. `ref` is that of the join. A page that has been loaded again counts from the beginning, and continues nowhere.
   */
  take(identity: ChannelIdentity, ref: number): readonly string[] {
    this.#forgetExpired();
    const key = keyOf(identity);
    const now = Date.now();
    const lost = (this.#lost.get(key) ?? []).filter(({ expiresAt }) => expiresAt > now);
    const fitting = lost.filter(({ lastRef }) => identity.isExact || ref > lastRef);
    // Another client may be the one that continues.
    if (fitting.length === 1 && lost.length === 1) this.#lost.delete(key);
    return fitting.map(({ position }) => position);
  }

  #forgetExpired(): void {
    const now = Date.now();
    for (const [key, lost] of this.#lost) {
      if (this.#lost.size <= MAX_LOST && lost.at(-1)!.expiresAt > now) return;
      this.#lost.delete(key);
    }
  }
}

/** A digest, because IP addresses are not stored. */
const keyOf = ({ client, channel }: ChannelIdentity) =>
  createHash("sha256").update(`${client}\n${channel}`).digest("base64url");
