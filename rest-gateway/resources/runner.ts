import type { Caller } from "../../db/caller.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Database } from "../../db/database.ts";
import type { DatabaseErrorLike } from "../../db/errors.ts";
import type { Identity, RequestContext, TransactionSettings } from "../../db/identity.ts";
import type { CancelSignal, Result, RunOptions, Statement } from "../../db/transaction.ts";
import { shapeCache, type TextCache } from "../cache.ts";
import type { Written } from "../sql.ts";
import { explained } from "./refusal.ts";
import { isConditional, type ResourceRequest } from "./request.ts";
import type { Resource } from "./resource.ts";
import { answeringResult, statementOf, stateOf, writeStatements } from "./write/statement.ts";

export type RunnerOptions = {
  readonly database: Pick<Database, "forRole">;
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly anonymousRole: string;
  /** Whether those without credentials may change what has an editor in its description. */
  readonly isOpen: boolean;
};

/** Timestamps are told in UTC, whatever the server's zone. */
export const SETTINGS: TransactionSettings = { fixed: [["timezone", "UTC"]], given: [] };

/** Turns requests into statements and runs them: one transaction, one round trip. */
export class Runner {
  readonly #options: RunnerOptions;
  /** Of one shape of the resources: they change with the catalog. */
  #statements = new WeakMap<Resource, TextCache<readonly Written[]>>();

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  identity(request: ResourceRequest, caller: Caller, context: RequestContext): Identity {
    return {
      caller: this.#isEditor(request, caller) ? { ...caller, role: request.resource.description.editor! } : caller,
      request: context,
      settings: SETTINGS,
    };
  }

  /** Rejects with the errors of the database, explained. */
  async run(request: ResourceRequest, identity: Identity, signal: CancelSignal): Promise<Result> {
    const transactions = this.#options.database.forRole(identity.caller.role);
    const { kind } = request.operation;
    const isRead = kind === "list" || kind === "read";
    const isolation = isolationOf(request);
    const ask = async () => {
      const results = await transactions.run(identity, this.#statementsOf(request), {
        takesAll: !isRead,
        signal,
        isolation,
      });
      return answeringResult(results, request);
    };
    try {
      for (let asked = 1; ; asked++) {
        const result = await ask().catch((error) => {
          if (asked < MAX_ASKED && isOvertaken(error, request)) return null;
          throw error;
        });
        // Of a row that was changed or deleted while this waited for it the statement still sees the old one, and takes it for
        // forbidden. A second look tells.
        const isUnsure = result === null || (asked === 1 && !isRead && stateOf(result) === "forbidden");
        if (!isUnsure) return result;
      }
    } catch (error) {
      throw await this.explained(error, request, identity);
    }
  }

  /** The error of a change that the database has refused, with more than it says by itself. */
  explained(error: unknown, request: ResourceRequest, identity: Identity): Promise<unknown> {
    const { database, catalog } = this.#options;
    const transactions = database.forRole(identity.caller.role);
    return explained(error, { request, identity, transactions }, catalog.current.constraints);
  }

  #statementsOf(request: ResourceRequest): Statement[] {
    const { resource, shape, values } = request;
    const known = this.#statements.get(resource) ?? shapeCache<readonly Written[]>(lengthOf);
    this.#statements.set(resource, known);
    return known.getOrCompute(shape, () => writeStatements(request)).map((written) => statementOf(written, values));
  }

  #isEditor({ resource, operation }: ResourceRequest, { role }: Caller): boolean {
    const { isOpen, anonymousRole } = this.#options;
    const isChange = operation.kind === "update" || operation.kind === "delete";
    return isChange && isOpen && role === anonymousRole && resource.description.editor !== null;
  }
}

/** The function of an action must not see another row than its preconditions did. */
const isolationOf = ({ operation }: ResourceRequest): RunOptions["isolation"] =>
  operation.kind === "act" && isConditional(operation.preconditions) ? "repeatable read" : null;

const lengthOf = (statements: readonly Written[]) => statements.reduce((sum, { text }) => sum + text.length, 0);

/** How often a change is asked for that somebody else is in the way of. */
const MAX_ASKED = 4;

const SERIALIZATION_FAILURE = "40001";
const DEADLOCK = "40P01";

/**
 * Somebody else has changed the row after the preconditions had seen it; or has locked a row that goes too, and waits for
 * the one that it refers to.
 */
function isOvertaken({ code }: DatabaseErrorLike, request: ResourceRequest): boolean {
  if (code === SERIALIZATION_FAILURE) return isolationOf(request) !== null;
  return code === DEADLOCK && request.operation.kind === "delete" && request.operation.isCascading;
}
