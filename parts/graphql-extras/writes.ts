import { type PgClientQuery, PgCondition, type PgResource, sqlValueWithCodec } from "postgraphile/@dataplan/pg";
import { SafeError } from "postgraphile/grafast";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { quoteName } from "../../db/catalog/catalog.ts";
import { guardOf } from "../../plugins/shape/row-guards.ts";

type Table = PgResource<any, any, any, any, any>;
/** Applies a filter to the conditions of a query. */
export type ApplyFilter = (parent: { readonly alias: SQL; where(condition: SQL): void }) => void;

const refuse = (message: string) => new SafeError(message, { code: "VALIDATION_ERROR" });

const valueAs = ({ codec }: Table, [attribute, value]: readonly [string, unknown]): SQL =>
  sqlValueWithCodec(value, codec.attributes[attribute].codec);

const identifiers = (columns: readonly (readonly [string, unknown])[]): SQL =>
  sql.join(
    columns.map(([attribute]) => sql.identifier(attribute)),
    ", ",
  );

/**
 * The written row as text of its composite type, with the columns that the caller may select. Columns that were added since the schema was
 * built are null: who may select those is not known.
 */
function returning(table: Table, alias: SQL): SQL {
  const columns = Object.entries<any>(table.codec.attributes).map(([attribute, { extensions }]) =>
    extensions?.canSelect === false ? sql`null` : sql`${alias}.${sql.identifier(attribute)}`,
  );
  const { schemaName, name } = table.extensions!.pg!;
  const relation = sql`${sql.value(quoteName({ schema: schemaName!, name }))}::regclass`;
  const count = sql`(select count(*)::int from pg_attribute where attrelid = ${relation} and attnum > 0 and not attisdropped)`;
  const added = sql`repeat(',', ${count} - ${sql.literal(columns.length)})`;
  return sql`(${guardOf(table.codec)} || left(row(${sql.join(columns, ", ")})::text, -1) || ${added} || ')')`;
}

const compile = (statement: SQL): PgClientQuery => ({ ...sql.compile(statement), arrayMode: true }) as PgClientQuery;
/** Functions have no rows to write, so this is a table or view. */
const fromOf = (table: Table) => table.from as SQL;
const aliasOf = (table: Table) => sql.identifier(Symbol(table.name));

export function writeInsert(table: Table, columns: readonly [string, unknown][]): PgClientQuery {
  const row = aliasOf(table);
  return compile(
    sql`insert into ${fromOf(table)} as ${row} ${insertedValues(table, columns)} returning ${returning(table, row)}`,
  );
}

const insertedValues = (table: Table, columns: readonly [string, unknown][]): SQL =>
  columns.length === 0
    ? sql`default values`
    : sql`(${identifiers(columns)}) values (${sql.join(
        columns.map((column) => valueAs(table, column)),
        ", ",
      )})`;

/**
 * Inserts a row, or updates the row with the same key. If there is nothing to update, a second statement reads that row.
 * `updatable` are the columns that the caller may update.
 */
export function writeUpsert(
  table: Table,
  columns: readonly [string, unknown][],
  key: readonly string[],
  updatable: ReadonlySet<string>,
): PgClientQuery[] {
  const row = aliasOf(table);
  const changes = columns.filter(([attribute]) => updatable.has(attribute) && !key.includes(attribute));
  const target = sql.join(
    key.map((attribute) => sql.identifier(attribute)),
    ", ",
  );
  const set = changes.map(([attribute]) => sql`${sql.identifier(attribute)} = excluded.${sql.identifier(attribute)}`);
  const action = set.length > 0 ? sql`update set ${sql.join(set, ", ")}` : sql`nothing`;
  const insert = compile(
    sql`insert into ${fromOf(table)} as ${row} ${insertedValues(table, columns)} on conflict (${target}) do ${action} returning ${returning(table, row)}`,
  );
  if (set.length > 0) return [insert];
  const keys = columns.filter(([attribute]) => key.includes(attribute));
  const isKey = keys.map((column) => sql`${row}.${sql.identifier(column[0])} = ${valueAs(table, column)}`);
  return [
    insert,
    compile(sql`select ${returning(table, row)} from ${fromOf(table)} as ${row} where ${sql.join(isKey, " and ")}`),
  ];
}

/** What rows an update or delete changes: those of the filter, if they are not more than `limit`. */
export type Selection = { readonly filter: ApplyFilter; readonly limit: number };

/** Two statements: the number of rows that match, up to one more than the limit, and the update. */
export function writeUpdate(
  table: Table,
  columns: readonly [string, unknown][],
  selection: Selection,
): PgClientQuery[] {
  if (columns.length === 0) throw refuse("input must have at least one field");
  const row = aliasOf(table);
  const set = columns.map((column) => sql`${sql.identifier(column[0])} = ${valueAs(table, column)}`);
  const { count, where } = selected(table, row, selection);
  return [
    compile(sql`select ${count}`),
    compile(
      sql`update ${fromOf(table)} as ${row} set ${sql.join(set, ", ")} where ${where} returning ${returning(table, row)}`,
    ),
  ];
}

/** Two statements, as for an update. */
export function writeDelete(table: Table, selection: Selection): PgClientQuery[] {
  const row = aliasOf(table);
  const { count, where } = selected(table, row, selection);
  return [
    compile(sql`select ${count}`),
    compile(sql`delete from ${fromOf(table)} as ${row} where ${where} returning ${returning(table, row)}`),
  ];
}

function selected(table: Table, row: SQL, { filter, limit }: Selection): { readonly count: SQL; readonly where: SQL } {
  const conditions = conditionsOf(filter, row);
  const other = aliasOf(table);
  const others = conditionsOf(filter, other);
  const count = sql`(select count(*) from (select from ${fromOf(table)} as ${other} where ${sql.join(others, " and ")} limit ${sql.literal(limit + 1)}) as matches)`;
  // The statement itself checks the limit, so that rows that match meanwhile cannot exceed it.
  return { count, where: sql`${sql.join(conditions, " and ")} and ${count} <= ${sql.literal(limit)}` };
}

function conditionsOf(filter: ApplyFilter, alias: SQL): SQL[] {
  const conditions: SQL[] = [];
  filter({ alias, where: (condition) => conditions.push(sql`(${condition})`) });
  if (conditions.length === 0) throw refuse("filter must have at least one condition");
  return conditions;
}

/** What `applyInput` needs to collect the conditions of a filter. */
export const conditionTarget = (parent: any) => new PgCondition(parent);

/** `(1,a)`, `(2,b)` → the array of these rows, as Postgres reads it: `{"(1,a)","(2,b)"}`. */
export const arrayOfRows = (rows: readonly string[]): string =>
  `{${rows.map((row) => `"${row.replace(/["\\]/g, "\\$&")}"`).join(",")}}`;
