import { execute, subscribe } from "postgraphile/grafast";
import {
  type DocumentNode,
  type ExecutionResult,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  isNonNullType,
  Kind,
} from "postgraphile/graphql";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { Database } from "../db/database.ts";
import { ApiError, type Problem } from "../db/errors.ts";
import type { Identity } from "../db/identity.ts";
import type { CancelSignal } from "../db/transaction.ts";
import { type DocumentLimits, Documents } from "./document.ts";
import { lostFields } from "./lost-fields.ts";
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
  /** Rows that one answer may be made of. */
  readonly maxRows: number;
  /** Tables that a schema is built for: PostGraphile's time for it grows with their square, and nothing else runs meanwhile. */
  readonly maxTables: number;
  countTables(): number;
};

const tooManyTables = (tables: number, max: number) =>
  new Error(`${tables} tables are more than GRAPHQL_MAX_TABLES allows (${max})`);

const MAX_NAME_IN_MESSAGE = 100;

type Served = BuiltSchema & { readonly documents: Documents };

/** The schema that is served now, and how operations run on it. */
export class Engine {
  readonly #options: EngineOptions;
  /** Null until a schema could be built. */
  #served: Served | null = null;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  get isServing(): boolean {
    return this.#served !== null;
  }

  get schema() {
    return this.#current().schema;
  }

  /** What the schema that is served has not, although the database has it. */
  get omissions(): readonly string[] {
    return this.#served?.omissions ?? [];
  }

  /**
   * Builds the schema anew and serves it from then on. When that fails, or when names that clash would take away what
   * is served now, the old one stays. What is new and can't be named is left out.
   */
  async rebuild(): Promise<void> {
    const { maxTables, countTables } = this.#options;
    if (countTables() > maxTables) throw tooManyTables(countTables(), maxTables);
    const built = await buildSchema({ ...this.#options.schema, catalog: this.#options.database.catalog });
    const missing = built.omissions.filter((omission) => !this.omissions.includes(omission));
    const lost = this.#served && missing.length > 0 ? lostFields(this.#served.schema, built.schema) : [];
    if (lost.length > 0) throw wouldBeLost(lost, missing);
    this.#served = { ...built, documents: new Documents(built.schema, this.#options.limits) };
  }

  /** Rejects when the database does not answer. */
  pingDatabase(): Promise<void> {
    return this.#options.database.ping();
  }

  /** Parses and checks a request: an operation, or the errors of the document. Throws ApiError while there is no schema. */
  prepare(request: GraphQLRequest): Operation | { readonly errors: readonly GraphQLError[] } {
    const { documents, schema } = this.#current();
    const checked = documents.check(request.query);
    if ("errors" in checked) return checked;
    const operation = getOperationAST(checked.document, request.operationName);
    if (!operation) return { errors: [noSuchOperation(request.operationName)] };
    const nulls = refuseNulls(schema, checked.document, operation, request.variables);
    if (nulls.length > 0) return { errors: nulls };
    return { ...request, document: checked.document, kind: operation.operation };
  }

  /** Runs a query or mutation; `data` comes as JSON text. */
  execute(operation: Operation, identity: Identity, signal?: CancelSignal): Promise<ExecutionResult> {
    return Promise.resolve(
      execute({ ...this.#args(operation, identity, signal), outputDataAsString: true }) as ExecutionResult,
    );
  }

  /** Runs any operation: a result, or for a subscription its events. */
  start(
    operation: Operation,
    identity: Identity,
    signal: CancelSignal,
  ): Promise<ExecutionResult | AsyncGenerator<ExecutionResult>> {
    const run = operation.kind === "subscription" ? subscribe : execute;
    const args = this.#args(operation, identity, signal);
    return Promise.resolve(run(args) as ExecutionResult | AsyncGenerator<ExecutionResult>);
  }

  #current(): Served {
    if (!this.#served) throw new ApiError(noSchema());
    return this.#served;
  }

  #args({ kind, document, variables, operationName }: Operation, identity: Identity, signal?: CancelSignal): any {
    const { database, changes, anonymousRole, limits, maxRows } = this.#options;
    const { schema, resolvedPreset } = this.#current();
    const stopsAfterFailure = kind === "mutation" && hasOnlyNonNullFields(schema, document, operationName);
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
        pgSettings: new OperationQueries({
          transactions: database.forRole(identity.caller.role),
          identity,
          maxRows,
          stopsAfterFailure,
          signal,
        }),
        changes,
        anonymous: identity.caller.role === anonymousRole,
      },
    };
  }
}

/** The sentence that the DBA reads in the log and in /health. */
const wouldBeLost = (lost: readonly string[], omissions: readonly string[]) =>
  new Error(
    `names that clash would take away ${lost.join(", ")} (${omissions.join("; ")}): rename what is new, or use the smart tag @name, @fieldName (of a function) or @behavior`,
  );

const noSchema = (): Problem => ({
  status: 503,
  code: "INTERNAL_ERROR",
  message: "the GraphQL schema can not be built: the log and /health say why",
});

/** Whether each field of the mutation makes all of `data` null when it fails. */
function hasOnlyNonNullFields(
  schema: GraphQLSchema,
  document: DocumentNode,
  operationName: string | undefined,
): boolean {
  const fields = schema.getMutationType()!.getFields();
  const { selections } = getOperationAST(document, operationName)!.selectionSet;
  return selections.every(
    (selection) => selection.kind === Kind.FIELD && isNonNullType(fields[selection.name.value]?.type),
  );
}

function noSuchOperation(name: string | undefined): GraphQLError {
  const message =
    name === undefined
      ? "the document has several operations: say which by operationName"
      : `the document has no operation "${name.slice(0, MAX_NAME_IN_MESSAGE)}"`;
  return new GraphQLError(message, { extensions: { code: "VALIDATION_ERROR" } });
}
