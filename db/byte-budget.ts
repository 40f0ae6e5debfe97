import { getHeapStatistics } from "node:v8";
import { ApiError, resultTooLarge } from "./errors.ts";

/**
 * What clients make the service hold:
 * - `responses`: results of requests, from their arrival from Postgres until the client has read them
 * - `messages`: messages of WebSockets and events of streams that the client has not read
 * - `streams`: parts and buffers of results that are larger than memory
 * - `bodies`: bodies of requests, from their first byte until the response has ended
 * - `subscriptions`: documents, plans and filter values of running subscriptions
 * - `presences`: presences in the topics of realtime channels
 * - `resumption`: positions at which channels can be resumed
 */
export const KINDS = [
  ...["responses", "messages", "streams", "bodies"],
  ...["subscriptions", "presences", "resumption"],
] as const as readonly Kind[];
export type Kind = "responses" | "messages" | "streams" | "bodies" | "subscriptions" | "presences" | "resumption";

/** Maximum bytes; 0 means no limit. */
export type BudgetLimits = { readonly total: number; readonly perAddress: number };

/** The settings; "" when unset. */
export type BudgetSettings = { readonly clientMemory: number | ""; readonly clientMemoryPerAddress: number | "" };

const MEBIBYTE = 1_048_576;
/** Of the heap: the least part that the total takes of a small heap, and that of a large one. */
const SMALL_HEAP = 1 / 4;
const LARGE_HEAP = 1 / 16;
/** Until the share of a large heap exceeds it. */
const SMALL_TOTAL = 64 * MEBIBYTE;

/** By default the total is a sixteenth of the heap that V8 has, up to 64 MiB a quarter. One network may hold a quarter of the total. */
export function budgetLimits(
  { clientMemory, clientMemoryPerAddress }: BudgetSettings,
  heap = getHeapStatistics().heap_size_limit,
): BudgetLimits {
  const share = Math.max(heap * LARGE_HEAP, Math.min(heap * SMALL_HEAP, SMALL_TOTAL));
  const total = clientMemory === "" ? Math.floor(share) : clientMemory;
  return { total, perAddress: clientMemoryPerAddress === "" ? Math.floor(total / 4) : clientMemoryPerAddress };
}

/** A response, a socket, … that the service destroys if memory is short. It then closes its holding. */
export type Holder = { destroy(): void };

/** What the clients of one network make the service hold. `ending` are the holdings that can be ended, `large` those of many bytes. */
type Account = {
  readonly network: string;
  bytes: number;
  holdings: number;
  ending: Set<Holding> | null;
  large: Set<Holding> | null;
};

/** A holding or a network of fewer bytes is not ended when memory is short. */
const LARGE = 16_384;

/**
 * The memory that clients may make this process hold, per network and in total. A network may hold its share, and never more than is
 * still free: so many networks together leave room for one that holds little. Each holder is a `Holding`, which must be closed.
 */
export class ByteBudget {
  #total = 0;
  #limits: BudgetLimits = { total: 0, perAddress: 0 };
  readonly #accounts = new Map<string, Account>();
  readonly #listeners: (() => void)[] = [];
  readonly #kinds: Record<Kind, number> = {
    ...{ responses: 0, messages: 0, streams: 0, bodies: 0 },
    ...{ subscriptions: 0, presences: 0, resumption: 0 },
  };

  constructor(limits: BudgetLimits) {
    this.limitTo(limits);
  }

  limitTo({ total, perAddress }: BudgetLimits): void {
    this.#limits = {
      total: total || Number.POSITIVE_INFINITY,
      perAddress: perAddress || Number.POSITIVE_INFINITY,
    };
  }

  get total(): number {
    return this.#total;
  }

  /** The number of networks with open holdings. */
  get networks(): number {
    return this.#accounts.size;
  }

  /** Bytes by kind. */
  get kinds(): Readonly<Record<Kind, number>> {
    return this.#kinds;
  }

  /** Bytes of one network. */
  heldBy(network: string): number {
    return this.#accounts.get(network)?.bytes ?? 0;
  }

  /** Bytes that one network may hold while the others hold nothing. */
  get share(): number {
    return Math.min(this.#limits.perAddress, this.#limits.total / 2);
  }

  /** Opens a holding. Without a holder, it is not ended when memory is short. */
  hold(network: string, kind: Kind, holder: Holder | null = null): Holding {
    return new Holding(network, kind, holder).open(this);
  }

  /** A holding of this many bytes; null if the network may not hold them. */
  reserve(network: string, kind: Kind, bytes: number, holder: Holder | null = null): Holding | null {
    const holding = this.hold(network, kind, holder);
    if (holding.take(bytes)) return holding;
    holding.close();
    return null;
  }

  /** The limit that keeps a network from holding more than it does beside `own` bytes, or null. */
  limitReached(network: string, own = 0): "total" | "address" | null {
    const held = this.heldBy(network) - own;
    if (held >= this.#limits.perAddress) return "address";
    const free = this.#limits.total - (this.#total - own);
    return free <= 0 || held > free ? "total" : null;
  }

  /** Throws if the results of one request alone reach the limit of its network: they would never get below it. */
  refuseTooLarge(bytes: number): void {
    const { perAddress } = this.#limits;
    if (bytes >= perAddress) throw new ApiError(resultTooLarge(perAddress));
  }

  /** Calls back when clients hold less than before. */
  onReturned(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Ends the holder of the most bytes of a kind in a network, if one holds much. */
  endLargestOf(network: string, kind: Kind): void {
    let largest: Holding | null = null;
    for (const holding of this.#accounts.get(network)?.large ?? [])
      if (holding.kind === kind && holding.bytes > (largest?.bytes ?? 0)) largest = holding;
    largest?.end();
  }

  /** Ends all that the largest network holds and that can be ended. Null if no network holds much. */
  shed(): { readonly network: string; readonly bytes: number } | null {
    let largest: Account | null = null;
    for (const account of this.#accounts.values())
      if (account.ending?.size && account.bytes >= (largest?.bytes ?? LARGE)) largest = account;
    if (largest === null) return null;
    const { network, bytes } = largest;
    for (const holding of [...largest.ending!]) holding.end();
    return { network, bytes };
  }

  /** Used by Holding only, as are the following. */
  open(holding: Holding): Account {
    const { network, holder } = holding;
    let account = this.#accounts.get(network);
    if (account === undefined) {
      account = { network, bytes: 0, holdings: 0, ending: null, large: null };
      this.#accounts.set(network, account);
    }
    account.holdings++;
    if (holder !== null) {
      account.ending ??= new Set();
      account.ending.add(holding);
    }
    return account;
  }

  admits(account: Account, bytes: number): boolean {
    const { total, perAddress } = this.#limits;
    const held = account.bytes + bytes;
    return held <= perAddress && held <= total - this.#total - bytes;
  }

  add(account: Account, kind: Kind, bytes: number): void {
    account.bytes += bytes;
    this.#total += bytes;
    this.#kinds[kind] += bytes;
    if (bytes < 0) this.#tell();
  }

  close(account: Account, holding: Holding): void {
    const { bytes, kind } = holding;
    account.bytes -= bytes;
    this.#total -= bytes;
    this.#kinds[kind] -= bytes;
    account.ending?.delete(holding);
    account.large?.delete(holding);
    if (--account.holdings === 0) this.#accounts.delete(account.network);
    if (bytes > 0) this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** The bytes that one holder, such as a response or a socket, makes the service hold. */
export class Holding {
  readonly network: string;
  readonly kind: Kind;
  bytes = 0;
  #budget: ByteBudget | null = null;
  #account: Account | null = null;
  #isClosed = false;
  readonly holder: Holder | null;

  /** Counts nothing until it is opened. */
  constructor(network: string, kind: Kind, holder: Holder | null = null) {
    this.network = network;
    this.kind = kind;
    this.holder = holder;
  }

  /** Counts from here on, unless it has been closed. */
  open(budget: ByteBudget): this {
    if (this.#account !== null || this.#isClosed) return this;
    this.#budget = budget;
    this.#account = budget.open(this);
    return this;
  }

  /** Counts further bytes if the network may hold them; otherwise counts nothing and returns false. */
  take(bytes: number): boolean {
    if (this.#account === null) return true;
    if (bytes > 0 && !this.#budget!.admits(this.#account, bytes)) return false;
    this.add(bytes);
    return true;
  }

  /**
   * Counts bytes that are about to be sent. If the network may not hold them, the largest holder of this kind in it is ended. Returns
   * false if that was this one.
   */
  send(bytes: number): boolean {
    if (this.take(bytes)) return true;
    this.#budget!.endLargestOf(this.network, this.kind);
    this.add(bytes);
    return !this.#isClosed;
  }

  /** Counts further bytes, which the service holds already. */
  add(bytes: number): void {
    if (this.#account === null) return;
    this.bytes += bytes;
    this.#budget!.add(this.#account, this.kind, bytes);
    if (this.holder === null || this.bytes < LARGE) return;
    this.#account.large ??= new Set();
    this.#account.large.add(this);
  }

  /** The holder no longer holds these bytes. */
  give(bytes: number): void {
    this.add(-bytes);
  }

  /** Counts at least `bytes`, for a response that is larger than the results that it was made from. */
  atLeast(bytes: number): void {
    if (bytes > this.bytes) this.add(bytes - this.bytes);
  }

  /** Ends the holder, because memory is short. */
  end(): void {
    this.holder?.destroy();
    this.close();
  }

  /** The holder holds nothing anymore. */
  close(): void {
    this.#isClosed = true;
    if (this.#account === null) return;
    this.#budget!.close(this.#account, this);
    this.#account = null;
    this.bytes = 0;
  }
}

/** Where the results of one request go. Counts them until it is closed: the client has read everything, or has disconnected. */
export class Recipient extends Holding {
  /** Who shares the connections of the database: `user 7`, `key 5d3f…`, or the network of an anonymous caller. */
  readonly client: string;

  constructor(client: string, network: string, holder: Holder | null = null) {
    super(network, "responses", holder);
    this.client = client;
  }
}
