import { isSafeError } from "postgraphile/grafast";
import { GraphQLError, type GraphQLFormattedError } from "postgraphile/graphql";
import { type DatabaseErrorLike, type ErrorContext, internalError, problemOf } from "../db/errors.ts";
import { FeedInterrupted } from "../db/changes/feed.ts";

export type ErrorFormat = ErrorContext & {
  readonly requestId: string;
  /** Hears of the errors whose cause the client is not told. */
  onInternalError(error: unknown): void;
};

/** What the client is told of an error: message, code, place; what it must not know is masked and logged whole. */
export function formatError(error: GraphQLError, format: ErrorFormat): GraphQLFormattedError {
  const cause = error.originalError as (DatabaseErrorLike & { extensions?: Record<string, unknown> }) | undefined;
  // graphql-js itself: a variable that does not fit, null in a field that can't be null.
  if (!cause || cause instanceof GraphQLError) return told(error, error.message, codeOf(error), error.extensions);
  const problem = problemOf(cause, format);
  if (problem) {
    if (problem.code === "INTERNAL_ERROR") format.onInternalError(cause);
    return told(error, problem.message, problem.code);
  }
  if (cause instanceof FeedInterrupted) return told(error, cause.message, "INTERNAL_ERROR");
  // Grafast's errors and our plugins' are fit for clients: "Invalid cursor", "first must be from 0 to 1000".
  if (isSafeError(cause)) return told(error, cause.message, "VALIDATION_ERROR", cause.extensions);

  format.onInternalError(cause);
  const { message, code } = internalError();
  return told(error, message, code, { requestId: format.requestId });
}

const codeOf = (error: GraphQLError) => (error.path === undefined ? "VALIDATION_ERROR" : "INTERNAL_ERROR");

function told(
  { locations, path }: GraphQLError,
  message: string,
  code: string,
  extensions: Readonly<Record<string, unknown>> = {},
): GraphQLFormattedError {
  return { message, ...(locations && { locations }), ...(path && { path }), extensions: { code, ...extensions } };
}
