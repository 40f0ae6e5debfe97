import type { IncomingMessage } from "node:http";
import { type Caller, nobody } from "../../db/caller.ts";
import { readCredentials } from "./credentials.ts";
import { RefusedError } from "./refused.ts";
import { RequestCallers, type RequestCallersOptions } from "./request-callers.ts";

export type LenientCallersOptions = Omit<RequestCallersOptions, "needsKey" | "refusal"> & {
  readonly anonymousRole: string;
};

/** Who sends a request to GraphQL, where a credential that is not good makes nobody of its sender. Source: the contract. */
export class LenientCallers {
  readonly #callers: RequestCallers;
  readonly #anonymousRole: string;

  constructor({ anonymousRole, ...options }: LenientCallersOptions) {
    this.#callers = new RequestCallers({ ...options, needsKey: false, refusal: (error) => error });
    this.#anonymousRole = anonymousRole;
  }

  of(request: IncomingMessage): Caller | Promise<Caller> {
    return this.#orNobody(() => this.#callers.of(request));
  }

  /** By what stands for the header Authorization in a message. */
  saying(authorization: unknown, request: IncomingMessage): Caller | Promise<Caller> {
    if (authorization !== null && typeof authorization !== "string") return nobody(this.#anonymousRole, "invalid");
    const credentials = readCredentials({ authorization: authorization ?? undefined });
    return this.#orNobody(() => this.#callers.ofCredentials(credentials, request));
  }

  #orNobody(resolve: () => Caller | Promise<Caller>): Caller | Promise<Caller> {
    try {
      const caller = resolve();
      return caller instanceof Promise ? caller.catch((error) => this.#nobody(error)) : caller;
    } catch (error) {
      return this.#nobody(error);
    }
  }

  #nobody(error: unknown): Caller {
    if (!(error instanceof RefusedError)) throw error;
    const isExpired = error.reason === "expired token" || error.reason === "expired key";
    return nobody(this.#anonymousRole, isExpired ? "expired" : "invalid");
  }
}
