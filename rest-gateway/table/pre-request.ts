import type { Statement } from "../../db/transaction.ts";
import { finish, sql } from "../sql.ts";

/** A function that is called before each request's statement. */
export type PreRequest = { readonly schema: string | null; readonly name: string };

export function callOf({ schema, name }: PreRequest): Statement {
  const call = schema === null ? sql.identifier(name) : sql.identifier(schema, name);
  return { text: finish(sql`select ${call}()`).text, values: [] };
}
