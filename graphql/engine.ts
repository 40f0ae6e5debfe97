import { execute, subscribe } from "postgraphile/grafast";
import { type DocumentNode, type ExecutionResult, GraphQLError, getOperationAST } from "postgraphile/graphql";
import type { Identity } from "../db/caller.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { Database } from "../db/database.ts";
import { type DocumentLimits, Documents } from "./document.ts";
import { refuseNulls } from "./null-variables.ts";
import { OperationQueries, withPgClient } from "./operation-queries.ts";
import { type BuiltSchema, buildSchema, type SchemaOptions } from "./schema.ts";

/** A request of GraphQL, whichever way it came. */
export type GraphQLRequest = {
  readonly query: string;
  readonly variables: Readonly<Record<string, unknown>> | undefined;
  readonly operationName: string | undefined;
};

/** A request that may be executed. */
export type Operation = GraphQLRequest & {
  readonly document: DocumentNode;
  readonly kind: "query" | "mutation" | "subscription";
};

export type EngineOptions = {
  readonly database: Database;
  readonly changes: ChangeFeed;
  readonly anonymousRole: string;
  readonly schema: Omit<SchemaOptions, "catalog">;
  readonly limits: DocumentLimits;
};

const MAX_NAME_IN_MESSAGE = 100;

/** The schema that is served now, and how operations run on it. */
export class Engine {
  readonly #options: EngineOptions;
  #built: BuiltSchema;
  #documents: Documents;

  private constructor(options: EngineOptions, built: BuiltSchema) {
    this.#options = options;
    this.#built = built;
    this.#documents = new Documents(built.schema, options.limits);
  }

  static async create(options: EngineOptions): Promise<Engine> {
    return new Engine(options, await build(options));
  }

  get schema() {
    return this.#built.schema;
  }

  /** Builds the schema anew and serves it from then on; when that fails the old one stays. */
  async rebuild(): Promise<void> {
    const built = await build(this.#options);
    this.#documents = new Documents(built.schema, this.#options.limits);
    this.#built = built;
  }

  /** Parses and checks a request: an operation, or the errors of the document. */
  prepare(request: GraphQLRequest): Operation | { readonly errors: readonly GraphQLError[] } {
    const checked = this.#documents.check(request.query);
    if ("errors" in checked) return checked;
    const operation = getOperationAST(checked.document, request.operationName);
    if (!operation) return { errors: [noSuchOperation(request.operationName)] };
    const nulls = refuseNulls(this.#built.schema, checked.document, operation, request.variables);
    if (nulls.length > 0) return { errors: nulls };
    return { ...request, document: checked.document, kind: operation.operation };
  }

  /** Runs a query or mutation; `data` comes as JSON text. */
  execute(operation: Operation, identity: Identity, signal?: AbortSignal): Promise<ExecutionResult> {
    return Promise.resolve(
      execute({ ...this.#args(operation, identity, signal), outputDataAsString: true }) as ExecutionResult,
    );
  }

  /** Runs any operation: a result, or for a subscription its events. */
  start(
    operation: Operation,
    identity: Identity,
    signal: AbortSignal,
  ): Promise<ExecutionResult | AsyncGenerator<ExecutionResult>> {
    const run = operation.kind === "subscription" ? subscribe : execute;
    const args = this.#args(operation, identity, signal);
    return Promise.resolve(run(args) as ExecutionResult | AsyncGenerator<ExecutionResult>);
  }

  #args({ document, variables, operationName }: Operation, identity: Identity, signal?: AbortSignal): any {
    const { database, changes, anonymousRole, limits } = this.#options;
    const { schema, resolvedPreset } = this.#built;
    return {
      schema,
      document,
      variableValues: variables,
      operationName,
      resolvedPreset,
      middleware: null,
      hideSuggestions: !limits.suggestions,
      contextValue: {
        withPgClient,
        pgSettings: new OperationQueries(database.forRole(identity.caller.role), identity, signal),
        changes,
        anonymous: identity.caller.role === anonymousRole,
      },
    };
  }
}

async function build({ database, schema }: EngineOptions): Promise<BuiltSchema> {
  const [built] = await Promise.all([
    buildSchema({ ...schema, catalog: database.catalog }),
    database.readConstraintMessages(),
  ]);
  return built;
}

function noSuchOperation(name: string | undefined): GraphQLError {
  const message =
    name === undefined
      ? "the document has several operations: say which by operationName"
      : `the document has no operation "${name.slice(0, MAX_NAME_IN_MESSAGE)}"`;
  return new GraphQLError(message, { extensions: { code: "VALIDATION_ERROR" } });
}
