import type { Constraint } from "../../db/catalog/catalog.ts";
import type { Identity } from "../../db/identity.ts";
import type { Transactions } from "../../db/transaction.ts";
import { invalidBody } from "./problem.ts";
import { placeOfRefused, RefusedRecord } from "./refused-record.ts";
import type { ResourceRequest } from "./request.ts";
import { violatedChecks } from "./violated-checks.ts";

/** A request that the database has refused, and the identity that it was sent with. */
export type Attempt = {
  readonly request: ResourceRequest;
  readonly identity: Identity;
  readonly transactions: Pick<Transactions, "run">;
};

/**
 * Adds detail to an error of the database: returns a RestError with every check of the table that is violated, or a
 * RefusedRecord with the index of one record among several. Returns the error itself if there is nothing to add.
 */
export async function explained(
  error: unknown,
  attempt: Attempt,
  constraints: ReadonlyMap<string, Constraint>,
): Promise<unknown> {
  // Evaluating another rule may raise an error itself. Then the first error is reported.
  const faults = await violatedChecks(error, attempt, constraints).catch(() => []);
  if (faults.length > 0) return invalidBody(faults, attempt.request.style.version);
  const place = await placeOfRefused(error, attempt);
  return place === null ? error : new RefusedRecord(place, error);
}
