import type { JsonSchema } from "../../openapi/document.ts";
import { arrayOf, objectOf, refer } from "../../openapi/schema-parts.ts";
import type { Resource } from "../resource.ts";
import { type Edition, keyOf } from "./version.ts";

const count = (description: string): JsonSchema => ({ type: "integer", minimum: 0, description });
const TOTAL = count("Records in all.");
const TOTAL_PAGES = count("Pages in all.");

/** A page in each form that the version has: version 1 chooses by the parameters of the page. */
export function listSchema(edition: Edition, resource: Resource): JsonSchema {
  const records = arrayOf(refer("schemas", keyOf(edition, resource, "record")));
  if (edition.version === 2) return envelopeOf(records);
  const forms = [envelopeOf(records), pageObjectOf(records), skipAndLimitOf(records)];
  return { oneOf: resource.description.list === "array" ? [records, ...forms] : forms };
}

export const envelopeOf = (records: JsonSchema): JsonSchema =>
  objectOf(
    { data: records, pagination: refer("schemas", "Pagination"), links: refer("schemas", "PageLinks") },
    "The envelope: `page` from 1, and `limit`.",
  );

const pageObjectOf = (records: JsonSchema) =>
  objectOf(
    {
      content: records,
      page: count("From 0."),
      size: count("Records on a page."),
      totalElements: TOTAL,
      totalPages: TOTAL_PAGES,
    },
    "The page object: `page` from 0, and `size`.",
  );

const skipAndLimitOf = (records: JsonSchema) =>
  objectOf(
    {
      data: records,
      pagination: objectOf({ skip: count("Records before these."), limit: count("Records on a page."), total: TOTAL }),
    },
    "`skip` and `limit`, in an envelope.",
  );

const address: JsonSchema = {
  type: ["string", "null"],
  description: "An address without its host; null where there is no such page.",
};

/** What pages of all lists have. */
export const PAGE_SCHEMAS: Readonly<Record<"Pagination" | "PageLinks", JsonSchema>> = {
  Pagination: objectOf({
    page: { type: "integer", minimum: 1, description: "From 1." },
    limit: count("Records on a page."),
    total: TOTAL,
    totalPages: TOTAL_PAGES,
  }),
  PageLinks: objectOf({ first: address, prev: address, next: address, last: address }),
};
