import { finish, type Sql, sql, type Written } from "../../sql.ts";
import type { Plan } from "../plan/plan.ts";
import { writeCall } from "./call.ts";
import { writeChange } from "./changes.ts";
import { writeEstimate, writeRead } from "./read.ts";

/** The SQL of a plan: one statement that gives the finished body, in the columns of `RESULT`. */
export type Query = {
  readonly main: Written;
  /** A second one, where a planned number of rows is asked for. */
  readonly estimate: Written | null;
};

/** `postgis` is the schema of PostGIS, or null. */
export function writeQuery(plan: Plan, postgis: string | null): Query {
  const estimate = plan.kind === "read" ? writeEstimate(plan) : null;
  return { main: finish(explained(plan, writePlan(plan, postgis))), estimate: estimate && finish(estimate) };
}

function writePlan(plan: Plan, postgis: string | null): Sql {
  switch (plan.kind) {
    case "read":
      return writeRead(plan, postgis);
    case "call":
      return writeCall(plan, postgis);
    default:
      return writeChange(plan, postgis);
  }
}

function explained({ format: { explain } }: Plan, query: Sql): Sql {
  if (!explain) return query;
  const options = [`format ${explain.isJson ? "json" : "text"}`, ...explain.options];
  return sql`explain (${sql.trusted(options.join(", "))}) ${query}`;
}
