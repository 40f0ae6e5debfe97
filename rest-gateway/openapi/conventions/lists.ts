import type { JsonSchema } from "../document.ts";
import { objectOf, refer } from "../schema-parts.ts";

// The forms of a page of records, as conventions/list.ts writes them.

const count = (description: string): JsonSchema => ({ type: "integer", minimum: 0, description });
const LIMIT = count("Records on a page.");
const TOTAL = count("Records in all.");
const TOTAL_PAGES = count("Pages in all.");

export const envelopeOf = (records: JsonSchema): JsonSchema =>
  objectOf(
    { data: records, pagination: refer("schemas", "Pagination"), links: refer("schemas", "PageLinks") },
    "The envelope: `page` from 1, and `limit`.",
  );

export const pageObjectOf = (records: JsonSchema): JsonSchema =>
  objectOf(
    { content: records, page: count("From 0."), size: LIMIT, totalElements: TOTAL, totalPages: TOTAL_PAGES },
    "The page object: `page` from 0, and `size`.",
  );

export const skipAndLimitOf = (records: JsonSchema): JsonSchema =>
  objectOf(
    { data: records, pagination: objectOf({ skip: count("Records before these."), limit: LIMIT, total: TOTAL }) },
    "`skip` and `limit`, in an envelope.",
  );

const PAGE_URL: JsonSchema = {
  type: ["string", "null"],
  description: "A URL without the host; null if there is no such page.",
};

/** What the envelope refers to. */
export const PAGE_SCHEMAS = {
  Pagination: objectOf({
    page: { type: "integer", minimum: 1, description: "From 1." },
    limit: LIMIT,
    total: TOTAL,
    totalPages: TOTAL_PAGES,
  }),
  PageLinks: objectOf({ first: PAGE_URL, prev: PAGE_URL, next: PAGE_URL, last: PAGE_URL }),
} as const satisfies Record<string, JsonSchema>;
