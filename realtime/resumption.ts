import { createHash } from "node:crypto";
import type pg from "pg";
import type { ByteBudget, Holding } from "../db/admission/byte-budget.ts";
import { comparePositions, type Start } from "../db/changes/position.ts";

/** What identifies a channel of a client across connections. */
export type ChannelIdentity = {
  /** The parameter `client_id`. Without it, the IP address and user agent, which several clients may share. */
  readonly client: string;
  /** Whether no other client has the same `client`. */
  readonly isExact: boolean;
  /** Credentials, topic and bindings as text. */
  readonly channel: string;
  /** That of the client: its positions count as held by it. */
  readonly network: string;
};

/** Milliseconds that a channel can be resumed, at least. */
const MAX_AGE = 60_000;
/** Channels of one identity that are lost within so many milliseconds are kept as one, so that the number of positions is limited. */
const SPAN = 6000;
/** Estimated bytes of an identity, and of each of its positions. */
const IDENTITY_BYTES = 400;
const POSITION_BYTES = 300;

type ResumptionOptions = {
  readonly budget: Pick<ByteBudget, "hold">;
  textOf(position: Start): string;
  startOf(text: string): Start | null;
  /** Those of all processes; null where the database has no table for them. */
  readonly shared: Pick<LostChannels, "add" | "take"> | null;
};

/** Channels of one identity that were lost in one span. */
type Lost = LostChannel & {
  /** Whether they were several. */
  readonly isSeveral: boolean;
};

/** The channels that have lost their connections, and how far their clients had received changes. */
export class Resumption {
  readonly #options: ResumptionOptions;
  /** Those of this process, and those that it has taken over, in the order of their loss. */
  readonly #lost = new Map<string, { readonly lost: readonly Lost[]; readonly holding: Holding }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ResumptionOptions) {
    this.#options = options;
  }

  /** The number of identities. */
  get size(): number {
    return this.#lost.size;
  }

  /** Keeps nothing if the network of the client makes the service hold too much. The channel then starts over. */
  keep(identity: ChannelIdentity, position: Start, lastRef: number): void {
    this.#forgetExpired();
    const key = keyOf(identity);
    const expiresAt = Math.ceil((Date.now() + MAX_AGE) / SPAN) * SPAN;
    const lost = { position: this.#options.textOf(position), lastRef, expiresAt, isSeveral: false };
    const others = identity.isExact ? [] : this.#lostOf(key);
    const known = others.find((other) => other.expiresAt === expiresAt);
    const all = [...others.filter((other) => other !== known), known ? this.#merge(known, lost) : lost];
    if (!this.#put(key, identity, all)) return;
    this.#options.shared?.add(key, lost);
  }

  /** Takes over the positions of the channel that other processes have stored. Await this before `take`. */
  async recall(identity: ChannelIdentity): Promise<void> {
    const key = keyOf(identity);
    const shared = (await this.#options.shared?.take(key)) ?? [];
    if (shared.length === 0) return;
    const all = new Map((identity.isExact ? [] : this.#lostOf(key)).map((own) => [own.expiresAt, own]));
    for (const [expiresAt, stored] of Map.groupBy(shared, (each) => each.expiresAt)) {
      const taken = stored
        .map((each) => ({ ...each, isSeveral: false }))
        .reduce((one, other) => this.#merge(one, other));
      const own = all.get(expiresAt);
      // One of this process is in the table too.
      const isSeveral = taken.isSeveral || own?.isSeveral === true;
      all.set(expiresAt, own && !isEqual(own, taken) ? this.#merge(own, taken) : { ...taken, isSeveral });
    }
    const byAge = [...all.values()].sort((one, other) => one.expiresAt - other.expiresAt);
    this.#put(key, identity, byAge);
  }

  /**
   * The positions at which a join with the reference `ref` may continue. Several if clients cannot be distinguished: continuing at the
   * earliest loses nothing. None for a reloaded page without an exact identity: its references start again from the beginning.
   */
  take(identity: ChannelIdentity, ref: number): readonly string[] {
    this.#forgetExpired();
    const key = keyOf(identity);
    const now = Date.now();
    const lost = this.#lostOf(key).filter(({ expiresAt }) => expiresAt > now);
    const fitting = lost.filter(({ lastRef }) => identity.isExact || ref > lastRef);
    // Another client may be the one that continues.
    const isOnlyOne = fitting.length === 1 && lost.length === 1 && !fitting[0]!.isSeveral;
    if (identity.isExact || isOnlyOne) this.#delete(key);
    return fitting.map(({ position }) => position);
  }

  /** Loses nothing for any of them, but some may get changes twice. */
  #merge(one: Lost, other: Lost): Lost {
    const { textOf, startOf } = this.#options;
    const isFirst = comparePositions(startOf(one.position)!, startOf(other.position)!) <= 0;
    const { position: earliest } = isFirst ? one : other;
    const { snapshot, ...start } = startOf(earliest)!;
    // Another client may not have seen what the snapshot sees.
    const position = snapshot && one.position !== other.position ? textOf(start) : earliest;
    const lastRef = Math.min(one.lastRef, other.lastRef);
    return { position, lastRef, expiresAt: one.expiresAt, isSeveral: true };
  }

  #lostOf(key: string): readonly Lost[] {
    return this.#lost.get(key)?.lost ?? [];
  }

  /** Returns false, and changes nothing, if the network may not hold it. */
  #put(key: string, { network }: ChannelIdentity, lost: readonly Lost[]): boolean {
    const known = this.#lost.get(key);
    const holding = known?.holding ?? this.#options.budget.hold(network, "resumption");
    if (!holding.take(IDENTITY_BYTES + lost.length * POSITION_BYTES - holding.bytes)) {
      if (!known) holding.close();
      return false;
    }
    this.#lost.delete(key);
    this.#lost.set(key, { lost, holding });
    this.#forgetLater();
    return true;
  }

  #delete(key: string): void {
    this.#lost.get(key)?.holding.close();
    this.#lost.delete(key);
  }

  #forgetExpired(): void {
    const now = Date.now();
    for (const [key, { lost }] of this.#lost) {
      if (lost.at(-1)!.expiresAt > now) return;
      this.#delete(key);
    }
  }

  #forgetLater(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#forgetExpired();
      if (this.#lost.size > 0) this.#forgetLater();
    }, SPAN).unref();
  }
}

const isEqual = (one: LostChannel, other: LostChannel): boolean =>
  one.position === other.position && one.lastRef === other.lastRef;

/** A digest, because IP addresses are not stored. */
const keyOf = ({ client, channel }: ChannelIdentity) =>
  createHash("sha256").update(`${client}\n${channel}`).digest("base64url");

/** How far the client of a channel had received changes when the connection was lost. */
type LostChannel = {
  readonly position: string;
  /** The last reference of the client. Clients count across connections, so that of a join is higher. */
  readonly lastRef: number;
  /** Milliseconds since 1970. */
  readonly expiresAt: number;
};

type LostChannelsOptions = {
  /** Connections with the role changes_owner, of which one is used at a time. */
  readonly pool: pg.Pool;
  onError(error: Error): void;
};

type Row = LostChannel & { readonly identity: string };

/**
 * The lost channels of all processes, in the table changes.lost_channels: a client may connect to another process than before, such as
 * the next version of the service. If the database does not respond, they are not known, and their channels start over.
 */
export class LostChannels {
  readonly #pool: pg.Pool;
  readonly #onError: (error: Error) => void;
  /** Not written yet. */
  #unwritten: Row[] = [];
  #writing: Promise<void> | null = null;
  /** The last query. The next one waits for it: when many clients reconnect, changes are read nevertheless. */
  #last: Promise<unknown> = Promise.resolve();

  constructor({ pool, onError }: LostChannelsOptions) {
    this.#onError = onError;
    this.#pool = pool;
  }

  /** `identity` is a digest of the identity of the channel. */
  add(identity: string, lost: LostChannel): void {
    this.#unwritten.push({ identity, ...lost });
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null;
    });
  }

  /** Takes the lost channels with this identity out of the table. */
  async take(identity: string): Promise<readonly LostChannel[]> {
    await this.#writing;
    const { rows } = await this.#query(
      `delete from changes.lost_channels where identity = $1
       returning position, last_ref::float8 as "lastRef", extract(epoch from expires_at)::float8 * 1000 as "expiresAt"`,
      [identity],
    );
    return rows;
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#last;
  }

  /** Channels that are lost at the same time are written together. */
  async #write(): Promise<void> {
    await null;
    while (this.#unwritten.length > 0) {
      const rows = this.#unwritten.splice(0);
      await this.#query(
        `with expired as (delete from changes.lost_channels where expires_at < now())
         insert into changes.lost_channels (identity, position, last_ref, expires_at)
         select identity, position, last_ref, to_timestamp(expires_at / 1000)
         from unnest($1::text[], $2::text[], $3::bigint[], $4::float8[]) as lost (identity, position, last_ref, expires_at)`,
        [
          rows.map(({ identity }) => identity),
          rows.map(({ position }) => position),
          rows.map(({ lastRef }) => lastRef),
          rows.map(({ expiresAt }) => expiresAt),
        ],
      );
    }
  }

  #query(text: string, values: readonly unknown[]): Promise<{ rows: any[] }> {
    const result = this.#last.then(() => this.#run(text, values));
    this.#last = result;
    return result;
  }

  async #run(text: string, values: readonly unknown[]): Promise<{ rows: any[] }> {
    try {
      return await this.#pool.query(text, values as unknown[]);
    } catch (error) {
      this.#onError(error as Error);
      return { rows: [] };
    }
  }
}
