import { finish } from "../sql.ts";
import * as refused from "../table/refused-row.ts";
import { writeTrial } from "../table/write/changes.ts";
import { writeStatement } from "../table/write/statement.ts";
import { planInsert } from "./plan/request.ts";
import type { Attempt } from "./refusal.ts";
import { recordsBody } from "./request.ts";

/** The database has refused one record among several; `place` counts from 0. */
export class RefusedRecord extends Error {
  readonly place: number;
  constructor(place: number, cause: unknown) {
    super(`record ${place} was refused`, { cause });
    this.place = place;
  }
}

/** Finds which of several records was refused. Null for other requests and errors. */
export async function placeOfRefused(
  error: unknown,
  { request, identity, transactions }: Attempt,
): Promise<number | null> {
  const { operation, body } = request;
  if (operation.kind !== "create" || !operation.isMany || !refused.isAboutRow(error)) return null;
  const records = body!.records;
  const insert = finish(writeTrial(planInsert(request, operation, true)));
  const insertOf = ({ first, end }: refused.Span) =>
    writeStatement(insert, { ...request, body: recordsBody(records.slice(first, end), true) });
  return refused.placeOfRefused(error, { count: records.length, insertOf, identity, transactions });
}
