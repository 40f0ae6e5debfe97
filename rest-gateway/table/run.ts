import type { Caller } from "../../db/caller.ts";
import type { Catalog, Setting } from "../../db/catalog/catalog.ts";
import type { Identity, TransactionSettings } from "../../db/identity.ts";
import type { CancelSignal, Result, Statement, Transactions } from "../../db/transaction.ts";
import type { Parameter, Written } from "../sql.ts";
import { writeArray } from "./parse/array-literal.ts";
import { isReadOnly } from "./plan/plan.ts";
import { isolationOf, type Prepared } from "./prepare.ts";
import type { TableRequest } from "./request.ts";

export type RunOptions = {
  /** A statement that runs before the request's own; null for none. */
  readonly before: Statement | null;
  readonly signal: CancelSignal;
  readonly onConnected: () => void;
};

/** What Postgres gave: the rows of the one statement, and of the one that estimates. */
export type Ran = { readonly main: Result; readonly estimate: Result | null };

/** One transaction in one round trip. */
export async function run(
  transactions: Transactions,
  identity: Identity,
  prepared: Prepared,
  request: TableRequest,
  { before, signal, onConnected }: RunOptions,
): Promise<Ran> {
  const { plan, query, isRolledBack } = prepared;
  const statements = [statementOf(query.main, request)];
  if (query.estimate) statements.push(statementOf(query.estimate, request));
  if (before) statements.unshift(before);
  const takesAll = !isReadOnly(plan);
  const isolation = isolationFor(prepared, identity);
  const options = { isolation, rollback: isRolledBack, takesAll, signal, onConnected };
  const results = await transactions.run(identity, statements, options);
  const first = before ? 1 : 0;
  return { main: results[first]!, estimate: results[first + 1] ?? null };
}

/** What the transaction of a request is told: by its catalog, its role, and the request itself. */
export function settingsFor(prepared: Prepared, { role }: Caller, { roles }: Catalog): TransactionSettings {
  return {
    fixed: prepared.settingsFor(roles.get(role)?.settings ?? NO_SETTINGS),
    given: prepared.timezone === null ? [] : [["timezone", prepared.timezone]],
  };
}

const NO_SETTINGS: readonly Setting[] = [];

/** What the function says of it, or else the role. */
export const isolationFor = ({ isolation }: Prepared, { settings }: Identity) =>
  isolation ?? isolationOf(settings?.fixed ?? []);

/** What the parameters of a statement take from a request. */
export type Input = Pick<TableRequest, "values" | "body">;

export const statementOf = ({ text, parameters }: Written, request: Input): Statement => ({
  text,
  values: parameters.map((parameter) => textOf(parameter, request)),
  binary: true,
});

function textOf(parameter: Parameter, { values, body }: Input): string {
  switch (parameter.kind) {
    case "value":
      return values[parameter.index]!;
    case "values":
      return writeArray(parameter.indexes.map((index) => values[index]!));
    case "constant":
      return parameter.text;
    case "body":
      if (body!.kind === "json") return body!.text;
      return body!.type === "application/octet-stream" ? `\\x${body!.bytes.toString("hex")}` : body!.bytes.toString();
  }
}
