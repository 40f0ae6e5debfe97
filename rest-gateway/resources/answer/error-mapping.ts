import type { Catalog } from "../../../db/catalog/catalog.ts";
import { type DatabaseErrorLike, internalError, problemOf } from "../../../db/errors.ts";
import { RefusedError } from "../../../identity/refusals.ts";
import {
  type Fault,
  faultOfRecord,
  RestError,
  type RestProblem,
  restProblemOf,
  restRefusal,
} from "../../conventions/problem.ts";
import { outOfOrder } from "../problem.ts";
import { RefusedRecord } from "../refusal.ts";
import { nameIn, type ResourceRequest } from "../request.ts";
import { ACCOUNT_FIELDS, type Resource } from "../resource.ts";

export type ProblemContext = {
  /** Null for a request that was refused before it was parsed. */
  readonly request: ResourceRequest | null;
  readonly isAnonymous: boolean;
  readonly catalog: Catalog;
};

/** The problem that is sent. Null for an internal error, whose details the client must not see. */
export function restProblem(error: unknown, context: ProblemContext): RestProblem | null {
  if (error instanceof RestError) return error.problem;
  if (error instanceof RefusedError) return restRefusal(error).problem;
  if (error instanceof RefusedRecord) return ofRecord(error.place, restProblem(error.cause, context));
  const { request, isAnonymous, catalog } = context;
  const { constraintMessages } = catalog;
  const problem = problemOf(error, { constraintMessages, anonymous: isAnonymous, refused: null });
  if (problem === null) return null;
  const sent = restProblemOf(problem);
  if (!request) return sent;
  if (isOutdated(error)) return outOfOrder(request.resource.description.name).problem;
  const raised = error as DatabaseErrorLike;
  if (isReferredTo(raised, request)) return { ...sent, message: keptBy(raised, request.resource) };
  const faults = faultsOf(raised, sent.message, request, catalog);
  return { ...sent, status: statusOf(sent, request), ...(faults.length > 0 && { faults }) };
}

function ofRecord(place: number, problem: RestProblem | null): RestProblem | null {
  if (problem === null) return null;
  const { message, faults = [] } = problem;
  const fields = faults.length > 0 ? faults.map(({ field }) => field) : [null];
  const all = fields.map((field) => faultOfRecord(place, message, field));
  return { ...problem, message: all[0]!.message, faults: all };
}

/** SQLSTATEs of objects that are in the catalog or the description, and not in the database. */
const OUTDATED = new Set(["42P01", "42703", "42704", "42883", "3F000"]);

export const isOutdated = (error: unknown): boolean => OUTDATED.has((error as DatabaseErrorLike).code ?? "");

export const internalProblem = (): RestProblem => restProblemOf(internalError());

/** In version 2 an invalid body is 422; an invalid URL is 400 in every version. */
function statusOf({ code, status }: RestProblem, { operation, style }: ResourceRequest): number {
  const hasBody = operation.kind === "create" || operation.kind === "update";
  return hasBody && code === "VALIDATION_ERROR" && status === 400 && style.version === 2 ? 422 : status;
}

const isReferredTo = ({ code }: DatabaseErrorLike, { operation }: ResourceRequest) =>
  operation.kind === "delete" && (code === "23503" || code === "23001");

function keptBy({ table }: DatabaseErrorLike, { description }: Resource): string {
  const first = `this ${description.singular} still has ${table ?? "other data"}`;
  return description.cascade.length > 0
    ? `${first}: delete them first, or use ?cascade=true`
    : `${first}: delete them first`;
}

/** The fields of the violated constraint. */
function faultsOf(
  { schema, table, constraint }: DatabaseErrorLike,
  message: string,
  { resource, style }: ResourceRequest,
  { constraints }: Catalog,
): Fault[] {
  const columns = constraints.get(`${schema}.${table}.${constraint}`)?.columns ?? [];
  const ofRecord = resource.fields.filter(({ column }) => columns.includes(column.name));
  const ofAccount = resource.description.hasAccount ? ACCOUNT_FIELDS.filter((name) => columns.includes(name)) : [];
  const names = ofRecord.map((field) => nameIn(field, style));
  return [...names, ...ofAccount].map((field) => ({ field, message }));
}
