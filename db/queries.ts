import pg from "pg";
import type { Result, Statement } from "./transaction/transaction.ts";
import { writeArray } from "./wire/array-text.ts";

/** SQL of an application. Values are sent apart from the text, for `$1`, `$2`, … */
export type Query = { readonly text: string; readonly values?: readonly unknown[] };

/** The database with the rights of one caller: grants, policies and limits apply as on every interface. */
export type Db = {
  /** Runs one statement in a transaction, and returns its rows, with the values that pg makes of their types. */
  query<Row = Record<string, any>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Runs the statements in one transaction and one round trip, and returns the rows of each. */
  batch(queries: readonly Query[]): Promise<Record<string, any>[][]>;
};

export function dbOf(run: (statements: readonly Statement[]) => Promise<Result[]>): Db {
  const batch: Db["batch"] = async (queries) => {
    const statements = queries.map(({ text, values = [] }) => ({
      text,
      values: values.map(textOf),
      isDescribed: true,
    }));
    return (await run(statements)).map(rowsOf);
  };
  return {
    batch,
    query: async <Row>(text: string, values: readonly unknown[] = []) => (await batch([{ text, values }]))[0]! as Row[],
  };
}

/**
 * A value as text: arrays are arrays of Postgres, other objects are JSON. Null and undefined are NULL.
 *
 *   textOf(["a", null])     // {"a",null}
 *   textOf({ colour: "red" })  // {"colour":"red"}
 */
export function textOf(value: unknown): string | null {
  if (value === null || value === undefined) return null;
  if (value instanceof Date) return value.toISOString();
  if (value instanceof Uint8Array) return `\\x${Buffer.from(value).toString("hex")}`;
  if (Array.isArray(value)) return writeArray(value.map(textOf));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function rowsOf({ rows, columns = [] }: Result): Record<string, unknown>[] {
  const readers = columns.map(({ name, type }) => [name, pg.types.getTypeParser(type, "text")] as const);
  return rows.map((row) =>
    Object.fromEntries(readers.map(([name, read], i) => [name, row[i] === null ? null : read(row[i]!.toString())])),
  );
}
