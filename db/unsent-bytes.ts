import { ApiError, resultTooLarge } from "./errors.ts";

/** Maximum bytes; 0 means no limit. */
export type UnsentLimits = { readonly total: number; readonly perAddress: number };

/** What the clients at one address have not taken yet. */
type Account = { readonly address: string; bytes: number; recipients: number };

/**
 * Counts results that this process holds: from their arrival from Postgres until the client has taken them. Clients that
 * read slowly, or not at all, would otherwise fill the memory. Everything that is sent to a client is counted here: HTTP
 * responses and WebSocket messages.
 */
export class UnsentBytes {
  #total = 0;
  #limits: UnsentLimits = { total: 0, perAddress: 0 };
  readonly #accounts = new Map<string, Account>();
  readonly #listeners: (() => void)[] = [];

  constructor(limits: UnsentLimits) {
    this.limitTo(limits);
  }

  limitTo({ total, perAddress }: UnsentLimits): void {
    this.#limits = {
      total: total || Number.POSITIVE_INFINITY,
      perAddress: perAddress || Number.POSITIVE_INFINITY,
    };
  }

  get total(): number {
    return this.#total;
  }

  /** The number of addresses with open recipients. */
  get addresses(): number {
    return this.#accounts.size;
  }

  /** The limit that the other recipients have reached, or null. */
  limitReached({ bytes, address }: Recipient): "total" | "address" | null {
    const others = this.#total - bytes;
    if (others >= this.#limits.total) return "total";
    if (others < this.#limits.perAddress) return null;
    const atAddress = (this.#accounts.get(address)?.bytes ?? 0) - bytes;
    return atAddress >= this.#limits.perAddress ? "address" : null;
  }

  /** Throws if the results of one request alone reach the limit of its address: they would never get below it. */
  refuseTooLarge({ bytes }: Recipient): void {
    const { perAddress } = this.#limits;
    if (bytes >= perAddress) throw new ApiError(resultTooLarge(perAddress));
  }

  /** Calls back when clients have taken results. */
  onTaken(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /**
   * Counts one message of a stream, such as a WebSocket, to the clients at an address. The result must be called once, when
   * the client has taken the message.
   */
  message(address: string, bytes: number): () => void {
    const account = this.open(address);
    this.add(account, bytes);
    return () => this.close(account, bytes);
  }

  /** Used by Recipient only. */
  open(address: string): Account {
    let account = this.#accounts.get(address);
    if (account === undefined) {
      account = { address, bytes: 0, recipients: 0 };
      this.#accounts.set(address, account);
    }
    account.recipients++;
    return account;
  }

  /** Used by Recipient only. */
  add(account: Account, bytes: number): void {
    account.bytes += bytes;
    this.#total += bytes;
  }

  /** Used by Recipient only. */
  close(account: Account, bytes: number): void {
    account.bytes -= bytes;
    this.#total -= bytes;
    if (--account.recipients === 0) this.#accounts.delete(account.address);
    if (bytes > 0) for (const listener of this.#listeners) listener();
  }
}

/** Where the results of one request go. Counts them until `close`. */
export class Recipient {
  /** Who shares the connections of the database: `user 7`, `key 5d3f…`, or the network of an anonymous caller. */
  readonly client: string;
  /** The network of the client. */
  readonly address: string;
  /** Bytes that the client has not taken yet. */
  bytes = 0;
  #unsent: UnsentBytes | null = null;
  #account: Account | null = null;
  #isClosed = false;

  constructor(client: string, address: string) {
    this.client = client;
    this.address = address;
  }

  /** From here on its results are counted, unless the client has disconnected. */
  open(unsent: UnsentBytes): void {
    if (this.#account !== null || this.#isClosed) return;
    this.#unsent = unsent;
    this.#account = unsent.open(this.address);
  }

  add(bytes: number): void {
    if (this.#account === null) return;
    this.bytes += bytes;
    this.#unsent!.add(this.#account, bytes);
  }

  /** Counts at least `bytes`, for a response that is larger than the results that it was made from. */
  atLeast(bytes: number): void {
    if (bytes > this.bytes) this.add(bytes - this.bytes);
  }

  /** The client has taken everything, or has disconnected. */
  close(): void {
    this.#isClosed = true;
    if (this.#account === null) return;
    this.#unsent!.close(this.#account, this.bytes);
    this.#account = null;
    this.bytes = 0;
  }
}
