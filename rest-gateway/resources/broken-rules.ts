import type { Identity } from "../../db/caller.ts";
import type { Constraint } from "../../db/catalog/catalog.ts";
import type { DatabaseErrorLike } from "../../db/errors.ts";
import type { Statement, Transactions } from "../../db/transaction.ts";
import type { Fault } from "../conventions/problem.ts";
import { finish, type Sql, sql } from "../sql.ts";
import type { ResourceRequest } from "./request.ts";
import type { Resource } from "./resource.ts";
import { statementOf } from "./runner.ts";
import { value } from "./write/conditions.ts";
import { tableOf } from "./write/record.ts";

const CHECK_VIOLATION = "23514";

/** A rule of the table, as far as its fields were sent. */
type Rule = { readonly fields: readonly string[]; readonly message: string; readonly check: string };

/**
 * Everything that is wrong with a record whose check the database has refused: it names the first broken rule alone, and a
 * form wants to hear of all. Asked only after a refusal. Empty for what is no such refusal.
 */
export async function brokenRules(
  error: unknown,
  request: ResourceRequest,
  constraints: ReadonlyMap<string, Constraint>,
  transactions: Transactions,
  identity: Identity,
): Promise<readonly Fault[]> {
  const { operation, resource, values } = request;
  if ((error as DatabaseErrorLike).code !== CHECK_VIOLATION) return [];
  if (operation.kind !== "update" && !(operation.kind === "create" && !operation.isMany)) return [];
  const rules = rulesOf(request, constraints);
  if (rules.length === 0) return [];
  const [result] = await transactions.run(identity, [askFor(rules, resource, operation.body, values)]);
  const broken: readonly number[] = JSON.parse(result!.rows[0]![0]!.toString());
  return broken.flatMap((place) => rules[place]!.fields.map((field) => ({ field, message: rules[place]!.message })));
}

function rulesOf(
  { resource, operation, style }: ResourceRequest,
  constraints: ReadonlyMap<string, Constraint>,
): Rule[] {
  const sent = operation.kind === "create" || operation.kind === "update" ? operation.fields : [];
  const names = new Map(sent.map((field) => [field.column.name, style.isCamel ? field.camelName : field.name]));
  const { schema, name } = resource.table;
  return [...constraints].flatMap(([key, { check, columns, message }]) => {
    const isAsked =
      key.startsWith(`${schema}.${name}.`) && columns.length > 0 && columns.every((column) => names.has(column));
    if (!isAsked || check === null) return [];
    const fields = columns.map((column) => names.get(column)!);
    return [{ fields, check, message: message ?? `${fields.join(", ")} breaks a rule of the database` }];
  });
}

/** The expressions are the catalog's own; bare names in them are columns of the record. */
function askFor(rules: readonly Rule[], resource: Resource, body: number, values: readonly string[]): Statement {
  const rows: Sql[] = rules.map(({ check }, i) => sql`(${sql.integer(i)}, (${sql.trusted(check)}))`);
  const record = sql`pg_catalog.json_populate_record(null::${tableOf(resource)}, ${value(body)}::json) as input`;
  const broken = sql`lateral (values ${sql.join(rows, ", ")}) as rule (place, holds)`;
  const written = finish(
    sql`select coalesce(pg_catalog.json_agg(rule.place order by rule.place), '[]'::json) from ${record}, ${broken} where not rule.holds`,
  );
  return statementOf(written, values);
}
