import { type Sql, sql } from "../../sql.ts";
import type { BodyColumns, InsertCommand } from "../../table/plan.ts";
import { writeBodyRows, writeCommand } from "../../table/write/changes.ts";
import { Aliases } from "../../table/write/from.ts";

// Statements that look for the reason of a refusal.

/** An insert that returns nothing: only its success matters. */
export function writeTrial(command: InsertCommand): Sql {
  const aliases = new Aliases();
  const change = sql.clauses(writeCommand(command, aliases.scope(), aliases), sql`returning 1 as one`);
  return sql.clauses(sql`with changed as ${sql.subquery(change)}`, sql`select`, sql`from changed`);
}

/**
 * The indexes of the checks that each record of the body violates. The expressions come from the catalog; bare names in
 * them are columns of the record.
 */
export function writeViolated(rules: readonly { readonly check: string }[], body: BodyColumns): Sql {
  const rows = rules.map(({ check }, i) => sql`(${sql.integer(i)}, (${sql.trusted(check)}))`);
  const broken = sql.clauses(
    sql`select coalesce(pg_catalog.json_agg(rule.place order by rule.place), '[]'::json) as places`,
    sql`from (values ${sql.join(rows, ", ")}) as rule (place, holds)`,
    sql`where not rule.holds`,
  );
  return sql.clauses(
    sql`select pg_catalog.json_agg(broken.places)`,
    sql`from ${writeBodyRows(body)}, lateral ${sql.subquery(broken)} as broken`,
  );
}
