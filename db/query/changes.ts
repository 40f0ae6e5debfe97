import type { Column, Table } from "../catalog/catalog.ts";
import { quoteIdentifier, type Sql, sql } from "../sql.ts";
import { isHstore, writeHstore } from "./hstore.ts";
import {
  type BodyColumns,
  type ChangePlan,
  type Command,
  type Conflict,
  type InsertCommand,
  type KeyValue,
  type RowsPlan,
  type Scope,
  systemColumnsOf,
  type UpdateCommand,
} from "./plan.ts";
import { UPDATED_SETTING, writeBody, writeGuardedCount, writeResult } from "./result.ts";
import { Aliases, tableAs, writeConditions, writeRows } from "./rows.ts";

/** `with changed as (insert … returning …) select …`: one statement writes and returns the result. */
export function writeChange(plan: ChangePlan, postgis: string | null): Sql {
  const aliases = new Aliases();
  const scope = aliases.scope();
  const returned = writeReturned(plan, scope);
  const change = changesNothing(plan)
    ? sql`select ${returned}${sql.line}from ${tableAs(plan.table, scope)}${sql.line}where false`
    : sql`${writeCommand(plan, scope, aliases)}${sql.line}returning ${returned}`;
  const { representation, table } = plan;
  const shown: Scope = {
    alias: scope.alias,
    row: sql`row(${writeWhole(plan, scope)})::${sql.identifier(table.schema, table.name)}`,
  };
  const from = { item: sql`changed as ${scope.alias}`, scope: shown, join: null };
  const rows = representation
    ? writeRows(representation, from, aliases)
    : sql`select ${scope.alias}.*${sql.line}from ${from.item}`;
  const key = plan.kind === "insert" ? plan.locationKey : [];
  const affected = showsOtherRows(representation) ? sql`(select count(*) from changed)` : null;
  const result = writeResult(plan, {
    body: representation ? writeBody(plan.format, representation, postgis) : sql`null::json`,
    rows: writeGuardedCount(plan, affected),
    total: affected && sql`${affected}::text`,
    ...(key.length > 0 && { location: writeKey(key) }),
    countsUpdates: plan.kind === "insert" && plan.conflict?.action === "update",
    from: sql`from ${sql.subquery(rows)} as r`,
  });
  return sql`with changed as ${sql.subquery(change)}${sql.line}${result}`;
}

/** An insert that returns nothing: only its success matters. */
export function writeTrial(command: InsertCommand): Sql {
  const aliases = new Aliases();
  const change = sql.clauses(writeCommand(command, aliases.scope(), aliases), sql`returning 1 as one`);
  return sql.clauses(sql`with changed as ${sql.subquery(change)}`, sql`select count(*)`, sql`from changed`);
}

/** Whether the number of rows in the body may differ from the number of changed rows. */
const showsOtherRows = (rows: RowsPlan | null) =>
  rows !== null && (rows.isGrouped || rows.embeds.some(({ isInner }) => isInner));

/** `PATCH` with an empty object. */
const changesNothing = (plan: ChangePlan) =>
  plan.kind === "update" && plan.body.columns.length + plan.assignments.length === 0;

/** `insert …`, `update …` or `delete …`, without its returning. */
export function writeCommand(plan: Command, scope: Scope, aliases: Aliases): Sql {
  if (plan.kind === "insert") return writeInsert(plan, scope);
  const target = tableAs(plan.table, scope);
  const conditions = writeConditions(plan.conditions, scope, aliases);
  const where = conditions ? sql`${sql.line}where ${conditions}` : sql.empty;
  if (plan.kind === "delete") return sql`delete from ${target}${where}`;
  return sql`update ${target}${sql.line}set ${writeAssignments(plan, scope)}${where}`;
}

/** Takes the values from the first object in the body. */
function writeAssignments({ body, table, assignments }: UpdateCommand, scope: Scope): Sql {
  const others = assignments.map(({ column, value }) => sql`${sql.identifier(column.name)} = ${value(scope)}`);
  if (body.columns.length === 0) return sql.join(others, ", ");
  const names = body.columns.map(({ name }) => sql.identifier(name));
  const values = body.columns.map((column, i) => sql`${writeBodyValue(column, body, table)} as ${names[i]!}`);
  const first = body.isArray ? sql`${sql.line}limit 1` : sql.empty;
  const source = sql`select ${sql.join(values, ", ")}${sql.line}from ${writeBodyRows(body)}${first}`;
  const own = names.map((name) => sql`${name} = b.${name}`);
  return sql`${sql.join([...own, ...others], ", ")}${sql.line}from ${sql.subquery(source)} as b`;
}

function writeInsert({ table, body, conflict, key, conditions }: InsertCommand, scope: Scope): Sql {
  const target = tableAs(table, scope);
  const { columns } = body;
  const onConflict = writeConflict(conflict, columns);
  if (columns.length === 0) {
    const rows = body.isArray ? sql`select${sql.line}from json_array_elements(${BODY}::json)` : sql`default values`;
    return sql`insert into ${target}${sql.line}${rows}${onConflict}`;
  }
  const names = sql.join(
    columns.map(({ name }) => sql.identifier(name)),
    ", ",
  );
  const values = sql.join(
    columns.map((column) => writeBodyValue(column, body, table)),
    ", ",
  );
  // PUT: if the body's key is not the URL's key, nothing is inserted.
  const same = (key ?? []).map((each) => sql`${writeBodyValue(each.column, body, table)} = ${writeKeyValue(each)}`);
  const all = [...same, ...conditions];
  const where = all.length > 0 ? sql`${sql.line}where ${sql.join(all, " and ")}` : sql.empty;
  const rows = sql`select ${values}${sql.line}from ${writeBodyRows(body)}${where}`;
  return sql`insert into ${target} (${names})${sql.line}${rows}${onConflict}`;
}

function writeKeyValue({ column, value }: KeyValue): Sql {
  const text = sql.parameter({ kind: "value", index: value });
  return column.casts?.fromText ? sql`${sql.trusted(column.casts.fromText)}(${text}::text)` : text;
}

function writeConflict(conflict: Conflict | null, columns: readonly Column[]): Sql {
  if (!conflict) return sql.empty;
  const target = sql`(${sql.join(
    conflict.columns.map((name) => sql.identifier(name)),
    ", ",
  )})`;
  if (conflict.action === "nothing" || columns.length === 0) return sql`${sql.line}on conflict ${target} do nothing`;
  const assignments = columns.map(({ name }) => sql`${sql.identifier(name)} = excluded.${sql.identifier(name)}`);
  return sql`${sql.line}on conflict ${target} do update${sql.line}set ${sql.join(assignments, ", ")}${sql.line}where ${COUNT_UPDATE}`;
}

/** Always true. Counts the updated rows as a side effect. */
const COUNT_UPDATE = sql.trusted(
  `set_config('${UPDATED_SETTING}', (coalesce(nullif(current_setting('${UPDATED_SETTING}', true), ''), '0')::int + 1)::text, true) <> ''`,
);

/** The values of the key as text for filters, for the header Location. Null unless there is exactly one row. */
function writeKey(key: readonly Column[]): Sql {
  const texts = key.map(({ name, casts }) => {
    const value = sql`r.${sql.identifier(name)}`;
    return casts?.toJson ? sql`${sql.trusted(casts.toJson)}(${value}) #>> '{}'` : sql`${value}::text`;
  });
  return sql`case when count(*) = 1 then pg_catalog.json_agg(json_build_array(${sql.join(texts, ", ")})) -> 0 end`;
}

/** Only the columns that the response needs, because the caller needs the privilege to read each of them. */
function writeReturned(plan: ChangePlan, { alias }: Scope): Sql {
  const key = plan.kind === "insert" ? plan.locationKey.map(({ name }) => name) : [];
  const needed = plan.representation ? columnsOf(plan.representation) : [];
  if (needed === "all") return writeAllColumns(plan.representation!, alias);
  const names = [...needed, ...key];
  return names.length === 0 ? sql`1 as one` : writeColumns(names, alias);
}

/** The columns of the table, if the rows may have system columns too. */
function writeWhole({ table, representation }: ChangePlan, { alias }: Scope): Sql {
  const hasMore = representation !== null && systemColumnsOf(representation).length > 0;
  return hasMore ? writeColumns([...table.columns.keys()], alias) : sql`${alias}.*`;
}

const writeAllColumns = (rows: RowsPlan, alias: Sql): Sql =>
  sql.join([sql`${alias}.*`, ...systemColumnsOf(rows).map((name) => sql`${alias}.${sql.identifier(name)}`)], ", ");

function writeColumns(names: readonly string[], alias: Sql): Sql {
  const columns = [...new Set(names)].map((name) => sql`${alias}.${sql.identifier(name)}`);
  return sql.join(columns, ", ");
}

/** The columns that the rows depend on, as a select list. */
export function writeSources(rows: RowsPlan, { alias }: Scope): Sql {
  const names = columnsOf(rows);
  return names === "all" ? writeAllColumns(rows, alias) : writeColumns(names, alias);
}

/** The columns that the rows depend on: selected columns, join columns of relations, order columns. */
function columnsOf(rows: RowsPlan): readonly string[] | "all" {
  const { outputs, embeds, order } = rows;
  const fields = [
    ...outputs.flatMap((output) => (output.kind === "field" && output.value.field ? [output.value.field] : [])),
    ...order.flatMap(({ key }) => (key.kind === "field" ? [key.field] : [])),
  ];
  const needsRow =
    outputs.some(({ kind }) => kind === "all") ||
    fields.some(({ origin }) => origin.kind === "computed") ||
    embeds.some(({ relationship }) => relationship.kind === "computed");
  if (needsRow) return "all";
  const own = fields.flatMap(({ origin }) => (origin.kind === "column" ? [origin.column.name] : []));
  const read = outputs.flatMap((output) => (output.kind === "expression" ? output.columns : []));
  return [...own, ...read, ...embeds.flatMap(({ relationship }) => keysOf(relationship))];
}

function keysOf(relationship: RowsPlan["embeds"][number]["relationship"]): string[] {
  if (relationship.kind === "computed") return [];
  const pairs = relationship.kind === "many-to-many" ? relationship.source.columns : relationship.columns;
  return pairs.map(([column]) => column);
}

/** The body of a request, as JSON. */
const BODY = sql.parameter({ kind: "body" });

/**
 * A FROM item: the objects of the body as rows `b`, with the columns of the table. If missing keys stand for defaults,
 * `e.o` is the object of each row.
 */
export function writeBodyRows({ columns, isArray, defaultsFrom }: BodyColumns): Sql {
  const definitions = columns.map(
    (column) => sql`${sql.identifier(column.name)} ${writeBodyType(column, defaultsFrom !== null)}`,
  );
  const rows = sql`b(${sql.join(definitions, ", ")})`;
  if (defaultsFrom === null)
    return sql`${isArray ? sql`json_to_recordset` : sql`json_to_record`}(${BODY}::json) as ${rows}`;
  const type = sql.trusted(defaultsFrom);
  const objects = isArray ? sql`${type}_array_elements(${BODY}::${type})` : sql`(select ${BODY}::${type})`;
  return sql`${objects} as e(o), lateral ${type}_to_record(e.o) as ${rows}`;
}

/**
 * A missing key is null until its default takes its place, and a domain may not allow null. So a value that has a default becomes one of
 * the domain when it is assigned to the column.
 */
function writeBodyType({ type, casts, shape, hasDefault }: Column, fillsDefaults: boolean): Sql {
  if (casts?.fromJson || isHstore(shape)) return sql`json`;
  if (!fillsDefaults || !hasDefault || shape.domain === null) return sql.trusted(type);
  return sql`${sql.identifier(shape.schema, shape.name)}${shape.isArray ? sql`[]` : sql.empty}`;
}

/** The value of a column, from a row of the body. */
function writeBodyValue(column: Column, { defaultsFrom }: BodyColumns, table: Table): Sql {
  const { name, type, casts } = column;
  const value = sql`b.${sql.identifier(name)}`;
  const given = casts?.fromJson
    ? sql`${sql.trusted(casts.fromJson)}(${value})`
    : isHstore(column.shape)
      ? writeHstore(value, column.shape)
      : value;
  const absent = defaultsFrom && writeDefault(column, table);
  if (!absent) return given;
  const key = sql.constant(name);
  const isPresent = defaultsFrom === "json" ? sql`e.o -> ${key}::text is not null` : sql`e.o ? ${key}`;
  return sql`case when ${isPresent} then ${given} else cast(${absent} as ${sql.trusted(type)}) end`;
}

/** Null for columns without a default, and for columns that cannot be set: Postgres raises the error. */
function writeDefault({ name, generated, defaultExpression }: Column, table: Table): Sql | null {
  if (defaultExpression !== null) return sql.trusted(defaultExpression);
  if (generated !== "by default") return null;
  const qualified = [table.schema, table.name].map(quoteIdentifier).join(".");
  return sql`nextval(pg_get_serial_sequence(${sql.constant(qualified)}::text, ${sql.constant(name)}::text))`;
}
