import type { Catalog } from "../../db/catalog/catalog.ts";
import type { DatabaseErrorLike } from "../../db/errors.ts";
import type { Identity } from "../../db/identity.ts";
import { faultsOfInput, type InputFault } from "../../db/input-faults.ts";
import type { Transactions } from "../../db/transaction.ts";
import { type Fault, faultOfRecord, type RestError } from "../conventions/problem.ts";
import type { Route } from "./parse/address.ts";
import { InvalidRecords, invalidBody, MAX_FAULTS, valuesTaken } from "./problem.ts";
import type { Attempt } from "./refusal.ts";
import { type Columns, nameIn, type Style } from "./request.ts";
import type { Resource } from "./resource.ts";

// Postgres reports one violated rule at a time; a form should show all of them.

/** The database, as the caller of a request. */
export type Asked = {
  readonly identity: Identity;
  readonly transactions: Pick<Transactions, "run">;
  readonly catalog: Catalog;
};

const CHECK_VIOLATION = "23514";
const UNIQUE_VIOLATION = "23505";

/** Every rule that the records of a refused request violate; null if there is nothing to add to the error. */
export async function allViolated(error: unknown, attempt: Attempt): Promise<RestError | null> {
  const { request } = attempt;
  const { operation, resource, style, values, body } = request;
  const { code } = error as DatabaseErrorLike;
  if (operation.kind !== "update" && operation.kind !== "create") return null;
  const isMany = operation.kind === "create" && operation.isMany;
  // Which of several records has a taken value is found by inserting them again: two of them may have the same value.
  if (code !== CHECK_VIOLATION && (code !== UNIQUE_VIOLATION || isMany)) return null;
  const id = operation.kind === "update" ? values[operation.key.id]! : null;
  const faults = await faultsOf(body!.records, id, resource, attempt);
  if (faults.length === 0) return null;
  const sent = faults.map((fault) => faultIn(fault, resource, style, isMany)).slice(0, MAX_FAULTS);
  return code === UNIQUE_VIOLATION ? valuesTaken(sent) : invalidBody(sent, style.version);
}

/** Adds the rules that the valid fields of an invalid body violate. */
export async function withViolated(
  error: InvalidRecords,
  route: Pick<Route, "resource"> & { readonly id?: string },
  style: Style,
  asked: Asked,
): Promise<InvalidRecords> {
  const { resource, id = null } = route;
  const { faults, isMissing, records, isMany } = error;
  const known = new Set(faults.map(({ field }) => field));
  const more = (await faultsOf(records, id, resource, asked)).map((fault) => faultIn(fault, resource, style, isMany));
  const added = more.filter(({ field }) => !known.has(field));
  return new InvalidRecords({ faults: [...faults, ...added], isMissing, records, isMany }, style.version);
}

/** The key of a row with this id is not taken by itself. */
const faultsOf = (records: readonly Columns[], id: string | null, resource: Resource, asked: Asked) => {
  const key = id === null ? null : { [resource.key.column.name]: id };
  return faultsOfInput({ table: resource.table, records, key }, asked.identity, asked);
};

function faultIn({ record, column, message }: InputFault, resource: Resource, style: Style, isMany: boolean): Fault {
  const named = resource.fields.find((field) => field.column.name === column);
  const field = named ? nameIn(named, style) : column;
  return isMany ? faultOfRecord(record, message, field) : { field, message };
}
