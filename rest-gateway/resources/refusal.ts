import type { Constraint } from "../../db/catalog/catalog.ts";
import type { Identity } from "../../db/identity.ts";
import type { Transactions } from "../../db/transaction.ts";
import { brokenRules } from "./broken-rules.ts";
import { invalidBody } from "./problem.ts";
import { placeOfRefused, RefusedRecord } from "./refused-record.ts";
import type { ResourceRequest } from "./request.ts";

/** What was tried, and as whom. */
export type Attempt = {
  readonly request: ResourceRequest;
  readonly identity: Identity;
  readonly transactions: Pick<Transactions, "run">;
};

/**
 * The error of a request that the database has refused, with more than it says by itself: RestError with all rules of the
 * table that are broken, or RefusedRecord with the place among several. The error itself where there is no more to say.
 */
export async function explained(
  error: unknown,
  attempt: Attempt,
  constraints: ReadonlyMap<string, Constraint>,
): Promise<unknown> {
  // A rule may fail by itself where an earlier one has spared it: what was refused first stands.
  const faults = await brokenRules(error, attempt, constraints).catch(() => []);
  if (faults.length > 0) return invalidBody(faults, attempt.request.style.version);
  const place = await placeOfRefused(error, attempt);
  return place === null ? error : new RefusedRecord(place, error);
}
