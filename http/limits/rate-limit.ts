import type { IncomingMessage } from "node:http";
import { networkOf } from "../../db/network.ts";
import { KEY_PARAMETERS } from "../../identity/credentials.ts";
import type { AddressReader } from "../pipeline/request.ts";
import type { Client, Clients, Taken } from "./clients.ts";
import type { LimitReport } from "./limit-log.ts";

/** Probes are not limited, unless they have a credential that must be verified. */
const EXEMPT = /^\/(live|ready|health|metrics)(\?|$)/;

/** An operation on a socket counts again for each so many characters of its document or filters: to read them takes the longer. */
export const CHARACTERS_PER_OPERATION = 1000;

export type RateLimitOptions = {
  /** Requests per minute; 0 means no limit. */
  readonly limit: number;
  readonly clients: Clients;
  readonly addressOf: AddressReader;
  readonly onLimit?: LimitReport;
};

/**
 * Limits the requests and the operations on WebSockets of a known caller, or else of a network. The first request of a caller counts
 * for the network, and so does every request without a valid credential, so that a flood of them is limited before it costs a query.
 */
export class RateLimit {
  readonly #options: RateLimitOptions;
  #limit: number;

  constructor(options: RateLimitOptions) {
    this.#options = options;
    this.#limit = options.limit;
  }

  /** Requests per minute; 0 means no limit. */
  get limit(): number {
    return this.#limit;
  }

  /** Replaces the limit. What callers have left of the previous limit stays, up to the new one. */
  follow(limit: number): void {
    this.#limit = limit;
  }

  /**
   * Counts a request; null without a limit. Health checks without a credential are exempt, and so are preflights, which the browser
   * adds to the requests of a page.
   */
  count(request: IncomingMessage, knownName: string | null): Taken | null {
    if (this.#limit === 0) return null;
    const { clients, addressOf } = this.#options;
    return this.#take(clients.of(knownName ?? networkOf(addressOf(request))), isExempt(request) ? 0 : 1);
  }

  /** Counts an operation on a socket from this network like `cost` requests, but never more than the limit; null without a limit. */
  countOperation(network: Client, knownName: string | null, cost: number): Taken | null {
    if (this.#limit === 0) return null;
    return this.#take(
      knownName === null ? network : this.#options.clients.of(knownName),
      Math.max(1, Math.min(cost, this.#limit - 1)),
    );
  }

  /** Counts what a request multiplies, such as its messages, like `cost` further requests. */
  countMore(request: IncomingMessage, knownName: string | null, cost: number): Taken | null {
    const { clients, addressOf } = this.#options;
    return this.countOperation(clients.of(networkOf(addressOf(request))), knownName, cost);
  }

  /** Headers of every response; names and values alternate. */
  headersOf({ remaining }: Taken): string[] {
    return ["X-RateLimit-Limit", String(this.#limit), "X-RateLimit-Remaining", String(remaining)];
  }

  #take(client: Client, cost: number): Taken {
    const taken = client.take(this.#limit, cost);
    if (taken.isOver) this.#options.onLimit?.("RATE_LIMIT", client);
    return taken;
  }
}

const isExempt = ({ method, url = "/", headers }: IncomingMessage) =>
  (method === "OPTIONS" && headers["access-control-request-method"] !== undefined) ||
  (EXEMPT.test(url) &&
    !KEY_PARAMETERS.some((name) => url.includes(name)) &&
    !CREDENTIALS.some((name) => name in headers));

const CREDENTIALS = ["authorization", "apikey", "x-api-key", "cookie"];
