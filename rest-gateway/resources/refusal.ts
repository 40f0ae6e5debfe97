import type { Catalog } from "../../db/catalog/catalog.ts";
import type { Identity } from "../../db/identity.ts";
import type { Transactions } from "../../db/transaction.ts";
import { placeOfRefused, RefusedRecord } from "./refused-record.ts";
import type { ResourceRequest } from "./request.ts";
import { allViolated } from "./violated-rules.ts";

/** A request that the database has refused, and the identity that it was sent with. */
export type Attempt = {
  readonly request: ResourceRequest;
  readonly identity: Identity;
  readonly transactions: Pick<Transactions, "run">;
  readonly catalog: Catalog;
};

/**
 * Adds detail to an error of the database: returns a RestError with every rule of the table that is violated, or a
 * RefusedRecord with the index of one record among several. Returns the error itself if there is nothing to add.
 */
export async function explained(error: unknown, attempt: Attempt): Promise<unknown> {
  const violated = await allViolated(error, attempt);
  if (violated !== null) return violated;
  const place = await placeOfRefused(error, attempt);
  return place === null ? error : new RefusedRecord(place, error);
}
