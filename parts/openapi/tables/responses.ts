import type { Content, Header, JsonSchema, Reference } from "../document.ts";
import {
  arrayOf,
  CHANGE_POSITION,
  type ErrorResponses,
  errorReferences,
  headerOf,
  headerReferences,
  objectOf,
  textOf,
} from "../schema-parts.ts";

/** Schemas that do not describe a table. Their keys are reserved. */
export const ERROR = "Error";
export const FILTER = "Filter";

export const ERRORS = {
  400: ["BadRequest", "The request is malformed, or a value does not conform to its type or to a rule of the table."],
  401: ["Unauthorized", "The header `apikey` or the access token is missing, invalid or expired."],
  403: ["Forbidden", "The caller does not have permission, because of a missing privilege or a row-level policy."],
  404: ["NotFound", "The table or function does not exist."],
  405: ["MethodNotAllowed", "The method is not supported here; `Allow` lists the supported methods."],
  406: [
    "NotAcceptable",
    "The request is for one row and there is none or more than one, or no accepted media type is available.",
  ],
  409: ["Conflict", "The row violates a unique or foreign key."],
  413: ["ContentTooLarge", "The body is too large."],
  415: ["UnsupportedMediaType", "The type of the body is not supported."],
  416: ["RangeNotSatisfiable", "The range begins after the last row or is not valid."],
} as const satisfies ErrorResponses;

export type ErrorStatus = keyof typeof ERRORS;

export const errors = (...statuses: readonly ErrorStatus[]): Record<string, Reference> =>
  errorReferences(ERRORS, statuses);

/** `details` is usually a string or null, but may be any JSON. */
export const ERROR_SCHEMA: JsonSchema = objectOf(
  {
    code: textOf("For programs: a SQLSTATE of PostgreSQL, or `PGRST` and three digits."),
    message: textOf("For people: the cause of the error."),
    details: { description: "Further details, or null." },
    hint: { type: ["string", "null"], description: "How to correct the request, or null." },
    fields: {
      type: "array",
      description: "Only if values of the request are refused: each of them.",
      items: objectOf(
        {
          field: textOf("Such as `email`, or `[3].email` in a bulk insert."),
          message: textOf("The fault."),
          code: { type: "string", enum: ["VALIDATION_ERROR", "RESOURCE_CONFLICT"] },
          constraint: textOf("The constraint that is violated."),
        },
        "",
        ["field", "message", "code"],
      ),
    },
  },
  "An error.",
  ["code", "message", "details", "hint"],
);

export const HEADERS = {
  "Content-Range": headerOf(
    "The range of the returned rows and, with `Prefer: count`, their total number: `0-9/200`. Without it: `0-9/*`.",
  ),
  Location: headerOf("The URL of the new row, with `Prefer: return=headers-only`."),
  "Preference-Applied": headerOf("The preferences that took effect."),
  "Change-Position": CHANGE_POSITION,
} as const satisfies Record<string, Header>;

export const headers = (...names: readonly (keyof typeof HEADERS)[]) => ({ headers: headerReferences(...names) });

/** Rows, in each available media type. */
export const rowsContent = (row: JsonSchema): Content => ({
  "application/json": { schema: arrayOf(row) },
  "application/vnd.pgrst.object+json": { schema: row },
  "text/csv": { schema: { type: "string" } },
  "application/x-ndjson": { schema: textOf("Each line is a row in JSON.") },
});
