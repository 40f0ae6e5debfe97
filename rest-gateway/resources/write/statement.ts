import type { Result, Statement } from "../../../db/transaction.ts";
import { finish, type Sql, sql, type Written } from "../../sql.ts";
import type { Key, Operation, Preconditions, ResourceRequest } from "../request.ts";
import type { Resource } from "../resource.ts";
import { tableName } from "../resource.ts";
import { writeKey, writePreconditions, writeWhere } from "./conditions.ts";
import { inputOf, writeInsert } from "./insert.ts";
import { writeList } from "./list.ts";
import { columnOf, functionName, modifiedOf, ROW, tableOf, versionOf, WRITTEN_VERSION, writeFields } from "./record.ts";

/**
 * Columns of the one row that every statement gives. `state` tells why nothing was done: missing, stale (a precondition
 * does not hold) or forbidden (a policy hides the row from changes); else done.
 */
export const RESULT = { state: 0, body: 1, version: 2, modified: 3, id: 4, total: 5 } as const;

export type Of<Kind extends Operation["kind"]> = Extract<Operation, { kind: Kind }>;
const row = sql.trusted(ROW);

/** The statements of a request, which are one transaction: most are one alone. */
export function writeStatements(request: ResourceRequest): readonly Written[] {
  return writeAll(request).map(finish);
}

function writeAll(request: ResourceRequest): readonly Sql[] {
  const { resource, operation } = request;
  switch (operation.kind) {
    case "list":
      return [writeList(request, operation)];
    case "read":
      return [writeRead(request, operation.key)];
    case "create":
      return [writeCreate(request, operation)];
    case "update":
      return [writeUpdate(request, operation)];
    case "delete":
      return [...(operation.isCascading ? [writeLock(resource, operation.key)] : []), writeDelete(request, operation)];
    case "act":
      // The row that a function gives has no version.
      return [writeAct(request, operation), writeRead(request, operation.key)];
  }
}

/** The result that answers the request. */
export function answeringResult(results: readonly Result[], { operation }: ResourceRequest): Result {
  const last = results.at(-1)!;
  if (operation.kind !== "act") return last;
  const acted = results[0]!;
  // Its function may leave a row that the caller does not see any more.
  return stateOf(acted) === "done" && last.rows.length > 0 ? last : acted;
}

/** Null where there is no row. */
export const stateOf = ({ rows }: Result): string | null => rows[0]?.[RESULT.state]?.toString() ?? null;

/** Parameters of resources are all values of the request. */
export const statementOf = ({ text, parameters }: Written, values: readonly string[]): Statement => ({
  text,
  values: parameters.map((parameter) => (parameter.kind === "value" ? values[parameter.index]! : null)),
  binary: true,
});

/** No row where there is no record. */
function writeRead({ resource, selection, style }: ResourceRequest, key: Key): Sql {
  const fields = writeFields(resource, selection, style);
  return sql`select 'done', pg_catalog.row_to_json(r), ${versionOf(resource)}, ${modifiedOf(resource)} from ${tableOf(resource)} as ${row}, lateral (select ${fields}) as r${writeWhere(writeKey(resource, key))}`;
}

function writeCreate(request: ResourceRequest, operation: Of<"create">): Sql {
  const written = sql`with written as (${writeInsert(request, operation, true)})`;
  return operation.isMany
    ? sql`${written} ${writeRecords(request)}`
    : sql`${written} ${writeOutcome(request, sql`'missing'`)}`;
}

function writeUpdate(request: ResourceRequest, { key, fields, reset, body, preconditions }: Of<"update">): Sql {
  const { resource } = request;
  const settings = [
    ...fields.map((field) => sql`${sql.identifier(field.column.name)} = ${columnOf(field, "input")}`),
    ...reset.map((field) => sql`${sql.identifier(field.column.name)} = default`),
  ];
  const same = resource.fields.find(({ write }) => write === "always")!;
  // Nothing to change is a change too: it says so in updated_at.
  if (settings.length === 0) settings.push(sql`${sql.identifier(same.column.name)} = ${columnOf(same)}`);
  const conditions = [...writeKey(resource, key), ...writePreconditions(resource, preconditions)];
  const update = sql`update ${tableOf(resource)} as ${row} set ${sql.join(settings, ", ")} from ${inputOf(resource, body, false)}${writeWhere(conditions)}`;
  const written = sql`with written as (${update} returning ${row}.*, ${versionOf(resource)} as xmin)`;
  return sql`${written} ${writeOutcome(request, writeReason(resource, key, preconditions))}`;
}

/**
 * From here on nobody can refer to the row: who tries waits, and is refused when it is gone. A statement of its own, so that
 * the next one sees all who were faster.
 */
const writeLock = (resource: Resource, key: Key): Sql =>
  sql`select from ${tableOf(resource)} as ${row}${writeWhere(writeKey(resource, key))} for update`;

function writeDelete({ resource }: ResourceRequest, { key, isCascading, preconditions }: Of<"delete">): Sql {
  const conditions = [...writeKey(resource, key), ...writePreconditions(resource, preconditions)];
  const id = columnOf(resource.key);
  const gone = sql`with written as (delete from ${tableOf(resource)} as ${row}${writeWhere(conditions)} returning ${id})`;
  const others = isCascading ? resource.description.cascade : [];
  const cascades = others.map(({ table, column }, i) => {
    const { schema, name } = tableName(table);
    return sql`, ${sql.trusted(`cascade_${i}`)} as (delete from ${sql.identifier(schema, name)} as other using written where ${sql.identifier("other", column)} = ${columnOf(resource.key, "written")})`;
  });
  const reason = writeReason(resource, key, preconditions);
  return sql`${gone}${sql.join(cascades, "")} select case when exists (select from written) then 'done' else ${reason} end`;
}

/** Why a change has changed nothing. */
function writeReason(resource: Resource, key: Key, preconditions: Preconditions): Sql {
  const found = (conditions: readonly Sql[]) =>
    sql`exists (select from ${tableOf(resource)} as ${row}${writeWhere(conditions)})`;
  const ofKey = writeKey(resource, key);
  const holding = writePreconditions(resource, preconditions);
  const stale = holding.length === 0 ? sql.empty : sql` when not ${found([...ofKey, ...holding])} then 'stale'`;
  return sql`case when not ${found(ofKey)} then 'missing'${stale} else 'forbidden' end`;
}

/** The record that was written, or why there is none. */
function writeOutcome({ resource, selection, style }: ResourceRequest, reason: Sql): Sql {
  const fields = writeFields(resource, selection, style);
  const id = columnOf(resource.key);
  return sql`select 'done', pg_catalog.row_to_json(r), ${WRITTEN_VERSION}, ${modifiedOf(resource)}, ${id}::text from written as ${row}, lateral (select ${fields}) as r union all select ${reason}, null, null, null, null where not exists (select from written)`;
}

function writeRecords({ resource, selection, style }: ResourceRequest): Sql {
  const fields = writeFields(resource, selection, style);
  return sql`select case when count(*) = 0 then 'missing' else 'done' end, pg_catalog.json_agg(r), null::text, null::text, null::text, count(*)::text from (select ${fields} from written as ${row}) as r`;
}

/** The function raises what is wrong; it is not called for a row that is not the one that is meant. */
function writeAct({ resource, selection, style }: ResourceRequest, { key, action, preconditions }: Of<"act">): Sql {
  const name = functionName(resource.description.actions[action]!.function);
  const fields = writeFields(resource, selection, style);
  const conditions = [...writeKey(resource, key), ...writePreconditions(resource, preconditions)];
  const meant = sql`with meant as (select ${columnOf(resource.key)} as id from ${tableOf(resource)} as ${row}${writeWhere(conditions)})`;
  const reason = writeReason(resource, key, preconditions);
  return sql`${meant} select 'done', pg_catalog.row_to_json(r) from meant, lateral ${name}(meant.id) as ${row}, lateral (select ${fields}) as r union all select ${reason}, null where not exists (select from meant)`;
}
