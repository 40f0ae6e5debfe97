import type { Caller } from "../../db/caller.ts";
import type { Catalog } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import { isRaised } from "../../db/errors.ts";
import { type DatabaseErrorLike, MISSING } from "../../db/sqlstates.ts";
import type { Exchange } from "../../gate/pipeline/exchange.ts";
import { Problem } from "../../problems/problem.ts";
import type { Reason } from "../../problems/reasons.ts";

export type DataOptions = {
  readonly catalog: Pick<LiveCatalog, "current" | "refreshIfStale">;
  readonly anonymousRole: string;
  onInternalError(error: unknown, requestId: string): void;
};

/** A request and what is known about it so far. An error response needs it. */
export type DataExchange = Exchange & {
  caller: Caller | null;
  /** Whether something has been written: then the request must not be repeated. */
  isWritten: boolean;
};

/** Who gets an error. */
export type Reader = { readonly role: string; readonly isAnonymous: boolean; readonly catalog: Catalog };

/**
 * An interface to the rows of the database: tables or resources. Each has its own requests, answers and errors. What they share is
 * when a request is tried again, and what happens after an error.
 */
export abstract class DataInterface<
  Opened extends DataExchange,
  Answered,
  Sent extends { readonly status: number },
  Options extends DataOptions,
> {
  readonly sendsData = true;
  readonly needsDatabase = true;
  protected options: Options;

  constructor(options: Options) {
    this.options = options;
  }

  protected abstract open(exchange: Exchange): Opened;
  /** Rejects with every error for which there is a problem, and others. */
  protected abstract answer(exchange: Opened): Promise<Answered>;
  protected abstract send(exchange: Opened, answered: Answered): Promise<void> | void;
  /** Null for an internal error, which the client must not see. */
  protected abstract problemOf(error: unknown, exchange: Opened, reader: Reader): Sent | null;
  /** Null is an internal error. */
  protected abstract sendProblem(exchange: Opened, problem: Sent | null): void;

  /** Responds to every request, with an error response if it fails. */
  async handle(received: Exchange): Promise<void> {
    const exchange = this.open(received);
    try {
      await this.send(exchange, await this.answer(exchange));
    } catch (error) {
      this.#fail(error, exchange);
    }
  }

  /** Tries a request, and once more if the catalog was outdated: a table may have been created or altered a moment ago. */
  protected async attempt<Served>(exchange: Opened, serve: (isRepeated: boolean) => Promise<Served>): Promise<Served> {
    try {
      return await serve(false);
    } catch (error) {
      const mayRepeat = isOutdated(error) && !exchange.isWritten && !exchange.response.destroyed;
      if (!mayRepeat || !(await this.options.catalog.refreshIfStale())) throw error;
      return serve(true);
    }
  }

  #fail(error: unknown, exchange: Opened): void {
    const { response, head, caller } = exchange;
    const { catalog, anonymousRole, onInternalError } = this.options;
    if (response.destroyed) return;
    if (response.headersSent) {
      // The last chunk is missing, so no client takes the body as complete.
      response.socket?.destroy();
      onInternalError(error, head.requestId);
      return;
    }
    const role = caller?.role ?? anonymousRole;
    const reader = { role, isAnonymous: role === anonymousRole, catalog: catalog.current };
    const problem = this.problemOf(error, exchange, reader);
    if ((problem?.status ?? 500) === 500) onInternalError(error, head.requestId);
    this.sendProblem(exchange, problem);
  }
}

/** Unknown names: the catalog, a description or a prepared statement may be outdated. */
const OUTDATED_REASONS: ReadonlySet<Reason> = new Set<Reason>([
  ...(["no relationship", "no such function", "no such table"] as const),
  ...(["no such column", "no such body columns", "no such type"] as const),
]);

export function isOutdated(error: unknown): boolean {
  if (error instanceof Problem) return OUTDATED_REASONS.has(error.reason);
  const raised = error as DatabaseErrorLike;
  return MISSING.has(raised.code) && !isRaised(raised);
}
