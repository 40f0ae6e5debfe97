import { type Sql, sql } from "../../sql.ts";
import type { InsertCommand } from "../plan.ts";
import { writeCommand } from "./changes.ts";
import { Aliases } from "./from.ts";

/** An insert that returns nothing: only its success matters. */
export function writeTrial(command: InsertCommand): Sql {
  const aliases = new Aliases();
  const change = sql.clauses(writeCommand(command, aliases.scope(), aliases), sql`returning 1 as one`);
  return sql.clauses(sql`with changed as ${sql.subquery(change)}`, sql`select`, sql`from changed`);
}
