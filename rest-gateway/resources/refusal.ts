import type { Catalog } from "../../db/catalog/catalog.ts";
import { writeTrial } from "../../db/query/changes.ts";
import * as refused from "../../db/query/refused-row.ts";
import { writeStatement } from "../../db/query/run.ts";
import { finish } from "../../db/sql.ts";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import { faultsOfInput, type InputFault } from "../../db/transaction/input-faults.ts";
import type { Transactions } from "../../db/transaction/transaction.ts";
import type { Fault, Problem } from "../../problems/problem.ts";
import { faultOfRecord } from "../conventions/problem.ts";
import type { Route } from "./parse/address.ts";
import { planInsert } from "./plan/request.ts";
import { type FoundFaults, invalidBody, invalidRecords, MAX_FAULTS, valuesTaken } from "./problem.ts";
import { type Columns, nameIn, type ResourceRequest, recordsBody, type Style } from "./request.ts";
import type { Resource } from "./resource.ts";

/** The database, as the caller of a request. */
export type CallerDatabase = {
  readonly identity: Identity;
  readonly transactions: Pick<Transactions, "run">;
  readonly catalog: Catalog;
};

/** A request that the database has refused. */
type RefusedRequest = CallerDatabase & { readonly request: ResourceRequest };

/**
 * Adds detail to an error of the database: returns a Problem with every rule of the table that is violated, or a
 * RefusedRecord with the index of one record among several. Returns the error itself if there is nothing to add.
 */
export async function explained(error: unknown, refusedRequest: RefusedRequest): Promise<unknown> {
  const violated = await allViolated(error, refusedRequest);
  if (violated !== null) return violated;
  const place = await placeOfRefused(error, refusedRequest);
  return place === null ? error : new RefusedRecord(place, error);
}

// Postgres reports one violated rule at a time; a form should show all of them.

const CHECK_VIOLATION = "23514";
const UNIQUE_VIOLATION = "23505";

/** Every rule that the records of a refused request violate; null if there is nothing to add to the error. */
async function allViolated(error: unknown, refusedRequest: RefusedRequest): Promise<Problem | null> {
  const { request } = refusedRequest;
  const { operation, resource, style, values, body } = request;
  const { code } = error as DatabaseErrorLike;
  if (operation.kind !== "update" && operation.kind !== "create") return null;
  const isMany = operation.kind === "create" && operation.isMany;
  // Which of several records has a taken value is found by inserting them again: two of them may have the same value.
  if (code !== CHECK_VIOLATION && (code !== UNIQUE_VIOLATION || isMany)) return null;
  const id = operation.kind === "update" ? values[operation.key.id]! : null;
  const faults = await faultsOf(body!.records, id, resource, refusedRequest);
  if (faults.length === 0) return null;
  const sent = faults.map((fault) => faultIn(fault, resource, style, isMany)).slice(0, MAX_FAULTS);
  return code === UNIQUE_VIOLATION ? valuesTaken(sent) : invalidBody(sent, style.version);
}

/** Adds the rules that the valid fields of an invalid body violate. */
export async function withViolated(
  found: FoundFaults,
  route: Pick<Route, "resource"> & { readonly id?: string },
  style: Style,
  database: CallerDatabase,
): Promise<Problem> {
  const { resource, id = null } = route;
  const { faults, isMissing, records, isMany } = found;
  const known = new Set(faults.map(({ field }) => field));
  const more = (await faultsOf(records, id, resource, database)).map((fault) =>
    faultIn(fault, resource, style, isMany),
  );
  const added = more.filter(({ field }) => !known.has(field));
  return invalidRecords({ faults: [...faults, ...added], isMissing, records, isMany }, style.version);
}

/** The faults of the records. `id` is that of the row that a request updates: its own unique values are not conflicts. */
const faultsOf = (records: readonly Columns[], id: string | null, resource: Resource, database: CallerDatabase) => {
  const key = id === null ? null : { [resource.key.column.name]: id };
  return faultsOfInput({ table: resource.table, records, key }, database.identity, database);
};

function faultIn(
  { record, column, message, code }: InputFault,
  resource: Resource,
  style: Style,
  isMany: boolean,
): Fault {
  const named = resource.fields.find((field) => field.column.name === column);
  const field = named ? nameIn(named, style) : column;
  return isMany ? faultOfRecord(record, message, field, code) : { field, message, code };
}

/** The database has refused one record among several; `place` counts from 0. */
export class RefusedRecord extends Error {
  readonly place: number;
  constructor(place: number, cause: unknown) {
    super(`record ${place} was refused`, { cause });
    this.place = place;
  }
}

/** Finds which of several records was refused. Null for other requests and errors. */
async function placeOfRefused(
  error: unknown,
  { request, identity, transactions }: RefusedRequest,
): Promise<number | null> {
  const { operation, body } = request;
  if (operation.kind !== "create" || !operation.isMany || !refused.isAboutRow(error)) return null;
  const records = body!.records;
  const insert = finish(writeTrial(planInsert(request, operation, true)));
  const insertOf = ({ first, end }: refused.Span) =>
    writeStatement(insert, { ...request, body: recordsBody(records.slice(first, end), true) });
  return refused.placeOfRefused(error, { count: records.length, insertOf, identity, transactions });
}
