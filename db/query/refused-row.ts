import type { Catalog, Column } from "../catalog/catalog.ts";
import { isOfValue } from "../errors.ts";
import { referenceFault } from "../references.ts";
import { finish, sql } from "../sql.ts";
import type { DatabaseErrorLike } from "../sqlstates.ts";
import type { Identity } from "../transaction/identity.ts";
import {
  columnsOfError,
  faultCode,
  faultsOfInput,
  type InputFault,
  mayHaveMore,
  type Read,
  readOf,
  unreadableOf,
} from "../transaction/input-faults.ts";
import type { Statement, Transactions } from "../transaction/transaction.ts";
import { writeBodyRows, writeTrial } from "./changes.ts";
import type { CallPlan, InsertPlan, Plan, UpdatePlan } from "./plan.ts";
import { REFUSED } from "./result.ts";
import { type Input, writeStatement } from "./run.ts";

export type Span = { readonly first: number; readonly end: number };

/** Several rows of which the database has refused one. */
export type RefusedRows = {
  readonly count: number;
  /** Inserts the rows from `first` up to, but not including, `end`. */
  insertOf(span: Span): Statement;
  readonly identity: Identity;
  readonly transactions: Pick<Transactions, "run">;
};

/** SQLSTATEs of errors about a row: its values, a constraint, a trigger. */
const OF_ROW = /^(?:22|23|P0001$)/;
/** The number of parts that one attempt divides the rows into. */
const PARTS = 100;

export const isAboutRow = (error: unknown): boolean => OF_ROW.test((error as DatabaseErrorLike).code ?? "");

/**
 * Finds which of several rows was refused, from 0. Postgres does not report it, and policies may hide the conflicting row. So
 * the rows are inserted again in parts, with the rights of the caller, and rolled back: this reveals no more than sending the
 * rows one at a time. Null for other errors, and if the same error is not raised again.
 */
export async function placeOfRefused(error: unknown, rows: RefusedRows): Promise<number | null> {
  if (!isAboutRow(error)) return null;
  let span: Span | undefined = { first: 0, end: rows.count };
  do {
    const parts = partsOf(span);
    const before: readonly Span[] = span.first === 0 ? [] : [{ first: 0, end: span.first }];
    const completed = await countCompleted([...before, ...parts].map(rows.insertOf), error, rows);
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
  { transactions, identity }: Pick<RefusedRows, "identity" | "transactions">,
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

function isSame(one: DatabaseErrorLike, other: unknown): boolean {
  const { code, schema, table, constraint } = other as DatabaseErrorLike;
  return one.code === code && one.schema === schema && one.table === table && one.constraint === constraint;
}

/** Why the database has refused a value. `row` counts from 0; null for a body that is one object, and for arguments. */
export type RefusedValue = {
  readonly row: number | null;
  readonly columns: readonly string[];
  /** Null if the message of the database error applies. */
  readonly message: string | null;
  readonly code: InputFault["code"];
  readonly constraint: string | null;
};

export type RefusedWrite = {
  readonly input: Input;
  readonly plan: Plan;
  readonly identity: Identity;
  readonly transactions: Pick<Transactions, "run">;
  readonly catalog: Catalog;
};

/**
 * The row and the columns of the body that the error is about, then everything else that is wrong with it, as far as the caller
 * may see; or the arguments of a function that violates a constraint. Empty if there is nothing to add to the error.
 */
export async function refusedValuesOf(error: unknown, write: RefusedWrite): Promise<readonly RefusedValue[]> {
  const { input, plan } = write;
  if (!isAboutRow(error) || isCount(error as DatabaseErrorLike)) return [];
  if (plan.kind === "call") return refusedArguments(error as DatabaseErrorLike, plan, write);
  const rows = input.body?.kind === "json" ? rowsOf(input.body) : null;
  if (rows === null || (plan.kind !== "insert" && plan.kind !== "update")) return [];
  if (isOfValue(error as DatabaseErrorLike)) return unreadableValues(error as DatabaseErrorLike, rows, plan, write);
  const first = await placeOf(error, rows, plan, write);
  const others = await otherFaults(error as DatabaseErrorLike, recordsOf(rows, first), plan, write);
  const values = others.map((faults) => refusedBy(faults, rows.count > 1));
  if (first === null) return values;
  const isFirst = (value: RefusedValue) => pathOf(value) === pathOf(first);
  return [values.find(isFirst) ?? first, ...values.filter((value) => !isFirst(value))];
}

type Records = { readonly rows: readonly Row[]; readonly firstIndex: number };

/** The rows whose other faults are found: of a large body only the refused one. */
function recordsOf({ all, row }: BodyRows, refused: RefusedValue | null): Records {
  if (all) return { rows: all, firstIndex: 0 };
  const index = refused?.row ?? null;
  return index === null ? { rows: [], firstIndex: 0 } : { rows: [row(index)], firstIndex: index };
}

/** Whether the statement has refused the number of rows or bytes, as a text that is not a number. */
const isCount = ({ message }: DatabaseErrorLike): boolean =>
  Object.values(REFUSED).some((prefix) => message.includes(`"${prefix}`));

/** The arguments of a function that have the names of the columns that the error is about, as in GraphQL. */
function refusedArguments(
  error: DatabaseErrorLike,
  { function: called }: CallPlan,
  { catalog }: RefusedWrite,
): readonly RefusedValue[] {
  if (referenceFault(error) === "used") return [];
  const names = new Set(called.arguments.map(({ name }) => name));
  const columns = columnsOfError(error, catalog.constraints).filter((column) => names.has(column));
  const { code = "", constraint = null } = error;
  return columns.length === 0 ? [] : [{ row: null, columns, message: null, code: faultCode(code), constraint }];
}

async function placeOf(
  error: unknown,
  rows: BodyRows,
  plan: InsertPlan | UpdatePlan,
  write: RefusedWrite,
): Promise<RefusedValue | null> {
  const columns = columnsOf(error as DatabaseErrorLike, plan, write);
  const isMany = plan.kind === "insert" && rows.count > 1;
  const row = isMany ? await rowOf(error, rows, plan, write) : 0;
  if (row === null || !(isMany || columns.length > 0)) return null;
  const { code = "", constraint = null } = error as DatabaseErrorLike;
  return { row: isMany ? row : null, columns, message: null, code: faultCode(code), constraint };
}

function rowOf(error: unknown, rows: BodyRows, plan: InsertPlan, { input, ...database }: RefusedWrite) {
  const insert = finish(writeTrial(plan));
  return placeOfRefused(error, {
    ...database,
    count: rows.count,
    insertOf: (span) => writeStatement(insert, { ...input, body: { kind: "json", text: rows.textOf(span) } }),
  });
}

/** The columns of a constraint, unless they belong to a table behind a view. */
function columnsOf(
  error: DatabaseErrorLike,
  { table: { columns } }: InsertPlan | UpdatePlan,
  { catalog }: RefusedWrite,
): readonly string[] {
  return columnsOfError(error, catalog.constraints).filter((name) => columns.has(name));
}

/**
 * The faults of every rule that the rows violate. A unique value of an existing row may be taken by the row itself, so for updates
 * and upserts only the reported conflict counts.
 */
async function otherFaults(
  { code, constraint: reported }: DatabaseErrorLike,
  { rows, firstIndex }: Records,
  plan: InsertPlan | UpdatePlan,
  { identity, ...database }: RefusedWrite,
): Promise<readonly (readonly InputFault[])[]> {
  if (!mayHaveMore(code) || rows.length === 0) return [];
  const { table, body } = plan;
  const names = body.columns.map(({ name }) => name);
  const records = rows.map((row) => Object.fromEntries(names.map((name) => [name, row[name] ?? null])));
  const faults = await faultsOfInput(
    { table, records: plan.kind === "update" ? records.slice(0, 1) : records, key: null, required: requiredBy(plan) },
    identity,
    database,
  );
  const isNew = plan.kind === "insert" && plan.conflict === null;
  const certain = faults.filter(
    (fault) => isNew || fault.code !== "RESOURCE_CONFLICT" || fault.constraint === reported,
  );
  const placed = certain.map((fault) => ({ ...fault, record: fault.record + firstIndex }));
  return [...Map.groupBy(placed, ({ record, constraint, message }) => `${record} ${constraint ?? message}`).values()];
}

/** The columns that must have a value in each new row. */
function requiredBy({ kind, table, body }: InsertPlan | UpdatePlan): readonly string[] {
  if (kind === "update") return [];
  const sent = new Set(body.columns.map(({ name }) => name));
  const isRequired = ({ name, isNullable, hasDefault, generated }: Column) => {
    if (isNullable || generated === "always") return false;
    return sent.has(name) ? !(hasDefault && body.defaultsFrom !== null) : !hasDefault;
  };
  return [...table.columns.values()].filter(isRequired).map(({ name }) => name);
}

const refusedBy = (faults: readonly InputFault[], isMany: boolean): RefusedValue => ({
  row: isMany ? faults[0]!.record : null,
  columns: faults.map(({ column }) => column),
  message: faults[0]!.message,
  code: faults[0]!.code,
  constraint: faults[0]!.constraint,
});

/** Every value of the refused row that Postgres cannot read. */
async function unreadableValues(
  error: DatabaseErrorLike,
  rows: BodyRows,
  plan: InsertPlan | UpdatePlan,
  write: RefusedWrite,
): Promise<readonly RefusedValue[]> {
  const isMany = plan.kind === "insert" && rows.count > 1;
  const index = isMany ? await rowOf(error, rows, plan, write) : 0;
  if (index === null) return [];
  const found = await unreadableOf(error, readsIn(rows.row(index), plan, write), write.identity, write);
  const place = { row: isMany ? index : null, columns: [], code: "VALIDATION_ERROR", constraint: null } as const;
  // The message of the error applies to the only one.
  if (found.length > 1) return found.map(({ column, message }) => ({ ...place, columns: [column], message }));
  return isMany || found.length > 0 ? [{ ...place, columns: found.map(({ column }) => column), message: null }] : [];
}

function readsIn(row: Row, { table, body }: InsertPlan | UpdatePlan, { input }: RefusedWrite): readonly Read[] {
  return body.columns.flatMap((column): Read[] => {
    const { name, casts } = column;
    if (!casts?.fromJson) return row[name] === undefined ? [] : [readOf(table, name, row[name])];
    const text = JSON.stringify(body.isArray ? [row] : row);
    const cast = sql`${sql.trusted(casts.fromJson)}(b.${sql.identifier(name)})`;
    const read = finish(sql`select ${cast} from ${writeBodyRows({ ...body, columns: [column] })}`);
    return [{ column: name, statement: writeStatement(read, { ...input, body: { kind: "json", text } }) }];
  });
}

/** `[3].status`, `status`, `[3]` */
export const pathOf = ({ row, columns }: Pick<RefusedValue, "row" | "columns">): string =>
  [row === null ? "" : `[${row}]`, columns.join(", ")].filter((part) => part !== "").join(".");

type JsonInput = Extract<Input["body"], { readonly kind: "json" }>;

type Row = Readonly<Record<string, unknown>>;

/** The rows of a body. */
type BodyRows = {
  readonly count: number;
  row(index: number): Row;
  /** The JSON of the rows from `first` up to, but not including, `end`. */
  textOf(span: Span): JsonInput["text"];
  /** Null for a large body, whose rows are parsed one at a time. */
  readonly all: readonly Row[] | null;
};

/** Null for a large body that is one object. */
function rowsOf({ text, elements }: JsonInput): BodyRows | null {
  if (typeof text !== "string") return elements ? rowsOfLarge(text[0]!, elements) : null;
  const body: Row | readonly Row[] = JSON.parse(text);
  const all: readonly Row[] = Array.isArray(body) ? body : [body];
  return {
    all,
    count: all.length,
    row: (index) => all[index]!,
    textOf: ({ first, end }) => JSON.stringify(all.slice(first, end)),
  };
}

function rowsOfLarge(text: Buffer, elements: Uint32Array): BodyRows {
  const between = (first: number, end: number) => text.subarray(elements[first], elements[end]! - 1);
  return {
    all: null,
    count: elements.length - 1,
    row: (index) => JSON.parse(between(index, index + 1).toString()),
    textOf: ({ first, end }) => [OPEN, between(first, end), CLOSE],
  };
}

const OPEN = Buffer.from("[");
const CLOSE = Buffer.from("]");
