import type { Caller, Identity, RequestContext } from "../../db/caller.ts";
import type { Setting } from "../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Database } from "../../db/database.ts";
import type { CancelSignal, Result, Statement } from "../../db/transaction.ts";
import { Shapes } from "../shapes.ts";
import type { Written } from "../sql.ts";
import { brokenRules } from "./broken-rules.ts";
import { invalidBody } from "./problem.ts";
import type { ResourceRequest } from "./request.ts";
import type { Resource } from "./resource.ts";
import { RESULT, writeStatement } from "./write/statement.ts";

export type RunnerOptions = {
  readonly database: Pick<Database, "forRole">;
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly anonymousRole: string;
  /** Whether those without credentials may change what has an editor in its description. */
  readonly isOpen: boolean;
};

/** Timestamps are told in UTC, whatever the server's zone. */
const SETTINGS: readonly Setting[] = [["timezone", "UTC"]];

/** Turns requests into statements and runs them: one statement, one transaction, one round trip. */
export class Runner {
  readonly #options: RunnerOptions;
  /** Of one shape of the resources: they change with the catalog. */
  #statements = new WeakMap<Resource, Shapes<Written>>();

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  identity(request: ResourceRequest, caller: Caller, context: RequestContext): Identity {
    return {
      caller: this.#isEditor(request, caller) ? { ...caller, role: request.resource.description.editor! } : caller,
      request: context,
      settings: { fixed: SETTINGS, given: [] },
    };
  }

  /** Rejects with the errors of the database; with RestError for a record that breaks rules of its table, all at once. */
  async run(request: ResourceRequest, identity: Identity, signal: CancelSignal): Promise<Result> {
    const transactions = this.#options.database.forRole(identity.caller.role);
    const { kind } = request.operation;
    const isRead = kind === "list" || kind === "read";
    const ask = async () => {
      const [result] = await transactions.run(identity, [this.#statement(request)], { takesAll: !isRead, signal });
      return result!;
    };
    try {
      const result = await ask();
      // Of a row that was changed or deleted while this waited for it the statement still sees the old one, and takes it for
      // forbidden. A second look tells.
      return !isRead && isForbidden(result) ? await ask() : result;
    } catch (error) {
      throw await this.explained(error, request, identity);
    }
  }

  /** The error of a change that the database has refused: RestError with all that is wrong, if that are rules of the table. */
  async explained(error: unknown, request: ResourceRequest, identity: Identity): Promise<unknown> {
    const { database, catalog } = this.#options;
    const transactions = database.forRole(identity.caller.role);
    const faults = await brokenRules(error, request, catalog.current.constraints, transactions, identity);
    return faults.length > 0 ? invalidBody(faults, request.style.version) : error;
  }

  #statement(request: ResourceRequest): Statement {
    const { resource, shape, values } = request;
    const known = this.#statements.get(resource) ?? new Shapes<Written>(({ text }) => text.length);
    this.#statements.set(resource, known);
    return statementOf(
      known.of(shape, () => writeStatement(request)),
      values,
    );
  }

  #isEditor({ resource, operation }: ResourceRequest, { role }: Caller): boolean {
    const { isOpen, anonymousRole } = this.#options;
    const isChange = operation.kind === "update" || operation.kind === "delete";
    return isChange && isOpen && role === anonymousRole && resource.description.editor !== null;
  }
}

const isForbidden = ({ rows }: Result): boolean => rows[0]?.[RESULT.state]?.toString() === "forbidden";

/** Parameters of resources are all values of the request. */
export const statementOf = ({ text, parameters }: Written, values: readonly string[]): Statement => ({
  text,
  values: parameters.map((parameter) => (parameter.kind === "value" ? values[parameter.index]! : null)),
  binary: true,
});
