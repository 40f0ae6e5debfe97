import type { Content, Header, JsonSchema, Reference, Response } from "../document.ts";
import { refer } from "../schema-parts.ts";
import { ERROR } from "./visible-schema.ts";

/** What is not answered with rows: status, key of the component, meaning. */
const ERRORS = {
  400: ["BadRequest", "The request can't be read, or a value does not fit its type or a rule of the table."],
  401: ["Unauthorized", "The header `apikey` or the access token is missing, not valid or expired."],
  403: ["Forbidden", "The caller may not do this, by privilege or by a row-level policy."],
  404: ["NotFound", "There is no such table or function."],
  405: ["MethodNotAllowed", "The method is not possible here; `Allow` lists those that are."],
  406: ["NotAcceptable", "One row was asked for and there is none or more than one, or no media type fits."],
  409: ["Conflict", "The row breaks a unique or foreign key."],
  416: ["RangeNotSatisfiable", "The range begins behind the last row, or is no range."],
} as const satisfies Record<number, readonly [key: string, description: string]>;

export type ErrorStatus = keyof typeof ERRORS;

/** Text or null; `details` may hold more than text. */
export const ERROR_SCHEMA: JsonSchema = {
  type: "object",
  description: "What went wrong.",
  properties: {
    code: { type: "string", description: "SQLSTATE of PostgreSQL, or `PGRST` and three digits: for programs." },
    message: { type: "string", description: "For people." },
    details: { description: "More about it; null where there is no more." },
    hint: { type: ["string", "null"], description: "What to do about it." },
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

/** Headers of answers, by key. */
export const HEADERS = {
  contentRange: {
    description: "The rows that are returned and, after `Prefer: count`, how many there are: `0-9/200`; else `0-9/*`.",
    schema: { type: "string" },
  },
  location: {
    description: "The address of the new row, after `Prefer: return=headers-only`.",
    schema: { type: "string" },
  },
  preferenceApplied: { description: "The preferences that took effect.", schema: { type: "string" } },
} as const satisfies Record<string, Header>;

const NAMES: Readonly<Record<keyof typeof HEADERS, string>> = {
  contentRange: "Content-Range",
  location: "Location",
  preferenceApplied: "Preference-Applied",
};

export const headers = (...keys: readonly (keyof typeof HEADERS)[]): { headers: Record<string, Reference> } => ({
  headers: Object.fromEntries(keys.map((key) => [NAMES[key], refer("headers", key)])),
});

/** Rows, in each form that they can be asked for. */
export const rowsContent = (row: JsonSchema): Content => ({
  "application/json": { schema: { type: "array", items: row } },
  "application/vnd.pgrst.object+json": { schema: row },
  "text/csv": { schema: { type: "string" } },
});
