import type { Constraint } from "../../db/catalog/catalog.ts";
import type { DatabaseErrorLike } from "../../db/errors.ts";
import type { Identity } from "../../db/identity.ts";
import type { Statement, Transactions } from "../../db/transaction.ts";
import { type Fault, faultOfRecord } from "../conventions/problem.ts";
import { finish, type Sql, sql } from "../sql.ts";
import type { BodyColumns, InsertCommand } from "../table/plan.ts";
import { writeBodyRows, writeCommand } from "../table/write/changes.ts";
import { Aliases } from "../table/write/from.ts";
import { writeStatement } from "../table/write/statement.ts";
import { planBody, planInsert } from "./plan/request.ts";
import { invalidBody, MAX_FAULTS } from "./problem.ts";
import { nameIn, type OperationOf, type ResourceRequest, recordsBody } from "./request.ts";

/** A request that the database has refused, and the identity that it was sent with. */
export type Attempt = {
  readonly request: ResourceRequest;
  readonly identity: Identity;
  readonly transactions: Pick<Transactions, "run">;
};

/** The database has refused one record among several; `place` counts from 0. */
export class RefusedRecord extends Error {
  readonly place: number;
  constructor(place: number, cause: unknown) {
    super(`record ${place} was refused`, { cause });
    this.place = place;
  }
}

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
  const faults = await brokenRules(error, attempt, constraints).catch(() => []);
  if (faults.length > 0) return invalidBody(faults, attempt.request.style.version);
  const place = await placeOfRefused(error, attempt);
  return place === null ? error : new RefusedRecord(place, error);
}

const CHECK_VIOLATION = "23514";

/** A check constraint whose columns are all in the body. */
export type Rule = { readonly fields: readonly string[]; readonly message: string; readonly check: string };

type Input = OperationOf<"create" | "update">;

/**
 * Every check that the records violate. Postgres names only the first one; a form should show them all. Queried only after
 * a violation, and empty for other errors.
 */
async function brokenRules(
  error: unknown,
  { request, identity, transactions }: Attempt,
  constraints: ReadonlyMap<string, Constraint>,
): Promise<readonly Fault[]> {
  const { operation } = request;
  if (codeOf(error) !== CHECK_VIOLATION) return [];
  if (operation.kind !== "update" && operation.kind !== "create") return [];
  const rules = rulesOf(request, operation, constraints);
  if (rules.length === 0) return [];
  const isMany = operation.kind === "create" && operation.isMany;
  const query = writeBrokenRules(rules, planBody(operation.fields, isMany, false));
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

/** SQLSTATEs of errors about a row: its values, a constraint, a trigger. */
const OF_ROW = /^(?:22|23|P0001$)/;
/** The number of parts that one attempt divides the records into. */
const PARTS = 100;

/** Records from `first` up to, but not including, `end`. */
type Span = { readonly first: number; readonly end: number };

/**
 * Finds which of several records was refused. Postgres does not report it, and policies may hide the conflicting row. So
 * the records are inserted again in parts, with the rights of the caller, and rolled back: this reveals no more than
 * sending the records one at a time. Null for other errors, and if the same error is not raised again.
 */
async function placeOfRefused(error: unknown, attempt: Attempt): Promise<number | null> {
  const { request } = attempt;
  const { operation, body } = request;
  if (operation.kind !== "create" || !operation.isMany || !OF_ROW.test(codeOf(error))) return null;
  const records = body!.records;
  const insert = finish(writeTrial(planInsert(request, operation, true)));
  const insertOf = ({ first, end }: Span): Statement =>
    writeStatement(insert, { ...request, body: recordsBody(records.slice(first, end), true) });

  let span: Span | undefined = { first: 0, end: records.length };
  do {
    const parts = partsOf(span);
    const before: readonly Span[] = span.first === 0 ? [] : [{ first: 0, end: span.first }];
    const completed = await countCompleted([...before, ...parts].map(insertOf), error, attempt);
    span = completed === null ? undefined : parts[completed - before.length];
  } while (span && span.end - span.first > 1);
  return span?.first ?? null;
}

function partsOf({ first, end }: Span): readonly Span[] {
  const size = Math.ceil((end - first) / PARTS);
  const count = Math.ceil((end - first) / size);
  return Array.from({ length: count }, (_, i) => first + i * size).map((start) => ({
    first: start,
    end: Math.min(start + size, end),
  }));
}

/** The number of statements that complete before the same error is raised again; null if it is not raised. */
async function countCompleted(
  statements: readonly Statement[],
  error: unknown,
  { transactions, identity }: Attempt,
): Promise<number | null> {
  let completed = 0;
  const onCompleted = (index: number) => {
    completed = index + 1;
  };
  return transactions.run(identity, statements, { rollback: true, unlimitedResult: true, onCompleted }).then(
    () => null,
    (again) => (isSame(again, error) ? completed : null),
  );
}

const codeOf = (error: unknown): string => (error as DatabaseErrorLike).code ?? "";

function isSame(one: DatabaseErrorLike, other: unknown): boolean {
  const { code, schema, table, constraint } = other as DatabaseErrorLike;
  return one.code === code && one.schema === schema && one.table === table && one.constraint === constraint;
}

/** An insert that returns nothing: only its success matters. */
function writeTrial(command: InsertCommand): Sql {
  const aliases = new Aliases();
  const change = sql.clauses(writeCommand(command, aliases.scope(), aliases), sql`returning 1 as one`);
  return sql.clauses(sql`with changed as ${sql.subquery(change)}`, sql`select`, sql`from changed`);
}

/**
 * The indexes of the checks that each record of the body violates. The expressions come from the catalog; bare names in
 * them are columns of the record.
 */
function writeBrokenRules(rules: readonly { readonly check: string }[], body: BodyColumns): Sql {
  const rows = rules.map(({ check }, i) => sql`(${sql.integer(i)}, (${sql.trusted(check)}))`);
  const broken = sql.clauses(
    sql`select coalesce(pg_catalog.json_agg(rule.place order by rule.place), '[]'::json) as places`,
    sql`from (values ${sql.join(rows, ", ")}) as rule (place, holds)`,
    sql`where not rule.holds`,
  );
  return sql.clauses(
    sql`select pg_catalog.json_agg(broken.places)`,
    sql`from ${writeBodyRows(body)}, lateral ${sql.subquery(broken)} as broken`,
  );
}
