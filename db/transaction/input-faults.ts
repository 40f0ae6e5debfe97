import pg from "pg";
import type { Code } from "../../problems/reasons.ts";
import { type Catalog, type Constraint, quoteName, type Table } from "../catalog/catalog.ts";
import { isOfValue } from "../errors.ts";
import { referenceFault } from "../references.ts";
import { quoteIdentifier } from "../sql.ts";
import type { DatabaseErrorLike } from "../sqlstates.ts";
import type { Identity } from "./identity.ts";
import type { Statement, Transactions } from "./transaction.ts";

/** What is wrong with a column of a record. A rule over several columns is a fault of each. */
export type InputFault = {
  /** The index of the record, from 0. */
  readonly record: number;
  readonly column: string;
  readonly message: string;
  readonly code: Extract<Code, "VALIDATION_ERROR" | "RESOURCE_CONFLICT">;
  readonly constraint: string | null;
};

/** Records that a client wants to write: values by column. */
export type Input = {
  readonly table: Table;
  readonly records: readonly Readonly<Record<string, unknown>>[];
  /** The key of the row that an update changes, by column: the unique values of this row are not conflicts. Null for new rows. */
  readonly key: Readonly<Record<string, string>> | null;
  /** Columns that must not be null in any record, which is a new row. */
  readonly required?: readonly string[];
};

/** A constraint whose columns are all in the input, or NOT NULL, which has no name. */
type Rule = {
  readonly name: string | null;
  readonly message: string;
  readonly constraint: Pick<Constraint, "columns" | "check" | "keys">;
};

/** SQLSTATEs of NOT NULL, a check and a unique constraint. */
const OF_RULES: ReadonlySet<string | undefined> = new Set(["23502", "23514", "23505"]);

/** Whether the input may have more faults than the one with this SQLSTATE. */
export const mayHaveMore = (sqlstate: string | undefined): boolean => OF_RULES.has(sqlstate);

/**
 * Every check that the records violate, and every unique value of theirs that another row already has. Postgres names only
 * the first; a form should show all. Evaluated with the rights of the caller, so rows that policies hide are not found.
 * Queried only after a refusal. Empty if a rule itself fails.
 */
export async function faultsOfInput(
  input: Input,
  identity: Identity,
  { catalog, transactions }: { readonly catalog: Catalog; readonly transactions: Pick<Transactions, "run"> },
): Promise<readonly InputFault[]> {
  const { required = [] } = input;
  const columns = [...new Set([...input.records.flatMap((record) => Object.keys(record)), ...required])];
  if (columns.some((name) => !input.table.columns.has(name))) return [];
  const rules = [
    ...required.map((column) => requiring(column, input.table)),
    ...rulesOf(input.table, columns, catalog),
  ];
  if (rules.length === 0) return [];
  const statement = {
    text: writeViolated(rules, columns, input),
    values: [JSON.stringify(input.records), ...keyValuesOf(input, rules)],
  };
  try {
    const [result] = await transactions.run(identity, [statement]);
    const broken: [record: number, rule: number][] = JSON.parse(result!.rows[0]![0]!.toString());
    return broken.flatMap(([record, rule]) => faultsOf(rules[rule]!, record));
  } catch {
    return [];
  }
}

/**
 * Everything that is wrong with records that the database has refused with this error, as far as it can be found. `failed` is the
 * record that the error is about, if it is known: the values of the others are not read.
 */
export async function faultsOfRefused(
  error: DatabaseErrorLike,
  { failed, ...input }: Input & { readonly failed: number | null },
  identity: Identity,
  asked: { readonly catalog: Catalog; readonly transactions: Pick<Transactions, "run"> },
): Promise<readonly InputFault[]> {
  if (!isOfValue(error)) return mayHaveMore(error.code) ? faultsOfInput(input, identity, asked) : [];
  const record = failed ?? (input.records.length === 1 ? 0 : null);
  if (record === null) return [];
  const unreadable = await unreadableOf(error, readsOf(input.table, input.records[record]!), identity, asked);
  return unreadable.map((each) => ({ ...each, record, code: "VALIDATION_ERROR", constraint: null }));
}

/** The fault that an error of the database names, or none. */
export function faultsOfError(
  error: DatabaseErrorLike,
  message: string,
  constraints: Catalog["constraints"],
): readonly Omit<InputFault, "record">[] {
  const { constraint, code = "" } = error;
  return columnsOfError(error, constraints).map((column) => ({
    ...{ column, message, code: faultCode(code), constraint: constraint ?? null },
  }));
}

/** The code of a fault, for the SQLSTATE of an error about it. */
export const faultCode = (sqlstate: string): InputFault["code"] =>
  CONFLICTS.has(sqlstate) ? "RESOURCE_CONFLICT" : "VALIDATION_ERROR";

/** The columns that an error of the database is about: if other rows refer to a row, those that they refer to. */
export function columnsOfError(error: DatabaseErrorLike, constraints: Catalog["constraints"]): readonly string[] {
  const { schema, table, column, constraint } = error;
  if (column !== undefined) return [column];
  const rule = constraints.get(`${schema}.${table}.${constraint}`);
  return (referenceFault(error) === "used" ? rule?.references : rule)?.columns ?? [];
}

/** SQLSTATEs of a unique and an exclusion constraint, and of foreign keys. */
const CONFLICTS = new Set(["23505", "23P01", "23503", "23001"]);

/** A trigger may set the column before it is checked, so nothing is known about a table with one. */
const requiring = (column: string, table: Table): Rule => ({
  name: null,
  message: `${column} must not be null`,
  constraint: {
    columns: [column],
    check: `${quoteIdentifier(column)} is not null or exists (
      select from pg_trigger
      where tgrelid = ${pg.escapeLiteral(quoteName(table))}::regclass and tgtype & ${BEFORE_INSERT} = ${BEFORE_INSERT} and not tgisinternal
    )`,
    keys: [],
  },
});

/** Bits of pg_trigger.tgtype: for each row, before, insert. */
const BEFORE_INSERT = 1 | 2 | 4;

function rulesOf({ schema, name }: Table, columns: readonly string[], catalog: Catalog): readonly Rule[] {
  const prefix = `${schema}.${name}.`;
  return [...catalog.constraints].flatMap(([path, constraint]) => {
    const { check, keys, columns: own } = constraint;
    const isSent = path.startsWith(prefix) && own.length > 0 && own.every((column) => columns.includes(column));
    if (!isSent || (check === null && keys.length === 0)) return [];
    return [{ name: path.slice(prefix.length), message: catalog.constraintMessages.get(path)!, constraint }];
  });
}

const faultsOf = ({ name, message, constraint: { columns, check } }: Rule, record: number): readonly InputFault[] =>
  columns.map((column) => ({
    ...{ record, column, message, constraint: name },
    code: check === null ? "RESOURCE_CONFLICT" : "VALIDATION_ERROR",
  }));

/**
 * A query of `[record, rule]` pairs. The expressions come from the catalog; bare names in them are columns of the record. A
 * value that a column cannot have raises an error.
 */
function writeViolated(rules: readonly Rule[], columns: readonly string[], { table, key }: Input): string {
  const definitions = columns.map((name) => `${quoteIdentifier(name)} ${table.columns.get(name)!.type}`);
  const conditions = rules.map(({ constraint: { check, keys } }, i) => {
    if (check !== null) return `(${i}, not (${check}))`;
    const own = keys.map((expression, n) => `(${expression}) as k${n}`).join(", ");
    const others = Object.keys(key ?? {}).map((column, n) => `${quoteIdentifier(column)}::text = $${n + 2}`);
    const isOther = others.length > 0 ? ` where not (${others.join(" and ")})` : "";
    const same = keys.map((_, n) => `taken.k${n} = own.k${n}`).join(" and ");
    return `(${i}, exists (select from (select ${own}) as own
      join (select ${own} from ${quoteName(table)}${isOther}) as taken on ${same}))`;
  });
  return `select coalesce(json_agg(json_build_array(pairs.n - 1, pairs.rule) order by pairs.n, pairs.rule), '[]')
    from json_array_elements($1::json) with ordinality as records (record, n),
      lateral json_to_record(records.record) as input (${definitions.join(", ")}),
      lateral (
        select records.n, rules.rule from (values ${conditions.join(", ")}) as rules (rule, violated) where rules.violated
      ) as pairs`;
}

/** Only rules about unique values compare the key. */
const keyValuesOf = ({ key }: Input, rules: readonly Rule[]): readonly string[] =>
  rules.some(({ constraint: { check } }) => check === null) ? Object.values(key ?? {}) : [];

/** A value that its column cannot have, and why, in the words of Postgres: `value too long for type character varying(3)`. */
export type Unreadable = { readonly column: string; readonly message: string };

/** What reads a value. */
export type Read = { readonly column: string; readonly statement: Statement };

/** The most values that one error names. Each costs a round trip. */
const MAX_NAMED = 20;
/** The most values that are read to name those that are refused. An error does not name the others. */
const MAX_READ = 100;

/** Reads the values of a record. */
export const readsOf = (table: Table, record: Readonly<Record<string, unknown>>): readonly Read[] =>
  Object.entries(record)
    .filter(([, value]) => value !== null)
    .map(([column, value]) => readOf(table, column, value));

/** Reads a value as an insert does: unlike a cast, this does not shorten a text. */
export const readOf = (table: Table, column: string, value: unknown): Read => ({
  column,
  statement: {
    text: `select from pg_catalog.json_populate_record(null::${quoteName(table)}, $1::json)`,
    values: [JSON.stringify({ [column]: value })],
  },
});

/**
 * Every value that Postgres cannot read, after one of them has caused the error. Empty if no read raises this error: another
 * expression, such as that of a default, has caused it.
 */
export async function unreadableOf(
  error: DatabaseErrorLike,
  reads: readonly Read[],
  identity: Identity,
  { transactions }: { readonly transactions: Pick<Transactions, "run"> },
): Promise<readonly Unreadable[]> {
  const found: (Unreadable & { readonly error: DatabaseErrorLike })[] = [];
  let rest = reads.slice(0, MAX_READ);
  while (rest.length > 0 && found.length < MAX_NAMED) {
    const failed = await firstFailure(rest, identity, transactions);
    if (failed === null) break;
    const { index, raised } = failed;
    if (!isOfValue(raised)) return [];
    found.push({ column: rest[index]!.column, message: raised.message, error: raised });
    rest = rest.slice(index + 1);
  }
  const isCause = found.some(({ error: { code, message } }) => code === error.code && message === error.message);
  return isCause ? found.map(({ column, message }) => ({ column, message })) : [];
}

async function firstFailure(reads: readonly Read[], identity: Identity, transactions: Pick<Transactions, "run">) {
  let index = 0;
  const onCompleted = (completed: number) => {
    index = completed + 1;
  };
  const statements = reads.map(({ statement }) => statement);
  try {
    await transactions.run(identity, statements, { rollback: true, onCompleted });
    return null;
  } catch (raised) {
    return { index, raised: raised as DatabaseErrorLike };
  }
}
