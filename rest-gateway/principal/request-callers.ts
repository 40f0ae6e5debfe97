import type { IncomingMessage } from "node:http";
import type { Caller } from "../../db/caller.ts";
import type { AddressReader } from "../../http/address.ts";
import { csrfTokenIn } from "../auth/csrf.ts";
import { type Credentials, readCredentials } from "./credentials.ts";
import type { Principals } from "./principals.ts";
import { RefusedError } from "./refused.ts";

export type RequestCallersOptions = {
  readonly principals: Principals;
  readonly addressOf: AddressReader;
  readonly needsKey: boolean;
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
    return this.ofCredentials(readCredentials(request.headers, apiKey), request);
  }

  /** The same with credentials that came otherwise than in the headers. */
  ofCredentials(credentials: Credentials, request: IncomingMessage): Caller | Promise<Caller> {
    const { principals, addressOf, needsKey } = this.#options;
    const { headers, method = "GET" } = request;
    try {
      const caller = principals.resolve(credentials, {
        needsKey,
        origin: headers.origin,
        isUnsafe: !SAFE_METHODS.has(method),
        csrfToken: csrfTokenIn(headers),
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
