import { randomUUID } from "node:crypto";
import { isEnumCodec, type PgCodec, TYPES } from "postgraphile/@dataplan/pg";
import {
  type GraphQLOutputType,
  getNullableType,
  isEnumType,
  isListType,
  isNonNullType,
  isScalarType,
} from "postgraphile/graphql";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { ID_CODECS } from "../../plugins/shape/IdColumnsPlugin.ts";

/** Converts the SQL of a column to SQL whose JSON is the value of the field. */
export type Json = (column: SQL) => SQL;

/**
 * A placeholder for what Postgres cannot write as GraphQL does: null in a non-null field, or a value that JavaScript formats
 * differently. A result that contains it is discarded. It is random, so that no client can send it.
 */
const MARK = `!${randomUUID()}`;
const markBytes = Buffer.from(MARK);
export const markText = sql.literal(MARK);
export const markJson = sql`${sql.literal(JSON.stringify(MARK))}::json`;

/** Whether the JSON contains the placeholder: then Grafast has to execute the operation. */
export const isMarked = (json: Buffer): boolean => json.includes(markBytes);

/** `isText`: whether the type of the SQL is text, or one that a text constant can have, such as varchar. */
type Written = { readonly isText: boolean; readonly write: Json };

const asText: Json = (column) => sql`${column}::text`;
const asItIs: Json = (column) => column;

/** TimeScalarPlugin and Postgres write these times alike; others are marked. */
const time =
  (utc: Json, zone: SQL): Json =>
  (column) =>
    sql`case
  when ${column} < '1000-01-01' or ${column} >= '10000-01-01' then ${markText}
  else to_char(${utc(column)}, case when date_trunc('milliseconds', ${column}) = ${column}
    then 'YYYY-MM-DD"T"HH24:MI:SS.MS${zone}' else 'YYYY-MM-DD"T"HH24:MI:SS.US${zone}' end) end`;

const float: Json = (column) => sql`case
  when ${column} in ('NaN', 'Infinity', '-Infinity') then to_json(${column})
  when ${column} = 0 then '0'::json
  when abs(${column}) >= 1e-4 and abs(${column}) < 1e15 then to_json(${column})
  else ${markJson} end`;

const WRITTEN = new Map<PgCodec, Readonly<Record<string, Written>>>([
  ...[TYPES.text, TYPES.varchar].map(
    (codec) => [codec as PgCodec, { String: { isText: true, write: asItIs } }] as const,
  ),
  ...[TYPES.int2, TYPES.int].map((codec) => [codec as PgCodec, { Int: { isText: false, write: asItIs } }] as const),
  ...[...ID_CODECS.values()].map((codec) => [codec, { ID: { isText: true, write: asText } }] as const),
  [TYPES.bigint, { BigInt: { isText: true, write: asText } }],
  [TYPES.numeric, { BigFloat: { isText: true, write: asText } }],
  [TYPES.uuid, { UUID: { isText: true, write: asText } }],
  [TYPES.boolean, { Boolean: { isText: false, write: asItIs } }],
  ...[TYPES.float4, TYPES.float].map(
    (codec) => [codec as PgCodec, { Float: { isText: false, write: float } }] as const,
  ),
]);

const TIMES = new Map<PgCodec, Written>([
  [TYPES.timestamptz, { isText: true, write: time((column) => sql`${column} at time zone 'utc'`, sql`"Z"`) }],
  [TYPES.timestamp, { isText: true, write: time(asItIs, sql.blank) }],
]);

/** Items of arrays that Postgres and JavaScript write alike. */
const ITEMS: ReadonlySet<PgCodec> = new Set<PgCodec>([TYPES.text, TYPES.varchar, TYPES.int2, TYPES.int, TYPES.boolean]);

/** Null for a column whose values Postgres does not write as JSON in the same way. `type` is the type of the field. */
export function jsonOfColumn(codec: PgCodec, type: GraphQLOutputType): Json | null {
  const nullable = getNullableType(type);
  const written = isListType(nullable) ? arrayOf(codec, nullable.ofType) : writtenAs(codec, nullable);
  if (!written || !isNonNullType(type)) return written?.write ?? null;
  const { isText, write } = written;
  return isText
    ? (column) => sql`coalesce(${write(column)}, ${markText})`
    : (column) => sql`coalesce(to_json(${write(column)}), ${markJson})`;
}

function writtenAs(codec: PgCodec, type: GraphQLOutputType): Written | null {
  if (isEnumCodec(codec) && isEnumType(type)) {
    const isPlain = type.getValues().every(({ name, value }) => name === value);
    return isPlain ? { isText: true, write: asText } : null;
  }
  if (!isScalarType(type)) return null;
  // The name of the scalar for times is a setting.
  return TIMES.get(codec) ?? WRITTEN.get(codec)?.[type.name] ?? null;
}

function arrayOf({ arrayOfCodec }: PgCodec, itemType: GraphQLOutputType): Written | null {
  if (!arrayOfCodec || !ITEMS.has(arrayOfCodec) || !isScalarType(getNullableType(itemType))) return null;
  const hasNulls: Json = (column) =>
    isNonNullType(itemType) ? sql` or array_position(${column}, null) is not null` : sql.blank;
  return {
    isText: false,
    write: (column) =>
      sql`case when array_ndims(${column}) > 1${hasNulls(column)} then ${markJson} else to_json(${column}) end`,
  };
}
