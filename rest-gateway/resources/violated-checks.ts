import type { Constraint } from "../../db/catalog/catalog.ts";
import type { DatabaseErrorLike } from "../../db/errors.ts";
import { type Fault, faultOfRecord } from "../conventions/problem.ts";
import { finish } from "../sql.ts";
import { writeStatement } from "../table/write/statement.ts";
import { planBody } from "./plan/request.ts";
import { MAX_FAULTS } from "./problem.ts";
import type { Attempt } from "./refusal.ts";
import { nameIn, type OperationOf, type ResourceRequest } from "./request.ts";
import { writeViolated } from "./write/refusal.ts";

const CHECK_VIOLATION = "23514";

/** A check constraint whose columns are all in the body. */
type Rule = { readonly fields: readonly string[]; readonly message: string; readonly check: string };

type Input = OperationOf<"create" | "update">;

/**
 * Every check that the records violate. Postgres names only the first one; a form should show them all. Queried only after
 * a violation, and empty for other errors.
 */
export async function violatedChecks(
  error: unknown,
  { request, identity, transactions }: Attempt,
  constraints: ReadonlyMap<string, Constraint>,
): Promise<readonly Fault[]> {
  const { operation } = request;
  if ((error as DatabaseErrorLike).code !== CHECK_VIOLATION) return [];
  if (operation.kind !== "update" && operation.kind !== "create") return [];
  const rules = rulesOf(request, operation, constraints);
  if (rules.length === 0) return [];
  const isMany = operation.kind === "create" && operation.isMany;
  const query = writeViolated(rules, planBody(operation.fields, isMany, false));
  const [result] = await transactions.run(identity, [writeStatement(finish(query), request)]);
  const broken: readonly (readonly number[])[] = JSON.parse(result!.rows[0]![0]!.toString());
  const faults = broken.flatMap((places, i) => places.flatMap((place) => faultsOf(rules[place]!, isMany ? i : null)));
  return faults.slice(0, MAX_FAULTS);
}

/** `record` is the place of one among several. */
const faultsOf = ({ fields, message }: Rule, record: number | null): readonly Fault[] =>
  fields.map((field) => (record === null ? { field, message } : faultOfRecord(record, message, field)));

function rulesOf(
  { resource, style }: ResourceRequest,
  { fields }: Input,
  constraints: ReadonlyMap<string, Constraint>,
): Rule[] {
  const names = new Map(fields.map((field) => [field.column.name, nameIn(field, style)]));
  const { schema, name } = resource.table;
  return [...constraints].flatMap(([key, { check, columns, message }]) => {
    const isSent =
      key.startsWith(`${schema}.${name}.`) && columns.length > 0 && columns.every((column) => names.has(column));
    if (!isSent || check === null) return [];
    const fields = columns.map((column) => names.get(column)!);
    return [{ fields, check, message: message ?? `${fields.join(", ")} violates a database constraint` }];
  });
}
