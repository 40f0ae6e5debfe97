import { isSafeError } from "postgraphile/grafast";
import { GraphQLError, type GraphQLFormattedError } from "postgraphile/graphql";
import { FeedInterrupted } from "../db/changes/feed.ts";
import { type ErrorContext, internalError, problemOf } from "../db/errors.ts";

export type ErrorFormat = ErrorContext & {
  readonly requestId: string;
  /** Hears of the errors whose cause the client is not told. */
  onInternalError(error: unknown): void;
};

/** What the client is told of an error: message, code, place; what it must not know is masked and logged whole. */
export function formatError(error: GraphQLError, format: ErrorFormat): GraphQLFormattedError {
  const cause = causeOf(error);
  // graphql-js and Grafast: a document or a variable that does not fit. What has a path happened while it ran.
  if (cause instanceof GraphQLError) {
    const code = cause.extensions.code ?? (error.path === undefined && "VALIDATION_ERROR");
    // What Grafast has wrapped begins with its own words.
    const { message } = error.originalError === cause ? error : cause;
    if (code) return told(error, message, String(code), cause.extensions);
  }
  const problem = problemOf(cause, format);
  if (problem?.code === "INTERNAL_ERROR") return internal(error, problem.message, cause, format);
  if (problem) return told(error, problem.message, problem.code);
  if (cause instanceof FeedInterrupted) return told(error, cause.message, "INTERNAL_ERROR");
  // Grafast's errors and our plugins' are fit for clients: "Invalid cursor", "first must be from 0 to 1000".
  if (isSafeError(cause)) return told(error, cause.message, "VALIDATION_ERROR", cause.extensions);
  return internal(error, internalError().message, cause, format);
}

/** What was thrown: the error itself when graphql-js made it, also when Grafast has wrapped that while planning. */
function causeOf(error: GraphQLError): Error {
  const thrown = error.originalError ?? error;
  return thrown.cause instanceof GraphQLError ? thrown.cause : thrown;
}

function internal(error: GraphQLError, message: string, cause: Error, format: ErrorFormat): GraphQLFormattedError {
  format.onInternalError(cause);
  return told(error, message, "INTERNAL_ERROR", { requestId: format.requestId });
}

function told(
  { locations, path }: GraphQLError,
  message: string,
  code: string,
  extensions: Readonly<Record<string, unknown>> = {},
): GraphQLFormattedError {
  return { message, ...(locations && { locations }), ...(path && { path }), extensions: { code, ...extensions } };
}
