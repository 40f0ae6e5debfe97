import { forObjects, shapeCache } from "../../cache/cache.ts";
import type { Caller } from "../../db/caller.ts";
import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Database } from "../../db/database.ts";
import { writeChange } from "../../db/query/changes.ts";
import { type PlannedQuery, type QueryResult, writeRead } from "../../db/query/query.ts";
import { SNAPSHOT, RESULT as TABLE_RESULT } from "../../db/query/result.ts";
import { run } from "../../db/query/run.ts";
import type { ReplicatedRequest } from "../../db/replicas/replicas.ts";
import { finish, type Sql } from "../../db/sql.ts";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import type { Identity, RequestContext, TransactionSettings } from "../../db/transaction/identity.ts";
import type { Result } from "../../db/transaction/transaction.ts";
import type { CancelSignal } from "../../db/wire/connection.ts";
import { Problem } from "../../problems/problem.ts";
import { traced } from "../../telemetry/span.ts";
import type { Route } from "./parse/address.ts";
import { type ParseLimits, parseRequest } from "./parse/request.ts";
import {
  planInsert,
  planInsertMany,
  planList,
  planParentRow,
  planRecord,
  planTarget,
  planUpdate,
} from "./plan/request.ts";
import { FoundFaults } from "./problem.ts";
import { type CallerDatabase, explained, withViolated } from "./refusal.ts";
import { isRead, type RequestText, type ResourceRequest } from "./request.ts";
import type { Resource } from "./resource.ts";
import {
  writeAct,
  writeChanged,
  writeDeleted,
  writeFound,
  writeLock,
  writeMissing,
  writeUpdated,
} from "./write/record.ts";

export type RunnerOptions = {
  readonly database: Pick<Database, "forRole" | "replicas">;
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly anonymousRole: string;
};

/** Timestamps are returned in UTC, whatever the time zone of the server is. */
export const SETTINGS: TransactionSettings = { fixed: [["timezone", "UTC"]], given: [] };

/** Runs requests: one transaction, one round trip. */
export class Runner {
  readonly #options: RunnerOptions;
  readonly #planner = new ResourcePlanner();

  constructor(options: RunnerOptions) {
    this.#options = options;
  }

  identity(request: ResourceRequest, caller: Caller, context: RequestContext): Identity {
    const role = this.#roleOf(request, caller);
    return { caller: role === caller.role ? caller : { ...caller, role }, request: context, settings: SETTINGS };
  }

  /** Rejects with the errors of the database, with the detail that `explained` adds. */
  async run(
    request: ResourceRequest,
    identity: Identity,
    signal: CancelSignal,
    replicated?: ReplicatedRequest,
  ): Promise<Result> {
    const transactions = this.#options.database.forRole(identity.caller.role);
    const planned = this.#planner.plan(request);
    const { reading, written } = replicated ?? {};
    try {
      for (let attempt = 1; ; attempt++) {
        const result = await run(transactions, planned, request, { identity, signal, reading, written }).then(
          (results) => mainResult(results, request),
          (error) => {
            if (attempt < MAX_ATTEMPTS && isOvertaken(error, request)) return null;
            throw error;
          },
        );
        // A statement that has waited for a row sees its old version, so a row that another transaction has changed or
        // deleted meanwhile looks forbidden. A second attempt finds the actual reason.
        const isUnsure =
          result === null || (!planned.query.isRead && attempt === 1 && reasonOf(result, request) === "forbidden");
        if (!isUnsure) return result;
      }
    } catch (error) {
      throw await this.explained(error, request, identity);
    }
  }

  /** Adds detail to an error of the database. */
  explained(error: unknown, request: ResourceRequest, identity: Identity): Promise<unknown> {
    return explained(error, { request, ...this.#databaseOf(identity) });
  }

  /** Rejects with Problem for every fault of an invalid body, including those that only the database finds. */
  async parse(text: RequestText, route: Route, limits: ParseLimits, caller: Caller, context: RequestContext) {
    try {
      return traced(context.span ?? null, "parse", () => parseRequest(text, route, limits));
    } catch (error) {
      if (!(error instanceof Problem && error.cause instanceof FoundFaults)) throw error;
      const database = this.#databaseOf({ caller, request: context, settings: SETTINGS });
      throw await withViolated(error.cause, route, text.style, database);
    }
  }

  #databaseOf(identity: Identity): CallerDatabase {
    const { database, catalog } = this.#options;
    return { identity, transactions: database.forRole(identity.caller.role), catalog: catalog.current };
  }

  /** The role of a request: without credentials, an open resource is changed by its editor. */
  #roleOf({ resource, operation }: ResourceRequest, { role }: Caller): string {
    const { editor } = resource.description;
    const isChange = operation.kind === "update" || operation.kind === "delete";
    return isChange && editor?.isOpen && role === this.#options.anonymousRole ? editor.role : role;
  }
}

/** The function of an action must see the version of the row that its preconditions were checked for. */
const isolationOf = ({ operation }: ResourceRequest): PlannedQuery["isolation"] =>
  operation.kind === "act" && operation.preconditions.length > 0 ? "repeatable read" : null;

/** Maximum attempts after a deadlock or serialization failure. */
const MAX_ATTEMPTS = 4;

const SERIALIZATION_FAILURE = "40001";
const DEADLOCK = "40P01";

/**
 * Another transaction changed the row after the preconditions were checked; or it holds a lock on a row of the cascade, and
 * waits for the row that this request deletes.
 */
function isOvertaken({ code }: DatabaseErrorLike, request: ResourceRequest): boolean {
  if (code === SERIALIZATION_FAILURE) return isolationOf(request) !== null;
  return code === DEADLOCK && request.operation.kind === "delete" && request.operation.isCascading;
}

/** The columns of the row that a statement returns: those of a table request, then those of a record. */
export const RESULT = { ...TABLE_RESULT, reason: 5, id: 6, version: 7, modified: 8 } as const;

/**
 * Why nothing was read or written: the record or its parent does not exist, a precondition does not hold, or a policy
 * forbids the change.
 */
type Reason = "missing" | "stale" | "forbidden";

/** Null if the request succeeded. */
export function reasonOf(result: Result, { operation }: ResourceRequest): Reason | null {
  const [row] = result.rows;
  if (!row) return "missing";
  // Only a missing parent prevents an insert without an error.
  if (operation.kind === "create") return textAt(row, RESULT.rows) === "0" ? "missing" : null;
  if (operation.kind === "list" && operation.parent === null) return null;
  return textAt(row, RESULT.reason) as Reason | null;
}

/** pg_current_snapshot() of a read: the last column. */
export const snapshotOf = ({ rows }: Result, request: ResourceRequest) => (isRead(request) ? rows[0]?.at(-1) : null);

/** The result to respond with. */
function mainResult({ first, main }: QueryResult, request: ResourceRequest): Result {
  if (request.operation.kind !== "act") return main;
  // After the action the caller may no longer see the row.
  return reasonOf(first!, request) === null && main.rows.length > 0 ? main : first!;
}

type Row = Result["rows"][number];

export const textAt = (row: Row | undefined, column: number): string | null => row?.[column]?.toString() ?? null;

type PlannedStatements = Omit<PlannedQuery, "plan">;

/** Plans requests, and writes their SQL. */
export class ResourcePlanner {
  /** By resource. A new catalog has new resources, so that outdated statements are not used. */
  readonly #shapes = forObjects((_resource: Resource) => shapeCache<PlannedStatements>(lengthOf));

  /** Plans and writes each shape once. */
  plan(request: ResourceRequest): PlannedStatements {
    const { resource, shape } = request;
    return this.#shapes(resource).getOrCompute(shape, () => planShape(request));
  }
}

const lengthOf = ({ query: { first, main } }: PlannedStatements) => (first?.text.length ?? 0) + main.text.length;

function planShape(request: ResourceRequest): PlannedStatements {
  const [main, first] = writeRequest(request).map(finish);
  const isReadOnly = isRead(request);
  const query = { first, main: main!, estimate: null, stream: null, isRead: isReadOnly, isReadOnly };
  return { query, isolation: isolationOf(request), isRolledBack: false };
}

/** The statement of a request, and one that must run before it. */
function writeRequest(request: ResourceRequest): readonly Sql[] {
  const { operation, resource } = request;
  const { actions, cascade } = resource.description;
  const record = planRecord(request);
  switch (operation.kind) {
    case "list": {
      const parent = operation.parent && planParentRow(operation.parent);
      return [writeRead(planList(request, operation), null, [...(parent ? [writeMissing(parent)] : []), SNAPSHOT])];
    }
    case "read":
      return [writeFound(resource, record)];
    case "create":
      if (operation.isMany) return [writeChange(planInsertMany(request, operation), null)];
      return [writeChanged(resource, record, planInsert(request, operation))];
    case "update":
      return [writeUpdated(resource, record, planUpdate(request, operation))];
    case "delete": {
      const target = planTarget(request, operation);
      if (!operation.isCascading) return [writeDeleted(resource, record, target, [])];
      return [writeDeleted(resource, record, target, cascade), writeLock(resource, record)];
    }
    case "act": {
      const { function: name } = actions[operation.action]!;
      return [writeFound(resource, record), writeAct(resource, record, planTarget(request, operation), name)];
    }
  }
}
