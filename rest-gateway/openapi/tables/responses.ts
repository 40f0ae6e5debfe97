import type { Content, Header, JsonSchema, Reference, Response } from "../document.ts";
import { CHANGE_POSITION, refer } from "../schema-parts.ts";
import { ERROR } from "./visible-schema.ts";

/** Error responses: status → component key and description. */
const ERRORS = {
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
} as const satisfies Record<number, readonly [key: string, description: string]>;

export type ErrorStatus = keyof typeof ERRORS;

/** `details` is usually a string or null, but may be any JSON. */
export const ERROR_SCHEMA: JsonSchema = {
  type: "object",
  description: "An error.",
  properties: {
    code: { type: "string", description: "For programs: a SQLSTATE of PostgreSQL, or `PGRST` and three digits." },
    message: { type: "string", description: "For people: the cause of the error." },
    details: { description: "Further details, or null." },
    hint: { type: ["string", "null"], description: "How to correct the request, or null." },
    fields: {
      type: "array",
      description: "Only if values of the request are refused: each of them.",
      items: {
        type: "object",
        properties: {
          field: { type: "string", description: "Such as `email`, or `[3].email` in a bulk insert." },
          message: { type: "string", description: "The fault." },
          code: { type: "string", enum: ["VALIDATION_ERROR", "RESOURCE_CONFLICT"] },
          constraint: { type: "string", description: "The constraint that is violated." },
        },
        required: ["field", "message", "code"],
      },
    },
  },
  required: ["code", "message", "details", "hint"],
};

export const errorResponses = (): Record<string, Response> =>
  Object.fromEntries(
    Object.values(ERRORS).map(([key, description]) => [
      key,
      { description, content: { "application/json": { schema: refer("schemas", ERROR) } } },
    ]),
  );

/** `{ "400": { $ref: … }, … }` */
export const errors = (...statuses: readonly ErrorStatus[]): Record<string, Reference> =>
  Object.fromEntries(statuses.map((status) => [String(status), refer("responses", ERRORS[status][0])]));

/** Response headers by component key. */
export const HEADERS = {
  contentRange: {
    description:
      "The range of the returned rows and, with `Prefer: count`, their total number: `0-9/200`. Without it: `0-9/*`.",
    schema: { type: "string" },
  },
  location: {
    description: "The URL of the new row, with `Prefer: return=headers-only`.",
    schema: { type: "string" },
  },
  preferenceApplied: { description: "The preferences that took effect.", schema: { type: "string" } },
  changePosition: { description: CHANGE_POSITION, schema: { type: "string" } },
} as const satisfies Record<string, Header>;

const NAMES: Readonly<Record<keyof typeof HEADERS, string>> = {
  contentRange: "Content-Range",
  location: "Location",
  preferenceApplied: "Preference-Applied",
  changePosition: "Change-Position",
};

export const headers = (...keys: readonly (keyof typeof HEADERS)[]): { headers: Record<string, Reference> } => ({
  headers: Object.fromEntries(keys.map((key) => [NAMES[key], refer("headers", key)])),
});

/** Rows, in each available media type. */
export const rowsContent = (row: JsonSchema): Content => ({
  "application/json": { schema: { type: "array", items: row } },
  "application/vnd.pgrst.object+json": { schema: row },
  "text/csv": { schema: { type: "string" } },
  "application/x-ndjson": { schema: { type: "string", description: "Each line is a row in JSON." } },
});
