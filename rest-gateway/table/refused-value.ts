import type { Catalog, Column } from "../../db/catalog/catalog.ts";
import type { DatabaseErrorLike } from "../../db/errors.ts";
import type { Transactions } from "../../db/transaction.ts";
import { finish, sql } from "../sql.ts";
import type { InsertPlan, Plan, UpdatePlan } from "./plan.ts";
import type { TableTransaction } from "./prepare.ts";
import { countCompleted, isAboutRow, placeOfRefused } from "./refused-row.ts";
import type { TableRequest } from "./request.ts";
import { writeBodyRows, writeTrial } from "./write/changes.ts";
import { writeStatement } from "./write/statement.ts";

/** The value in the body that the database has refused. `row` counts from 0; null for a body that is one object. */
export type RefusedPlace = { readonly row: number | null; readonly columns: readonly string[] };

export type RefusedWrite = {
  readonly request: TableRequest;
  readonly plan: Plan;
  readonly identity: TableTransaction["identity"];
  readonly transactions: Pick<Transactions, "run">;
  readonly constraints: Catalog["constraints"];
};

/** Finds the row and the columns of the body that the error is about. Null if there is nothing to add to the error. */
export async function refusedPlaceOf(error: unknown, write: RefusedWrite): Promise<RefusedPlace | null> {
  const { request, plan } = write;
  const isWrite = plan.kind === "insert" || plan.kind === "update";
  if (!isWrite || request.body?.kind !== "json" || !isAboutRow(error)) return null;
  const body: unknown = JSON.parse(request.body.text);
  const rows = Array.isArray(body) ? body : [body];
  const named = columnsOf(error as DatabaseErrorLike, write.constraints);
  const isMany = plan.kind === "insert" && rows.length > 1;
  // The message about one object names its column or constraint.
  if (!isMany && named !== null) return null;
  const row = isMany ? await rowOf(error, rows, plan, write) : 0;
  if (row === null) return null;
  const columns = named ?? (await unreadable(error, rows[row], plan, write));
  return isMany ? { row, columns } : columns.length === 0 ? null : { row: null, columns };
}

function rowOf(error: unknown, rows: readonly unknown[], plan: InsertPlan, { request, ...asked }: RefusedWrite) {
  const insert = finish(writeTrial(plan));
  return placeOfRefused(error, {
    ...asked,
    count: rows.length,
    insertOf: ({ first, end }) =>
      writeStatement(insert, { ...request, body: { kind: "json", text: JSON.stringify(rows.slice(first, end)) } }),
  });
}

/** The columns of a constraint; null for an error that names none. */
function columnsOf({ schema, table, column, constraint }: DatabaseErrorLike, constraints: Catalog["constraints"]) {
  if (column !== undefined) return [column];
  return constraint === undefined ? null : (constraints.get(`${schema}.${table}.${constraint}`)?.columns ?? []);
}

/** The first column whose value in the row Postgres cannot read, by reading one column after the other. */
async function unreadable(
  error: unknown,
  row: unknown,
  { body }: InsertPlan | UpdatePlan,
  { request, ...asked }: RefusedWrite,
): Promise<readonly string[]> {
  const text = JSON.stringify(body.isArray ? [row] : row);
  const statements = body.columns.map((column) =>
    writeStatement(read(column, body), { ...request, body: { kind: "json", text } }),
  );
  const completed = statements.length === 0 ? null : await countCompleted(statements, error, asked);
  return completed === null ? [] : [body.columns[completed]!.name];
}

function read(column: Column, body: InsertPlan["body"]) {
  const value = sql`b.${sql.identifier(column.name)}`;
  const json = column.casts?.fromJson ? sql`${sql.trusted(column.casts.fromJson)}(${value})` : value;
  return finish(sql`select ${json} from ${writeBodyRows({ ...body, columns: [column] })}`);
}

/** `[3].status`, `status`, `[3]` */
export const pathOf = ({ row, columns }: RefusedPlace): string =>
  [row === null ? "" : `[${row}]`, columns.join(", ")].filter((part) => part !== "").join(".");
