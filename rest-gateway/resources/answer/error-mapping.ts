import type { Catalog } from "../../../db/catalog/catalog.ts";
import { readsTable } from "../../../db/catalog/exposure.ts";
import { problemOf } from "../../../db/errors.ts";
import { referenceFault } from "../../../db/references.ts";
import type { DatabaseErrorLike } from "../../../db/sqlstates.ts";
import { columnsOfError } from "../../../db/transaction/input-faults.ts";
import { DATABASE } from "../../../problems/database.ts";
import { type Fault, Problem } from "../../../problems/problem.ts";
import { isOutdated } from "../../conventions/data-interface.ts";
import { faultOfRecord } from "../../conventions/problem.ts";
import { RefusedRecord } from "../refusal.ts";
import { nameIn, type ResourceRequest } from "../request.ts";
import { ACCOUNT_FIELDS, outOfOrder, type Resource } from "../resource.ts";

export type ProblemContext = {
  /** Null for a request that was refused before it was parsed. */
  readonly request: ResourceRequest | null;
  readonly isAnonymous: boolean;
  /** The role of the caller; null before it is known. */
  readonly role: string | null;
  readonly catalog: Catalog;
};

/** The problem that is sent. Null for an internal error, whose details the client must not see. */
export function resourceProblem(error: unknown, context: ProblemContext): Problem | null {
  if (error instanceof Problem && !(error.reason in DATABASE)) return error;
  if (error instanceof RefusedRecord) return ofRecord(error.place, resourceProblem(error.cause, context));
  const { request, isAnonymous, catalog } = context;
  const { constraintMessages } = catalog;
  const found = problemOf(error, { constraintMessages, anonymous: isAnonymous, refused: null });
  if (found === null || !request) return found;
  const raised = error as DatabaseErrorLike;
  // In a function it is a mistake of the function, whatever the description says.
  if (isOutdated(error)) return raised.where === undefined ? outOfOrder(request.resource.description.name) : null;
  if (referenceFault(raised) === "used")
    return new Problem(found.reason, { ...found.more, message: keptBy(raised, request.resource, context) });
  const faults = faultsOf(raised, found.message, request, catalog);
  const { reason, message, more } = found;
  return new Problem(isUnprocessable(found, request) ? "unprocessable fields" : reason, { ...more, message, faults });
}

function ofRecord(place: number, problem: Problem | null): Problem | null {
  if (problem === null) return null;
  const { reason, message, more } = problem;
  const { faults = [] } = more;
  const fields = faults.length > 0 ? faults.map(({ field }) => field) : [null];
  const all = fields.map((field) => faultOfRecord(place, message, field));
  return new Problem(reason, { ...more, message: all[0]!.message, faults: all });
}

/** In version 2 an invalid body is 422; an invalid URL is 400 in every version. */
const isUnprocessable = ({ code, status }: Problem, { operation: { kind }, style }: ResourceRequest) =>
  (kind === "create" || kind === "update") && code === "VALIDATION_ERROR" && status === 400 && style.version === 2;

/** `this user still has posts: delete them first` */
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
