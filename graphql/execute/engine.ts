import { execute, subscribe } from "postgraphile/grafast";
import type { ExecutionResult } from "postgraphile/graphql";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { ChangeFeed } from "../../db/changes/feed.ts";
import type { Database } from "../../db/database.ts";
import { type Finding, lineOf } from "../../db/findings/finding.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Transactions } from "../../db/transaction/transaction.ts";
import type { CancelSignal } from "../../db/wire/connection.ts";
import { problem } from "../../problems/problem.ts";
import { type Span, traced } from "../../telemetry/span.ts";
import { CompiledQueries, type CompiledStatement, executeCompiled } from "../compiled/compiled-queries.ts";
import { sendQueriesTogether } from "../compiled/plan-phases.ts";
import type { GraphQLLimits } from "../limits.ts";
import { NAME_CONFLICT } from "../schema/name-conflict.ts";
import { type BuiltSchema, buildSchema, lostFields, objectsWouldBeLost, type SchemaOptions } from "../schema/schema.ts";
import type { ChangeEvents, ChangeFilter, SubscriberOptions, Subscriptions } from "./change-events.ts";
import { DocumentCache, type DocumentLimits, type DocumentStore } from "./document.ts";
import { asRaised } from "./errors.ts";
import { EventTransactions } from "./event-transactions.ts";
import { withFields, writeContext } from "./input-errors.ts";
import { isOfVariable, nameVariables } from "./input-fields.ts";
import { explainMissing } from "./missing-fields.ts";
import {
  type GraphQLRequest,
  type IntrospectionOptions,
  type Operation,
  type PreparedOperation,
  prepareOperation,
  refusedIntrospection,
} from "./operation.ts";
import type { OperationMetrics } from "./operation-metrics.ts";
import { OperationQueries, withPgClient } from "./operation-queries.ts";
import { OperationTransactions } from "./operation-transactions.ts";
import { SubscriptionEvents } from "./subscription-events.ts";
import type { SubscriptionMemory } from "./subscription-memory.ts";

type EngineLimits = DocumentLimits & Pick<GraphQLLimits, "graphqlMaxRows" | "graphqlMaxTables">;

export type EngineOptions = IntrospectionOptions & {
  readonly database: Database;
  readonly subscriptions: Subscriptions;
  readonly changes: ChangeFeed;
  readonly schema: Omit<SchemaOptions, "catalog">;
  readonly limits: EngineLimits;
  readonly documents: DocumentStore;
  /** Resolves when the catalog of the database is up to date. */
  readDatabase(): Promise<unknown>;
  /** Waits for a pending rebuild of the schema, for a limited time. Resolves to whether there was one. */
  untilBuilt(): Promise<boolean>;
  countTables(): number;
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly metrics: OperationMetrics;
  readonly memory: SubscriptionMemory;
};

type ServedSchema = BuiltSchema & { readonly documents: DocumentCache; readonly compiled: CompiledQueries };

/** Holds the schema that is served and executes operations on it. */
export class Engine {
  #options: EngineOptions;
  readonly #ofRoles = new Map<string, EventTransactions>();
  /** Null until the first schema is built. */
  #served: ServedSchema | null = null;

  constructor(options: EngineOptions) {
    this.#options = options;
  }

  get isServing(): boolean {
    return this.#served !== null;
  }

  get schema() {
    return this.#current().schema;
  }

  /** The parts of the database that are not in the schema that is served, and why. */
  get omissions(): readonly Finding[] {
    return this.#served?.omissions ?? [];
  }

  /** Resolves when the catalog of the database is up to date. */
  async readDatabase(): Promise<void> {
    await this.#options.readDatabase();
  }

  /**
   * Builds the schema again, after `readDatabase`, and serves it. If the build fails, or if an object that is served now would be left
   * out because of a conflict, it throws and the previous schema stays in use. New objects with such a conflict are left out.
   */
  async rebuild(): Promise<void> {
    const { limits, countTables, metrics } = this.#options;
    if (countTables() > limits.graphqlMaxTables) throw new TooManyTables(countTables(), limits.graphqlMaxTables);
    const options = { ...this.#options.schema, catalog: this.#options.database.catalog };
    const built = await buildSchema(options, this.#served?.tags);
    const known = this.omissions.map(lineOf);
    const conflicts = built.omissions.filter((each) => each.rule === NAME_CONFLICT && !known.includes(lineOf(each)));
    const lost = this.#served && conflicts.length > 0 ? lostFields(this.#served, built) : new Map();
    if (lost.size > 0) throw objectsWouldBeLost(lost);
    const { schema } = built;
    const documents = new DocumentCache(schema, this.#options.limits);
    this.#served = { ...built, documents, compiled: new CompiledQueries(schema, metrics.onLeft) };
  }

  /** Checks later documents with these limits. */
  limitTo(limits: EngineLimits): void {
    this.#options = { ...this.#options, limits };
    if (this.#served) this.#served = { ...this.#served, documents: new DocumentCache(this.#served.schema, limits) };
  }

  /** Rejects if the database does not respond. */
  pingDatabase(): Promise<void> {
    return this.#options.database.ping();
  }

  /**
   * Checks a request. Resolves to the operation, or to the errors of the request. If the schema does not allow it, it may be about a
   * change of the database that the schema does not have yet. Rejects with Problem while there is no schema.
   */
  async prepare(request: GraphQLRequest, span: Span | null = null): Promise<PreparedOperation> {
    if (!this.#served) await this.#options.untilBuilt();
    const prepared = traced(span, "parse", () => this.#prepare(request));
    const isInvalid =
      "errors" in prepared && prepared.errors.some(({ extensions }) => extensions.code === "VALIDATION_ERROR");
    return isInvalid && (await this.#options.untilBuilt()) ? this.#prepare(request) : prepared;
  }

  #prepare(request: GraphQLRequest): PreparedOperation {
    const { documents, schema } = this.#current();
    return prepareOperation(request, schema, documents, this.#options.documents);
  }

  /** Executes a query or mutation. `data` of the result is JSON text. */
  async execute(operation: Operation, identity: Identity, signal?: CancelSignal): Promise<ExecutionResult> {
    const refused = refusedIntrospection(operation, identity, this.#options);
    if (refused) return { errors: [refused] };
    return this.#options.metrics.measure(operation, async () => {
      const { request } = identity;
      const compile = () => this.#current().compiled.statementOf(operation);
      const statement = traced(request.span ?? null, "compile", compile);
      return this.#atPosition(operation, identity, async (transactions) => {
        const result = await (statement
          ? this.#executeCompiled(statement, operation, identity, signal, transactions)
          : this.#executeFields(operation, identity, signal, transactions));
        return this.#explained(result, operation, identity);
      });
    });
  }

  /** Executes an operation. The result of a query has its position, if the client wants it; with replicas, that of a mutation has it too. */
  async #atPosition(
    operation: Operation,
    { caller }: Identity,
    executed: (transactions: Pick<Transactions, "run">) => Promise<ExecutionResult>,
  ): Promise<ExecutionResult> {
    const { database, changes: feed } = this.#options;
    const transactions = database.forRole(caller.role);
    const replicated = database.replicas?.requestOf(operation.readsAfter, operation.read);
    if (!replicated && !operation.wantsPosition) return executed(transactions);
    const own = new OperationTransactions({ transactions, feed, operation, replicated });
    const result = await executed(own);
    return own.position === null ? result : { ...result, extensions: { changePosition: own.position } };
  }

  async #executeCompiled(
    statement: CompiledStatement,
    operation: Operation,
    identity: Identity,
    signal: CancelSignal | undefined,
    transactions: Pick<Transactions, "run">,
  ): Promise<ExecutionResult> {
    const { limits, metrics } = this.#options;
    const options = { transactions, identity, maxRows: limits.graphqlMaxRows, signal, onLeft: metrics.onLeft };
    const compiled = await executeCompiled(statement, options);
    return compiled ?? this.#executeFields(operation, identity, signal, transactions);
  }

  /** Lets Grafast execute the fields. */
  #executeFields(
    operation: Operation,
    identity: Identity,
    signal?: CancelSignal,
    transactions?: Pick<Transactions, "run">,
  ): Promise<ExecutionResult> {
    const args = { ...this.#args(operation, identity, signal, { transactions }), outputDataAsString: true };
    return planned(identity, () => execute(args));
  }

  /**
   * Executes an operation of any kind. Returns its result, with `data` as JSON text, or the events of a subscription: those after the
   * position `since`, given as text, or from now on.
   */
  async start(
    operation: Operation,
    identity: Identity,
    signal: CancelSignal,
    since: string | null,
  ): Promise<ExecutionResult | SubscriptionEvents> {
    if (operation.kind !== "subscription") return this.execute(operation, identity, signal);
    const { checker } = this.#options.subscriptions;
    const rule = () => checker.admit(identity)?.then(() => null, asRaised);
    const refused = refusedIntrospection(operation, identity, this.#options) ?? (await rule());
    if (refused) return { errors: [refused] };
    return this.#options.memory.counted(operation, identity.request.recipient!, (holding) =>
      this.#subscribe(operation, identity, signal, { caller: identity.caller, since, holding }),
    );
  }

  async #subscribe(
    operation: Operation,
    identity: Identity,
    signal: CancelSignal,
    subscriber: SubscriberOptions,
  ): Promise<ExecutionResult | SubscriptionEvents> {
    const { subscriptions, metrics } = this.#options;
    let events: ChangeEvents | undefined;
    const changes = {
      subscribe: (wanted: ChangeFilter) => {
        events = subscriptions.open(wanted, subscriber);
        return events;
      },
    };
    const transactions = this.#eventTransactions(identity.caller.role);
    const args = this.#args(operation, identity, signal, { transactions, changes });
    const result: any = await metrics.measure(operation, async () => subscribe(args));
    return Symbol.asyncIterator in result ? new SubscriptionEvents(result, events!, subscriptions) : result;
  }

  /** One for each role, because the rows of many subscribers are read together. */
  #eventTransactions(role: string): EventTransactions {
    const { database, subscriptions } = this.#options;
    const known = this.#ofRoles.get(role) ?? new EventTransactions(database.forRole(role), subscriptions.checker);
    this.#ofRoles.set(role, known);
    return known;
  }

  /** Errors say which fields of an input are invalid, and why a column cannot be filtered by. */
  async #explained(result: ExecutionResult, operation: Operation, identity: Identity): Promise<ExecutionResult> {
    if (result.errors === undefined) return result;
    const ofVariables = result.errors.filter(isOfVariable);
    if (ofVariables.length > 0) nameVariables(ofVariables, operation, this.schema);
    for (const error of result.errors) explainMissing(error, this.schema);
    const { database, catalog } = this.#options;
    const transactions = database.forRole(identity.caller.role);
    return withFields(result, operation, { schema: this.schema, identity, transactions, catalog: catalog.current });
  }

  #current(): ServedSchema {
    if (!this.#served) throw problem("no schema");
    return this.#served;
  }

  #args(
    { document, variables, operationName, stopsAfterFailure }: Operation,
    identity: Identity,
    signal?: CancelSignal,
    more: {
      readonly transactions?: Pick<Transactions, "run"> | undefined;
      readonly changes?: { subscribe(wanted: ChangeFilter): ChangeEvents };
    } = {},
  ) {
    const { database, anonymousRole, limits, catalog } = this.#options;
    const { schema, resolvedPreset } = this.#current();
    const { role } = identity.caller;
    const anonymous = role === anonymousRole;
    return {
      schema,
      document,
      variableValues: variables,
      operationName,
      resolvedPreset,
      middleware: sendQueriesTogether,
      hideSuggestions: !limits.embedded,
      contextValue: {
        withPgClient,
        queries: new OperationQueries({
          transactions: more.transactions ?? database.forRole(role),
          identity,
          maxRows: limits.graphqlMaxRows,
          stopsAfterFailure,
          signal,
        }),
        changes: more.changes,
        anonymous,
        ...writeContext({ identity, catalog: catalog.current, transactions: database.forRole(role) }, anonymous),
      },
    } as any;
  }
}

/** Grafast plans an operation, and writes its SQL, before it returns a promise. */
const planned = async ({ request }: Identity, run: () => unknown) =>
  (await traced(request.span ?? null, "plan", run)) as ExecutionResult;

/** The schema of such a database would take too long to build. */
export class TooManyTables extends Error {
  constructor(tables: number, max: number) {
    super(`the database has ${tables} tables, more than ${max}: serve fewer schemas (DB_SCHEMAS)`);
  }
}
