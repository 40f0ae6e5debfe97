import type { Version } from "../../../rest-gateway/conventions/version.ts";
import type { JsonSchema, Parameter } from "../document.ts";
import { countOf, headerParameter, objectOf, queryParameter, refer } from "../schema-parts.ts";

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

/** A query parameter with a number. `usual` is the default. */
export const countParameter = (name: string, description: string, minimum: number, usual?: number): Parameter =>
  queryParameter(name, description, { type: "integer", minimum, ...(usual !== undefined && { default: usual }) });

// The forms of a page of records, as conventions/paging.ts writes them.

const LIMIT = countOf("Records on a page.");
const TOTAL = countOf("Records in all.");
const TOTAL_PAGES = countOf("Pages in all.");

export const envelopeOf = (records: JsonSchema): JsonSchema =>
  objectOf(
    { data: records, pagination: refer("schemas", "Pagination"), links: refer("schemas", "PageLinks") },
    "The envelope: `page` from 1, and `limit`.",
  );

export const pageObjectOf = (records: JsonSchema): JsonSchema =>
  objectOf(
    { content: records, page: countOf("From 0."), size: LIMIT, totalElements: TOTAL, totalPages: TOTAL_PAGES },
    "The page object: `page` from 0, and `size`.",
  );

export const skipAndLimitOf = (records: JsonSchema): JsonSchema =>
  objectOf(
    { data: records, pagination: objectOf({ skip: countOf("Records before these."), limit: LIMIT, total: TOTAL }) },
    "`skip` and `limit`, in an envelope.",
  );

const PAGE_URL: JsonSchema = {
  type: ["string", "null"],
  description: "A URL without the host; null if there is no such page.",
};

/** What the envelope refers to. */
export const PAGE_SCHEMAS = {
  Pagination: objectOf({
    page: countOf("From 1.", 1),
    limit: LIMIT,
    total: TOTAL,
    totalPages: TOTAL_PAGES,
  }),
  PageLinks: objectOf({ first: PAGE_URL, prev: PAGE_URL, next: PAGE_URL, last: PAGE_URL }),
} as const satisfies Record<string, JsonSchema>;
