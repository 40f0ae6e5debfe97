import type { DatabaseErrorLike } from "./sqlstates.ts";

/** In the text of Postgres in any language: a table and the constraint, or two tables and the constraint. */
const QUOTES = /["«»„“”]/g;

/**
 * What an error says about a foreign key: the row refers to one that does not exist (`missing`), or other rows refer to it
 * (`used`). Both have the same SQLSTATE, table and constraint; the message that other rows refer names both tables:
 *
 *   insert or update on table "tasks" violates foreign key constraint "tasks_project_id_fkey"
 *   update or delete on table "projects" violates foreign key constraint "tasks_project_id_fkey" on table "tasks"
 *
 * Null for other errors, such as those that a function raises. Source: PostgreSQL, ri_triggers.c, ri_ReportViolation().
 */
export function referenceFault(error: DatabaseErrorLike): "missing" | "used" | null {
  const { code, message, routine, constraint, table } = error;
  if (routine === "exec_stmt_raise" || constraint === undefined || table === undefined) return null;
  if (code === "23001") return "used";
  if (code !== "23503") return null;
  const others = message.replaceAll(constraint, "").replaceAll(table, "");
  return (others.match(QUOTES)?.length ?? 0) > 4 ? "used" : "missing";
}
