import type { Constraint } from "../../../db/catalog/catalog.ts";
import { type ConstraintMessages, type DatabaseErrorLike, internalError, problemOf } from "../../../db/errors.ts";
import { type Fault, RestError, type RestProblem, restProblemOf } from "../../conventions/problem.ts";
import type { ResourceRequest } from "../request.ts";
import type { Resource } from "../resource.ts";

export type ProblemContext = {
  /** Null for a request that was refused before it was read. */
  readonly request: ResourceRequest | null;
  readonly isAnonymous: boolean;
  readonly constraints: ReadonlyMap<string, Constraint>;
  readonly constraintMessages: ConstraintMessages;
};

/** What the client is told. Null for an error that it may not hear of. */
export function restProblem(error: unknown, context: ProblemContext): RestProblem | null {
  if (error instanceof RestError) return error.problem;
  const { request, isAnonymous, constraintMessages } = context;
  const problem = problemOf(error, { constraintMessages, anonymous: isAnonymous, expired: false });
  if (problem === null) return null;
  const told = restProblemOf(problem);
  if (!request) return told;
  const raised = error as DatabaseErrorLike;
  if (isReferredTo(raised, request)) return { ...told, message: keptBy(raised, request.resource) };
  const faults = faultsOf(raised, told.message, request, context.constraints);
  const status =
    told.code === "VALIDATION_ERROR" && told.status === 400 && request.style.version === 2 ? 422 : told.status;
  return { ...told, status, ...(faults.length > 0 && { faults }) };
}

export const internalProblem = (): RestProblem => restProblemOf(internalError());

const isReferredTo = ({ code }: DatabaseErrorLike, { operation }: ResourceRequest) =>
  operation.kind === "delete" && (code === "23503" || code === "23001");

function keptBy({ table }: DatabaseErrorLike, { description }: Resource): string {
  const first = `this ${description.singular} still has ${table ?? "other data"}`;
  return description.cascade.length > 0
    ? `${first}: delete them first, or ask for ?cascade=true`
    : `${first}: delete them first`;
}

/** The fields of the constraint that is broken. */
function faultsOf(
  { schema, table, constraint }: DatabaseErrorLike,
  message: string,
  { resource, style }: ResourceRequest,
  constraints: ProblemContext["constraints"],
): Fault[] {
  const columns = constraints.get(`${schema}.${table}.${constraint}`)?.columns ?? [];
  const fields = resource.fields.filter(({ column }) => columns.includes(column.name));
  return fields.map(({ name, camelName }) => ({ field: style.isCamel ? camelName : name, message }));
}
