import { isSafeError } from "postgraphile/grafast";
import { GraphQLError, type GraphQLFormattedError } from "postgraphile/graphql";
import { type ErrorContext, problemOf } from "../../db/errors.ts";
import { Problem, problem } from "../../problems/problem.ts";
import { REASONS } from "../../problems/reasons.ts";
import { codeOf } from "./error-codes.ts";

/** An invalid field of an input, in `extensions.fields` of an error. */
export type FieldFault = {
  readonly field: string;
  readonly message: string;
  readonly code: string;
  readonly constraint?: string;
};

export type ErrorFormat = ErrorContext & {
  readonly requestId: string;
  /** Called with the code of each error. */
  onFormatted?(code: string): void;
  /** Called with errors whose cause is not sent to the client. */
  onInternalError(error: unknown): void;
};

/** Formats an error for the client; one that ends the events of a subscription has neither path nor extensions. The cause of an internal error is logged and not sent. */
export function formatError(thrown: Error, format: ErrorFormat): GraphQLFormattedError {
  const error = thrown instanceof GraphQLError ? thrown : new GraphQLError(thrown.message, { originalError: thrown });
  const formatted = withCode(error, format);
  format.onFormatted?.(String(formatted.extensions!.code));
  return formatted;
}

function withCode(error: GraphQLError, format: ErrorFormat): GraphQLFormattedError {
  const cause = causeOf(error);
  // Errors of graphql-js and Grafast: an invalid document or variable. An error with a path occurred during execution.
  if (cause instanceof GraphQLError) {
    const code = cause.extensions.code ?? (error.path === undefined && "VALIDATION_ERROR");
    // If Grafast has wrapped the error, the wrapper's message only adds a prefix.
    const { message } = error.originalError === cause ? error : cause;
    if (code) return formatted(error, message, String(code), cause.extensions);
    if (UNFIT.test(cause.message)) {
      format.onInternalError(cause);
      return ofProblem(error, problem("field changed"));
    }
  }
  const found = problemOf(cause, format);
  // A problem that was raised is known, and needs no line in the log.
  if (found?.code === "INTERNAL_ERROR" && found !== cause) return internal(error, found.message, cause, format);
  if (found) return ofProblem(error, found);
  // Errors of Grafast and of plugins/ whose message is meant for clients: "Invalid cursor", "first must be from 0 to 1000".
  if (isSafeError(cause)) return formatted(error, cause.message, "VALIDATION_ERROR", cause.extensions);
  return internal(error, REASONS["internal error"][2], cause, format);
}

/** Of graphql-js: the database has other values than when the schema was built. */
const UNFIT = /^\w+ (?:"\w+" )?cannot represent /;

/** An error outside of the execution, which is formatted later. */
export const asRaised = (error: Error): GraphQLError => new GraphQLError(error.message, { originalError: error });

/** A problem among the errors of an operation, which are formatted later. */
export const asGraphQLError = (problem: Problem): GraphQLError =>
  new GraphQLError(problem.message, { originalError: problem, extensions: { code: codeOf(problem) } });

/**
 * Throws the Problem with which a query was not admitted to the database. Nothing has changed, so the client can repeat the
 * whole request after Retry-After.
 */
export function throwRefusal(errors: readonly GraphQLError[]): void {
  for (const error of errors) {
    const cause = causeOf(error);
    if (cause instanceof Problem && cause.status === 503 && cause.code === "RATE_LIMITED") throw cause;
  }
}

/** Returns the error that was thrown. graphql-js wraps it in `originalError`; Grafast wraps some in `cause` while planning. */
export function causeOf(error: GraphQLError): Error {
  const thrown = error.originalError ?? error;
  return thrown.cause instanceof GraphQLError ? thrown.cause : thrown;
}

/** `fields` are the invalid fields of the input, if they are known. */
function ofProblem(error: GraphQLError, problem: Problem): GraphQLFormattedError {
  const code = codeOf(problem);
  const { raisedDetail: detail, hint } = problem.more;
  const fields = error.extensions.fields as readonly FieldFault[] | undefined;
  if (fields === undefined) return formatted(error, problem.message, code, { detail, hint });
  const messages = new Set(fields.map((each) => each.message));
  return formatted(error, [...messages].join("; "), code, { detail, hint, fields });
}

function internal(error: GraphQLError, message: string, cause: Error, format: ErrorFormat): GraphQLFormattedError {
  format.onInternalError(cause);
  return formatted(error, message, "INTERNAL_ERROR", { requestId: format.requestId });
}

function formatted(
  { locations, path }: GraphQLError,
  message: string,
  code: string,
  extensions: Readonly<Record<string, unknown>> = {},
): GraphQLFormattedError {
  return { message, ...(locations && { locations }), ...(path && { path }), extensions: { code, ...extensions } };
}
