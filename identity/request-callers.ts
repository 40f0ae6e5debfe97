import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Caller } from "../db/caller.ts";
import type { AddressReader } from "../http/address.ts";
import type { Circumstances, Principals } from "./caller-resolver.ts";
import { apiKeyIn, type Credentials, readCredentials } from "./credentials.ts";
import { csrfTokenIn } from "./csrf.ts";
import { RefusedError } from "./refused.ts";

export type RequestCallersOptions = {
  readonly principals: Principals;
  readonly addressOf: AddressReader;
  readonly needsKey: boolean;
  /** Whether a page of ours sends a request, or a program; where it is not given nobody has a session. */
  sentByOwnPage?(headers: IncomingHttpHeaders): boolean;
  /** What the interface says of a refusal. */
  refusal(error: RefusedError): Error;
};

const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS"]);

/** Who sends a request to one of the interfaces. */
export class RequestCallers {
  readonly #options: RequestCallersOptions;

  constructor(options: RequestCallersOptions) {
    this.#options = options;
  }

  /** `apiKey` is the parameter `api_key`. Throws, or rejects with, what the interface says of a refusal. */
  of(request: IncomingMessage, apiKey: string | null = null): Caller | Promise<Caller> {
    const { headers, method = "GET" } = request;
    return this.#resolve(readCredentials(headers, apiKey), request, SAFE_METHODS.has(method) ? null : "csrf token");
  }

  /** Who opens a WebSocket, over which everything can be changed; `headers` are its own, and what else it has said. */
  ofSocket(request: IncomingMessage, headers: IncomingHttpHeaders): Caller | Promise<Caller> {
    return this.#resolve(readCredentials(headers, apiKeyIn(request.url)), request, "own page");
  }

  #resolve(
    credentials: Credentials,
    request: IncomingMessage,
    sessionNeeds: Circumstances["sessionNeeds"],
  ): Caller | Promise<Caller> {
    const { principals, addressOf, needsKey, sentByOwnPage } = this.#options;
    const { headers } = request;
    try {
      const caller = principals.resolve(credentials, {
        needsKey,
        origin: headers.origin,
        sessionNeeds,
        csrfToken: () => csrfTokenIn(request),
        isOwnPage: () => sentByOwnPage?.(headers) === true,
        address: addressOf(request),
      });
      return caller instanceof Promise ? caller.catch((error) => this.#refuse(error)) : caller;
    } catch (error) {
      return this.#refuse(error);
    }
  }

  #refuse(error: unknown): never {
    throw error instanceof RefusedError ? this.#options.refusal(error) : error;
  }
}
