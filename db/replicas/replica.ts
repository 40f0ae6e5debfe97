import pg from "pg";
import type { CallerLogin } from "../caller.ts";
import { pause, within } from "../repeat.ts";
import type { Transactions } from "../transaction/transaction.ts";
import type { PrimaryPosition } from "./primary-position.ts";
import type { Lsn } from "./recent-writes.ts";

export type ReplicaOptions = {
  /** For the log and metrics: `replica-1:5432` */
  readonly name: string;
  /** A connection string of the login `data`. */
  readonly url: string;
  readonly transactions: Readonly<Record<CallerLogin, Transactions>>;
  readonly primary: PrimaryPosition;
  /** Milliseconds. A replica that is further behind is not used. */
  readonly maxLag: number;
  /** Called when it can be used again (null), or not any more. */
  onState(name: string, fault: string | null): void;
  /** Called after each look at what it has replayed. */
  onLook(): void;
};

type State = Record<"replayed" | "received", string | null> & { readonly standby: boolean; readonly system: string };

const STARTING = "it has not been looked at yet";
const NOT_FOLLOWING = "it does not follow the primary (yet)";

/** Milliseconds until the next look, if nothing waits for it. */
const IDLE = 500;
/** The same while a read waits: each time twice as many, while it replays nothing. The position of a client may be one that never comes. */
const [BUSY, MAX_BUSY] = [2, 16];
/** Milliseconds after which a server that does not answer counts as dead. */
const SILENT = 2000;
/** Milliseconds between two looks at a replica that has to show that it follows the primary. */
const PROVING = 100;

const QUERY = `
  select pg_is_in_recovery() as standby, (pg_last_wal_replay_lsn() - '0/0')::text as replayed,
    (pg_last_wal_receive_lsn() - '0/0')::text as received, system_identifier::text as system
  from pg_control_system()`;

/** A replica: its pools, and one connection that looks at what it has replayed. */
export class Replica {
  readonly name: string;
  readonly transactions: ReplicaOptions["transactions"];
  /** Reads that it is answering. */
  running = 0;
  /** Reads that it has answered. */
  answered = 0;
  /** What it had replayed when it was last looked at. */
  replayed: Lsn = 0n;
  readonly #options: ReplicaOptions;
  #client: pg.Client | null = null;
  #fault: string | null = STARTING;
  /** The stream of the primary that it is known to follow; "" while that is uncertain. */
  #followed = "";
  #timer: NodeJS.Timeout | undefined;
  /** Milliseconds until the next look, while a read waits. */
  #busyPause = BUSY;
  #isLooking = false;
  #isClosed = false;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    this.name = options.name;
    this.transactions = options.transactions;
  }

  /** Why it is not used; null if it is. */
  get fault(): string | null {
    return this.#fault ?? (this.#isFollowing ? null : NOT_FOLLOWING);
  }

  get #isFollowing(): boolean {
    return this.#followed === this.#options.primary.stream;
  }

  /** Milliseconds. */
  get lag(): number {
    return this.#options.primary.lagOf(this.replayed, performance.now());
  }

  /** Looks at it now, and again after a while: soon if `isBusy` says so. */
  async look(isBusy: () => boolean): Promise<void> {
    if (this.#isLooking || this.#isClosed) return;
    this.#isLooking = true;
    clearTimeout(this.#timer);
    const before = this.replayed;
    try {
      const state = await this.#read();
      this.#apply(this.#mayFollow(state) ? await this.#prove(state) : state);
    } catch (error) {
      this.#lose((error as Error).message);
    }
    this.#isLooking = false;
    this.#options.onLook();
    if (this.#isClosed) return;
    const isAwaited = this.fault === null && isBusy();
    const pause = isAwaited ? this.#busyPause : IDLE;
    this.#busyPause = isAwaited && this.replayed === before ? Math.min(2 * this.#busyPause, MAX_BUSY) : BUSY;
    this.#timer = setTimeout(() => this.look(isBusy), pause).unref();
  }

  /** A connection to it has failed: it is not used until it has answered again. */
  doubt(error: Error): void {
    this.#lose(error.message);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#disconnect();
    await Promise.all(Object.values(this.transactions).map((each) => each.close()));
  }

  async #read(): Promise<State> {
    this.#client ??= await this.#connect();
    const { rows } = await this.#client.query<State>(QUERY);
    return rows[0]!;
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.#options.url,
      application_name: "content-service replica",
      connectionTimeoutMillis: SILENT,
      query_timeout: SILENT,
      keepAlive: true,
    });
    client.on("error", (error) => this.#client === client && this.#lose(error.message));
    await client.connect();
    if (this.#isClosed) {
      client.end().catch(() => {});
      throw new Error("closed");
    }
    return client;
  }

  /**
   * After a failover, a replica may have more of the log of the previous primary than the new primary has got of it. The positions of
   * the two logs do not tell, so a replica is used only when it has replayed something that the present primary has written since.
   */
  async #prove(state: State): Promise<State> {
    const { primary, maxLag } = this.#options;
    const { stream } = primary;
    if (this.#fault === null) this.#set(NOT_FOLLOWING);
    const lsn = await within(
      SILENT,
      primary.mark().catch(() => null),
    );
    const has = (position: string | null) => lsn === null || BigInt(position ?? 0) >= lsn;
    if (has(state.replayed) || has(state.received)) return state;
    let latest = state;
    for (const end = performance.now() + maxLag; !has(latest.replayed); latest = await this.#read()) {
      if (this.#isClosed || primary.stream !== stream || performance.now() > end) return latest;
      await pause(PROVING);
    }
    this.#followed = stream;
    return latest;
  }

  /** Whether it has to show that it follows the primary. */
  #mayFollow({ standby, system }: State): boolean {
    return !this.#isFollowing && standby && system === this.#options.primary.system;
  }

  #apply({ standby, replayed, system }: State): void {
    const { primary, maxLag } = this.#options;
    this.replayed = BigInt(replayed ?? 0);
    if (primary.system === "") return;
    if (system !== primary.system) this.#set("it is no replica of the database");
    else if (!standby) this.#set("it is no replica any more: it accepts writes");
    else if (!this.#isFollowing) this.#set(NOT_FOLLOWING);
    else if (this.lag > maxLag) this.#set(`it is behind by more than ${maxLag} ms`);
    else this.#set(null);
  }

  #lose(reason: string): void {
    this.#disconnect();
    this.replayed = 0n;
    this.#followed = "";
    this.#set(`it does not answer: ${reason}`);
  }

  #disconnect(): void {
    const client = this.#client;
    this.#client = null;
    client?.end().catch(() => {});
  }

  #set(fault: string | null): void {
    const isChanged = this.#fault === STARTING || (fault === null) !== (this.#fault === null);
    this.#fault = fault;
    if (isChanged && !this.#isClosed) this.#options.onState(this.name, fault);
  }
}
