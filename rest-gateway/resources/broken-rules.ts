import type { Constraint } from "../../db/catalog/catalog.ts";
import type { DatabaseErrorLike } from "../../db/errors.ts";
import type { Statement } from "../../db/transaction.ts";
import { type Fault, faultOfRecord } from "../conventions/problem.ts";
import { finish, type Sql, sql } from "../sql.ts";
import { MAX_FAULTS } from "./parse/record.ts";
import type { Attempt } from "./refusal.ts";
import { nameIn, type Operation, type ResourceRequest } from "./request.ts";
import type { Resource } from "./resource.ts";
import { inputOf } from "./write/insert.ts";
import { statementOf } from "./write/statement.ts";

const CHECK_VIOLATION = "23514";

/** A rule of the table, as far as its fields were sent. */
type Rule = { readonly fields: readonly string[]; readonly message: string; readonly check: string };

type Input = Extract<Operation, { kind: "create" | "update" }>;

/**
 * Everything that is wrong with records whose check the database has refused: it names the first broken rule alone, and a
 * form wants to hear of all. EndpointRequest only after a refusal. Empty for what is no such refusal.
 */
export async function brokenRules(
  error: unknown,
  { request, identity, transactions }: Attempt,
  constraints: ReadonlyMap<string, Constraint>,
): Promise<readonly Fault[]> {
  const { operation, resource, values } = request;
  if ((error as DatabaseErrorLike).code !== CHECK_VIOLATION) return [];
  if (operation.kind !== "update" && operation.kind !== "create") return [];
  const rules = rulesOf(request, operation, constraints);
  if (rules.length === 0) return [];
  const [result] = await transactions.run(identity, [askFor(rules, resource, operation, values)]);
  const broken: readonly (readonly number[])[] = JSON.parse(result!.rows[0]![0]!.toString());
  const faults = broken.flatMap((places, i) =>
    places.flatMap((place) => faultsOf(rules[place]!, isMany(operation) ? i : null)),
  );
  return faults.slice(0, MAX_FAULTS);
}

const isMany = (input: Input) => input.kind === "create" && input.isMany;

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
    const isAsked =
      key.startsWith(`${schema}.${name}.`) && columns.length > 0 && columns.every((column) => names.has(column));
    if (!isAsked || check === null) return [];
    const fields = columns.map((column) => names.get(column)!);
    return [{ fields, check, message: message ?? `${fields.join(", ")} breaks a rule of the database` }];
  });
}

/** The places of the rules that each record breaks. The expressions are the catalog's own; bare names in them are columns of the record. */
function askFor(rules: readonly Rule[], resource: Resource, input: Input, values: readonly string[]): Statement {
  const rows: Sql[] = rules.map(({ check }, i) => sql`(${sql.integer(i)}, (${sql.trusted(check)}))`);
  const broken = sql`select coalesce(pg_catalog.json_agg(rule.place order by rule.place), '[]'::json) as places from (values ${sql.join(rows, ", ")}) as rule (place, holds) where not rule.holds`;
  const written = finish(
    sql`select pg_catalog.json_agg(broken.places) from ${inputOf(resource, input.body, isMany(input))}, lateral (${broken}) as broken`,
  );
  return statementOf(written, values);
}
