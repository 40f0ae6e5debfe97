import { type Sql, sql } from "../../sql.ts";
import type { Command } from "../../table/plan.ts";
import { writeChange, writeCommand } from "../../table/write/changes.ts";
import { Aliases, tableAs } from "../../table/write/from.ts";
import { writeRead } from "../../table/write/query.ts";
import { writeWhere } from "../../table/write/rows.ts";
import type { DeletePlan, RecordPlan, ResourcePlan } from "../plan.ts";
import {
  columnIn,
  metadataOf,
  NO_METADATA,
  writeExists,
  writeNoRecord,
  writeReason,
  writeRecord,
  writeResult,
  writeTarget,
} from "./record.ts";

/** The statements of a plan, which are one transaction: most plans have one. */
export function writePlan(plan: ResourcePlan): readonly Sql[] {
  switch (plan.kind) {
    case "list": {
      const reason = plan.parent && sql`case when not ${writeExists(plan.parent)} then 'missing' end`;
      return [writeRead(plan.read, null, reason ? [reason] : [])];
    }
    case "read":
      return [writeFound(plan.record)];
    case "create":
      return [writeChanged(plan.command, plan.record, sql`'missing'`)];
    case "create many":
      return [writeChange(plan.insert, null)];
    case "update":
      return [writeChanged(plan.command, plan.record, writeReason(plan.record))];
    case "delete":
      return [...(plan.cascade.length > 0 ? [writeLock(plan.record)] : []), writeDelete(plan)];
    case "act":
      // The row that a function returns has no version.
      return [writeAct(plan), writeFound(plan.record)];
  }
}

/** No row where there is no record. */
function writeFound(record: RecordPlan): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const from = tableAs(record.table, scope);
  const where = writeWhere(record.rows, { item: from, scope, join: null }, aliases);
  return sql`${writeRecord(record, from, scope, aliases, metadataOf(record, scope))}${where}`;
}

/** The record as it was written, or the reason why there is none. */
function writeChanged(command: Command, record: RecordPlan, reason: Sql): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const written = sql`${scope.alias}.*, ${record.version(scope)} as xmin`;
  const change = sql.clauses(writeCommand(command, scope, aliases), sql`returning ${written}`);
  return sql.clauses(
    sql`with changed as ${sql.subquery(change)}`,
    writeRecord(record, sql`changed as ${scope.alias}`, scope, aliases, metadataOf(record, scope)),
    sql`union all`,
    writeNoRecord(reason, sql`changed`),
  );
}

/**
 * From here on no row can refer to the record: who tries waits, and is refused once it is gone. A statement of its own, so
 * that the next one sees all rows that were written before.
 */
function writeLock({ table, rows }: RecordPlan): Sql {
  const aliases = new Aliases();
  const from = { item: sql.empty, scope: aliases.scope(), join: null };
  const found = sql`from ${tableAs(table, from.scope)}${writeWhere(rows, from, aliases)}`;
  return sql.clauses(sql`select`, found, sql`for update`);
}

function writeDelete({ command, record, cascade }: DeletePlan): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const { key } = record;
  const cascades = cascade.map(({ table, column }, i) => {
    const other = sql.identifier(table.schema, table.name);
    const deletion = sql.clauses(
      sql`delete from ${other} as other`,
      sql`using changed`,
      sql`where ${sql.identifier("other", column)} = ${sql.identifier("changed", key.name)}`,
    );
    return sql`, ${sql.trusted(`cascade_${i}`)} as ${sql.subquery(deletion)}`;
  });
  const change = sql.clauses(writeCommand(command, scope, aliases), sql`returning ${columnIn(key, scope)}`);
  const reason = sql`case when count(*) = 0 then ${writeReason(record)} end`;
  return sql.clauses(
    sql`with changed as ${sql.subquery(change)}${sql.join(cascades, "")}`,
    writeResult([sql`null::json`, sql`count(*)::text`, reason], sql`from changed`),
  );
}

/** The function raises what is wrong; it is not called for a row whose preconditions do not hold. */
function writeAct({ function: called, record }: Extract<ResourcePlan, { kind: "act" }>): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const call = sql`lateral ${sql.identifier(called.schema, called.name)}(meant.key) as ${scope.alias}`;
  const key = sql`${columnIn(record.key, scope)} as key`;
  const meant = sql.clauses(sql`select ${key}`, sql`from ${writeTarget(record, scope, aliases)}`);
  return sql.clauses(
    sql`with meant as ${sql.subquery(meant)}`,
    writeRecord(record, sql`meant, ${call}`, scope, aliases, NO_METADATA),
    sql`union all`,
    writeNoRecord(writeReason(record), sql`meant`),
  );
}
