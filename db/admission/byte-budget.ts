import { getHeapStatistics } from "node:v8";
import type { Config } from "../../config/config.ts";
import { problem } from "../../problems/problem.ts";
import type { DatabaseLimits } from "../limits.ts";
import { NETWORKS_PER_SITE, siteOf } from "../network.ts";

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

/** A response, a socket, … that the service destroys if memory is short. It then closes its holding. */
export type Holder = { destroy(): void };

/** Maximum bytes; 0 means no limit. */
export type BudgetLimits = { readonly total: number; readonly perAddress: number };

export type BudgetSettings = Pick<Config, "clientMemory"> & Pick<DatabaseLimits, "clientMemoryPerAddress">;

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
  return { total, perAddress: clientMemoryPerAddress ?? Math.floor(total / 4) };
}

/** A holding or a network of fewer bytes is not ended when memory is short. */
const LARGE = 16_384;

/**
 * The memory that clients may make this process hold, per network and in total. A network may hold its share, and never more than is
 * still free: so many networks together leave room for one that holds little. The same holds for the networks of a site together,
 * whose share is larger: so one site never holds more than half. Each holder is a `Holding`, which must be closed.
 */
export class ByteBudget {
  #total = 0;
  #limits: BudgetLimits = { total: 0, perAddress: 0 };
  readonly #accounts = new Accounts();
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
    return this.#accounts.networks.size;
  }

  /** Bytes by kind. */
  get kinds(): Readonly<Record<Kind, number>> {
    return this.#kinds;
  }

  /** Bytes of one network, or of the networks of one site. */
  heldBy(name: string): number {
    return this.#accounts.get(name)?.bytes ?? 0;
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

  /** The limit that keeps a network, or its site, from holding more than it does beside `own` bytes, or null. */
  limitReached(network: string, own = 0): "total" | "address" | null {
    const { perAddress, total } = this.#limits;
    const held = this.heldBy(network) - own;
    const site = siteOf(network);
    const heldBySite = site === null ? held : this.heldBy(site) - own;
    if (held >= perAddress || heldBySite >= perAddress * NETWORKS_PER_SITE) return "address";
    const free = total - (this.#total - own);
    return free <= 0 || heldBySite > free ? "total" : null;
  }

  /** Throws if the results of one request alone reach the limit of its network: they would never get below it. */
  refuseTooLarge(bytes: number): void {
    const { perAddress } = this.#limits;
    if (bytes >= perAddress) throw problem("result too large", { bytes: perAddress });
  }

  /** Calls back when clients hold less than before. */
  onReturned(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Ends all that the largest site or network holds and that can be ended. Null if none holds much. */
  shed(): { readonly network: string; readonly bytes: number } | null {
    let largest: Account | null = null;
    for (const account of this.#accounts.networks.values()) {
      const whole = account.site ?? account;
      if (account.ending?.size && whole.bytes >= (largest?.bytes ?? LARGE)) largest = whole;
    }
    if (largest === null) return null;
    const { name: network, bytes } = largest;
    const accounts = [...this.#accounts.networks.values()].filter((account) => (account.site ?? account) === largest);
    for (const { ending } of accounts) for (const holding of [...(ending ?? [])]) holding.end();
    return { network, bytes };
  }

  /** Used by Holding only, as are the following. */
  open(holding: Holding): Account {
    const { network, holder } = holding;
    const account = this.#accounts.open(network);
    if (holder !== null) {
      account.ending ??= new Set();
      account.ending.add(holding);
    }
    return account;
  }

  /** The account that may not hold so many more bytes: of the network, or of its site. Null if they may. */
  fullFor(account: Account, bytes: number): Account | null {
    const { site } = account;
    if (!this.#admits(account, bytes, 1)) return account;
    return site === null || this.#admits(site, bytes, NETWORKS_PER_SITE) ? null : site;
  }

  #admits({ bytes: before }: Account, bytes: number, factor: number): boolean {
    const { total, perAddress } = this.#limits;
    const held = before + bytes;
    return held <= perAddress * factor && held <= total - this.#total - bytes;
  }

  add(account: Account, kind: Kind, bytes: number): void {
    account.bytes += bytes;
    if (account.site !== null) account.site.bytes += bytes;
    this.#total += bytes;
    this.#kinds[kind] += bytes;
    if (bytes < 0) this.#tell();
  }

  close(account: Account, holding: Holding): void {
    const { bytes, kind } = holding;
    const { site } = account;
    account.bytes -= bytes;
    if (site !== null) site.bytes -= bytes;
    this.#total -= bytes;
    this.#kinds[kind] -= bytes;
    account.ending?.delete(holding);
    account.large?.delete(holding);
    site?.large?.delete(holding);
    this.#accounts.close(account);
    if (bytes > 0) this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Ends the holder of the most bytes of a kind, if one holds much. */
function endLargest({ large }: Account, kind: Kind): void {
  let largest: Holding | null = null;
  for (const holding of large ?? [])
    if (holding.kind === kind && holding.bytes > (largest?.bytes ?? 0)) largest = holding;
  largest?.end();
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
    if (bytes > 0 && this.#budget!.fullFor(this.#account, bytes) !== null) return false;
    this.add(bytes);
    return true;
  }

  /**
   * Counts bytes that are about to be sent. If the network, or its site, may not hold them, the largest holder of this kind in it is
   * ended. Returns false if that was this one.
   */
  send(bytes: number): boolean {
    if (this.take(bytes)) return true;
    endLargest(this.#budget!.fullFor(this.#account!, bytes)!, this.kind);
    this.add(bytes);
    return !this.#isClosed;
  }

  /** Counts further bytes, which the service holds already. */
  add(bytes: number): void {
    if (this.#account === null) return;
    this.bytes += bytes;
    this.#budget!.add(this.#account, this.kind, bytes);
    if (this.holder === null || this.bytes < LARGE) return;
    for (const account of [this.#account, this.#account.site]) {
      if (account === null) continue;
      account.large ??= new Set();
      account.large.add(this);
    }
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

type RecipientOptions = { readonly holder?: Holder | null; readonly isContinued?: boolean };

/** Where the results of one request go. Counts them until it is closed: the client has read everything, or has disconnected. */
export class Recipient extends Holding {
  /** Who shares the connections of the database: `user 7`, `key 5d3f…`, or the network of an anonymous caller. */
  readonly client: string;
  /** Whether the request has had a transaction before, whose work would be lost if this one were refused. */
  readonly isContinued: boolean;

  constructor(client: string, network: string, { holder = null, isContinued = false }: RecipientOptions = {}) {
    super(network, "responses", holder);
    this.client = client;
    this.isContinued = isContinued;
  }
}

/**
 * What the clients of one network make the service hold, or the networks of one site. `ending` are the holdings that can be ended,
 * `large` those of many bytes.
 */
type Account = {
  readonly name: string;
  /** Of a network, the account of its site, if it has one. */
  readonly site: Account | null;
  bytes: number;
  /** Open holdings; of a site, its networks with open holdings. */
  open: number;
  /** Null for a site. */
  ending: Set<Holding> | null;
  large: Set<Holding> | null;
};

/** The accounts of networks with open holdings, and of their sites. */
class Accounts {
  readonly networks = new Map<string, Account>();
  readonly #sites = new Map<string, Account>();

  /** That of a network or a site. */
  get(name: string): Account | undefined {
    return this.networks.get(name) ?? this.#sites.get(name);
  }

  /** The account of a network, with one more open holding. */
  open(network: string): Account {
    const known = this.networks.get(network);
    if (known) {
      known.open++;
      return known;
    }
    const siteName = siteOf(network);
    const account = newAccount(network, siteName === null ? null : this.#openSite(siteName));
    this.networks.set(network, account);
    return account;
  }

  #openSite(name: string): Account {
    const known = this.#sites.get(name);
    if (known) known.open++;
    const site = known ?? newAccount(name, null);
    this.#sites.set(name, site);
    return site;
  }

  /** The account has one open holding less. */
  close(account: Account): void {
    const { name, site } = account;
    if (--account.open > 0) return;
    this.networks.delete(name);
    if (site !== null && --site.open === 0) this.#sites.delete(site.name);
  }
}

const newAccount = (name: string, site: Account | null): Account => ({
  ...{ name, site, bytes: 0, open: 1 },
  ...{ ending: null, large: null },
});
