import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { anonymous, type Caller } from "../db/caller.ts";
import { ApiError, type Code } from "../db/errors.ts";
import { apiKeyIn } from "./credentials.ts";
import { type RefusalReason, RefusedError } from "./refused.ts";
import { RequestCallers, type RequestCallersOptions } from "./request-callers.ts";

export type LenientCallersOptions = Omit<RequestCallersOptions, "needsKey" | "refusal"> & {
  readonly anonymousRole: string;
  /** What is told to those whose request is refused. */
  tellingOf(error: RefusedError): { readonly status: number; readonly message: string };
};

/** What is not about a credential that is missing or bad: the request is refused as on every other interface. */
const REFUSED: ReadonlySet<RefusalReason> = new Set<RefusalReason>([
  "no csrf token",
  "foreign page",
  "disagreement",
  "service key in browser",
  "too many attempts",
  "busy",
]);

/** Who sends a request to GraphQL, where a credential that is not good makes nobody of its sender. Source: the contract. */
export class LenientCallers {
  readonly #callers: RequestCallers;
  readonly #anonymousRole: string;
  readonly #tellingOf: LenientCallersOptions["tellingOf"];

  constructor({ anonymousRole, tellingOf, ...options }: LenientCallersOptions) {
    this.#callers = new RequestCallers({ ...options, needsKey: false, refusal: (error) => error });
    this.#anonymousRole = anonymousRole;
    this.#tellingOf = tellingOf;
  }

  /** Throws, or rejects with, ApiError. */
  of(request: IncomingMessage): Caller | Promise<Caller> {
    return this.#orNobody(() => this.#callers.of(request, apiKeyIn(request.url)));
  }

  /**
   * By the headers of a WebSocket and what its `connection_init` says: `{ Authorization: "Bearer …" }`, `apikey` or
   * `X-API-Key` in any case, which take the place of the header of that name. Throws, or rejects with, ApiError.
   */
  ofSocket(request: IncomingMessage, said: Readonly<Record<string, unknown>>): Caller | Promise<Caller> {
    const headers: IncomingHttpHeaders = { ...request.headers };
    for (const [name, value] of Object.entries(said)) {
      const header = name.toLowerCase();
      if (!SAID.has(header)) continue;
      if (value !== null && typeof value !== "string") return anonymous(this.#anonymousRole, "invalid");
      headers[header] = value ?? undefined;
    }
    return this.#orNobody(() => this.#callers.ofSocket(request, headers));
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
    if (REFUSED.has(error.reason)) throw this.#asApiError(error);
    const isExpired = error.reason === "expired token" || error.reason === "expired key";
    return anonymous(this.#anonymousRole, isExpired ? "expired" : "invalid");
  }

  #asApiError(error: RefusedError): ApiError {
    const { status, message } = this.#tellingOf(error);
    const { retryAfter } = error.more;
    return new ApiError({ status, code: CODES[status]!, message, ...(retryAfter !== undefined && { retryAfter }) });
  }
}

const SAID: ReadonlySet<string> = new Set(["authorization", "apikey", "x-api-key"]);

const CODES: Readonly<Record<number, Code>> = {
  401: "AUTH_REQUIRED",
  403: "PERMISSION_DENIED",
  429: "RATE_LIMITED",
  503: "INTERNAL_ERROR",
};
