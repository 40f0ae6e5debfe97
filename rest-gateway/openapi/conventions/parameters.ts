import type { Version } from "../../conventions/version.ts";
import type { Parameter, Reference } from "../document.ts";
import { headerParameter, queryParameter, refer } from "../schema-parts.ts";

/** Parameters of the conventions, by key. Each version has its own document. */
export function conventionParameters(version: Version) {
  const only = { type: "string", enum: [String(version)] } as const;
  return {
    version: queryParameter(
      "version",
      "The version, if the path does not name one. Each version has its own document.",
      only,
    ),
    "X-API-Version": headerParameter("X-API-Version", "The version as a header; `Accept-Version` is equivalent.", only),
    "If-None-Match": headerParameter("If-None-Match", "An `ETag`: 304 if the response would have the same one."),
    "If-Modified-Since": headerParameter("If-Modified-Since", "A `Last-Modified`: 304 if nothing has changed since."),
    "If-Match": headerParameter("If-Match", "The `ETag` of the record: 412 if it has changed since."),
    "If-Unmodified-Since": headerParameter(
      "If-Unmodified-Since",
      "The `Last-Modified` of the record, in whole seconds: 412 if it has changed since.",
    ),
  } as const satisfies Record<string, Parameter>;
}

/** References to parameters of the document. */
export const shared = (...keys: readonly string[]): Reference[] => keys.map((key) => refer("parameters", key));

/** A query parameter with a number. `usual` is the default. */
export const countParameter = (name: string, description: string, minimum: number, usual?: number): Parameter =>
  queryParameter(name, description, { type: "integer", minimum, ...(usual !== undefined && { default: usual }) });
