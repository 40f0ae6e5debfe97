import { type FieldNode, Kind } from "postgraphile/graphql";
import type { DatabaseErrorLike } from "../../db/sqlstates.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { Statement, Transactions } from "../../db/transaction/transaction.ts";
import { isOfValue, type Read, unreadableOf } from "../../db/transaction/unreadable.ts";
import type { FieldFault } from "./errors.ts";
import { type Path, placesIn, textOf } from "./input-fields.ts";
import type { Operation } from "./operation.ts";
import { failedStatement } from "./operation-queries.ts";

type CallerDatabase = { readonly identity: Identity; readonly transactions: Pick<Transactions, "run"> };

/**
 * The values in the arguments of a field and of the fields below it that Postgres cannot read, such as `filter.due.equalTo`. They are
 * found by their text among the parameters of the statement that has failed: a text that is a value for one parameter but not for
 * another names nothing.
 */
export async function refusedArguments(
  cause: DatabaseErrorLike,
  field: FieldNode,
  operation: Operation,
  { identity, ...database }: CallerDatabase,
): Promise<readonly FieldFault[]> {
  const statement = isOfValue(cause) ? failedStatement(cause) : null;
  if (statement === null) return [];
  const refused = await unreadableOf(cause, readsOf(statement), identity, database);
  const messages = new Map(refused.map(({ column, message }) => [Number(column) - 1, message]));
  return valuesIn(field, operation).flatMap(({ path, text }) => {
    const message = messageFor(text, statement.values, messages);
    return message === null ? [] : [{ field: textOf(path), code: "VALIDATION_ERROR", message }];
  });
}

/** A parameter and its type, as PostGraphile writes them: `$1::"date"`, `$2::"public"."slug"[]`. */
const PARAMETER = /\$(\d+)::((?:"[^"]+"|\w+)(?:\.(?:"[^"]+"|\w+))?(?:\[\])*)/g;

/** Reads each parameter as its type, under its number. */
function readsOf({ text, values }: Statement): readonly Read[] {
  const types = new Map([...text.matchAll(PARAMETER)].map(([, number, type]) => [number!, type!]));
  return [...types].map(([number, type]) => {
    const text = values[Number(number) - 1]!;
    const name = type.replaceAll('"', "");
    return {
      ...{ column: number, statement: { text: `select $1::${type}`, values: [text] } },
      value: typeof text === "string" ? { type: NAMES[name] ?? name, text } : null,
    };
  });
}

/** Types that Postgres names differently in its messages. */
const NAMES: Readonly<Record<string, string>> = {
  int2: "smallint",
  int4: "integer",
  int8: "bigint",
  float4: "real",
  float8: "double precision",
  bool: "boolean",
  timestamptz: "timestamp with time zone",
  timetz: "time with time zone",
};

/** Why a text is refused: as a parameter, or as an item of a list that is a parameter, which the message quotes. Null if it is not. */
function messageFor(text: string, values: Statement["values"], refused: ReadonlyMap<number, string>): string | null {
  const same = [...values.keys()].filter((i) => values[i] === text);
  if (same.length > 0) return same.every((i) => refused.has(i)) ? refused.get(same[0]!)! : null;
  return [...refused.values()].find((message) => message.includes(`"${text}"`)) ?? null;
}

type Value = { readonly path: Path; readonly text: string };

const TEXTS: ReadonlySet<string> = new Set([Kind.STRING, Kind.INT, Kind.FLOAT]);

/** The values of the document and of its variables, as text. */
function valuesIn(field: FieldNode, { variables = {} }: Operation): readonly Value[] {
  const places = placesIn(field);
  const written = [...places.values].flatMap(([node, path]) => {
    const { kind, value } = node as { readonly kind: string; readonly value: string };
    return TEXTS.has(kind) ? [{ path, text: value }] : [];
  });
  return [...written, ...[...places.variables].flatMap(([name, path]) => textsIn(variables[name], path))];
}

function textsIn(value: unknown, path: Path): readonly Value[] {
  if (value === null || value === undefined) return [];
  if (typeof value !== "object") return [{ path, text: String(value) }];
  const keyed: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return keyed.flatMap(([key, inner]) => textsIn(inner, [...path, key]));
}
