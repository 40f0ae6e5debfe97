import type { Catalog } from "../../../db/catalog/catalog.ts";
import { readsTable } from "../../../db/catalog/exposure.ts";
import { type DatabaseErrorLike, problemOf } from "../../../db/errors.ts";
import { type Fault, isRefusal, problem } from "../../../db/problems/problem.ts";
import { referenceFault } from "../../../db/references.ts";
import { columnsOfError } from "../../../db/transaction/input-faults.ts";
import { isOutdated } from "../../conventions/data-interface.ts";
import { faultOfRecord, RestError, type RestProblem, restProblemOf, restRefusal } from "../../conventions/problem.ts";
import { outOfOrder } from "../problem.ts";
import { RefusedRecord } from "../refusal.ts";
import { nameIn, type ResourceRequest } from "../request.ts";
import { ACCOUNT_FIELDS, type Resource } from "../resource.ts";

export type ProblemContext = {
  /** Null for a request that was refused before it was parsed. */
  readonly request: ResourceRequest | null;
  readonly isAnonymous: boolean;
  /** The role of the caller; null before it is known. */
  readonly role: string | null;
  readonly catalog: Catalog;
};

/** The problem that is sent. Null for an internal error, whose details the client must not see. */
export function restProblem(error: unknown, context: ProblemContext): RestProblem | null {
  if (error instanceof RestError) return error.problem;
  if (isRefusal(error)) return restRefusal(error).problem;
  if (error instanceof RefusedRecord) return ofRecord(error.place, restProblem(error.cause, context));
  const { request, isAnonymous, catalog } = context;
  const { constraintMessages } = catalog;
  const found = problemOf(error, { constraintMessages, anonymous: isAnonymous, refused: null });
  if (found === null) return null;
  const sent = restProblemOf(found);
  if (!request) return sent;
  if (isOutdated(error)) return outOfOrder(request.resource.description.name).problem;
  const raised = error as DatabaseErrorLike;
  if (referenceFault(raised) === "used") return { ...sent, message: keptBy(raised, request.resource, context) };
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

export const internalProblem = (): RestProblem => restProblemOf(problem("internal error"));

/** In version 2 an invalid body is 422; an invalid URL is 400 in every version. */
function statusOf({ code, status }: RestProblem, { operation, style }: ResourceRequest): number {
  const hasBody = operation.kind === "create" || operation.kind === "update";
  return hasBody && code === "VALIDATION_ERROR" && status === 400 && style.version === 2 ? 422 : status;
}

/** `this user still has articles: delete them first` */
function keptBy(
  { schema = "", table = "" }: DatabaseErrorLike,
  { description }: Resource,
  { catalog, role }: ProblemContext,
): string {
  const isKnown = role !== null && readsTable(catalog, role, { schema, name: table });
  const first = `this ${description.singular} still has ${isKnown ? table : "other data"}`;
  return description.cascade.length > 0
    ? `${first}: delete them first, or use ?cascade=true`
    : `${first}: delete them first`;
}

/** The fields of the violated constraint. */
function faultsOf(
  error: DatabaseErrorLike,
  message: string,
  { resource, style }: ResourceRequest,
  { constraints }: Catalog,
): Fault[] {
  const columns = columnsOfError(error, constraints);
  const ofRecord = resource.fields.filter(({ column }) => columns.includes(column.name));
  const ofAccount = resource.description.hasAccount ? ACCOUNT_FIELDS.filter((name) => columns.includes(name)) : [];
  const names = ofRecord.map((field) => nameIn(field, style));
  return [...names, ...ofAccount].map((field) => ({ field, message }));
}
