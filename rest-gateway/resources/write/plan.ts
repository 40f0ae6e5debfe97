import type { Column } from "../../../db/catalog/catalog.ts";
import { type Sql, sql } from "../../sql.ts";
import type { Command } from "../../table/plan.ts";
import { writeChange, writeCommand } from "../../table/write/changes.ts";
import { Aliases, fromTable } from "../../table/write/from.ts";
import { writeRead } from "../../table/write/query.ts";
import { writeList, writeWhere } from "../../table/write/rows.ts";
import type { Scope } from "../../table/write/values.ts";
import { conditionsOf, type DeletePlan, type RecordPlan, type ResourcePlan, type TargetPlan } from "../plan.ts";

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
      return [writeAct(plan), writeFound(plan.record)];
  }
}

/** Returns no row if there is no such record. */
function writeFound(record: RecordPlan): Sql {
  const aliases = new Aliases();
  const from = fromTable(record.table, aliases);
  return sql`${writeRecord(record, from.item, from.scope, aliases)}${writeWhere(record.rows, from, aliases)}`;
}

/** The record after the change, or the reason why nothing has changed. */
function writeChanged(command: Command, record: RecordPlan, reason: Sql): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const returned = sql`${scope.alias}.*, ${record.version(scope)} as xmin`;
  const change = sql.clauses(writeCommand(command, scope, aliases), sql`returning ${returned}`);
  return sql.clauses(
    sql`with changed as ${sql.subquery(change)}`,
    writeRecord(record, sql`changed as ${scope.alias}`, scope, aliases),
    sql`union all`,
    writeNoRecord(reason, sql`changed`),
  );
}

/**
 * Locks the row: a transaction that inserts a reference to it waits, and fails once the row is deleted. A separate
 * statement, so that the next one sees all references that were inserted before.
 */
function writeLock({ table, rows }: RecordPlan): Sql {
  const aliases = new Aliases();
  const from = fromTable(table, aliases);
  return sql.clauses(sql`select`, sql`from ${from.item}${writeWhere(rows, from, aliases)}`, sql`for update`);
}

function writeDelete({ command, record, cascade }: DeletePlan): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const { key } = record;
  const cascades = cascade.map(({ table, column }, i) => {
    const deletion = sql.clauses(
      sql`delete from ${sql.identifier(table.schema, table.name)} as other`,
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

/** Calls the function for the row if the preconditions hold. The function raises its own errors. */
function writeAct({ function: called, record }: Extract<ResourcePlan, { kind: "act" }>): Sql {
  const aliases = new Aliases();
  const from = fromTable(record.table, aliases);
  const { scope } = from;
  const meant = sql.clauses(
    sql`select ${columnIn(record.key, scope)} as key`,
    sql`from ${from.item}${writeWhere({ conditions: conditionsOf(record), embeds: [] }, from, aliases)}`,
  );
  const call = sql`lateral ${sql.identifier(called.schema, called.name)}(meant.key) as ${scope.alias}`;
  return sql.clauses(
    sql`with meant as ${sql.subquery(meant)}`,
    writeRecord({ ...record, ...WITHOUT_VERSION }, sql`meant, ${call}`, scope, aliases),
    sql`union all`,
    writeNoRecord(writeReason(record), sql`meant`),
  );
}

const NULL = sql`null::text`;

/** The row that a function returns has no version. */
const WITHOUT_VERSION: Pick<RecordPlan, "version" | "modified"> = { version: () => NULL, modified: () => NULL };

/** The result for one record from `from`, which has at most one row. */
function writeRecord(record: RecordPlan, from: Sql, scope: Scope, aliases: Aliases): Sql {
  const { rows, key, version, modified } = record;
  const about = [sql`${columnIn(key, scope)}::text`, version(scope), modified(scope)];
  const shown = sql.subquery(sql`select ${writeList(rows, scope, aliases)}`);
  const columns = [sql`pg_catalog.row_to_json(r.*)`, sql`'1'`, NULL, ...about];
  return writeResult(columns, sql`from ${from}, lateral ${shown} as r`);
}

/** The result if the query `from` has no row. */
function writeNoRecord(reason: Sql, from: Sql): Sql {
  const rows = sql.subquery(sql.clauses(sql`select`, sql`from ${from}`));
  return writeResult([sql`null::json`, sql`'0'`, reason, NULL, NULL, NULL], sql`where not exists ${rows}`);
}

/** The columns in the order of RESULT. A record has no total, and no headers or status from functions. */
const writeResult = ([body, rows, ...about]: readonly Sql[], from: Sql): Sql =>
  sql`select${sql.lines([body!, rows!, NULL, NULL, NULL, ...about])}${from}`;

const columnIn = ({ name }: Column, { alias }: Scope): Sql => sql`${alias}.${sql.identifier(name)}`;

/** Why nothing has changed. */
function writeReason(record: RecordPlan): Sql {
  const { table, rows, preconditions } = record;
  const stale = sql`when not ${writeExists({ table, conditions: conditionsOf(record) })} then 'stale'`;
  return sql.clauses(
    sql`case when not ${writeExists({ table, conditions: rows.conditions })} then 'missing'`,
    ...(preconditions.length === 0 ? [] : [stale]),
    sql`else 'forbidden' end`,
  );
}

/** Whether the caller may see the row. */
export function writeExists({ table, conditions }: TargetPlan): Sql {
  const aliases = new Aliases();
  const from = fromTable(table, aliases);
  const rows = sql`from ${from.item}${writeWhere({ conditions, embeds: [] }, from, aliases)}`;
  return sql`exists ${sql.subquery(sql.clauses(sql`select`, rows))}`;
}
