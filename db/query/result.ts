import type { MediaHandler } from "../catalog/catalog.ts";
import { type Sql, sql } from "../sql.ts";
import { type Format, isPut, type Plan, type RowsPlan } from "./plan.ts";
import { namesOf } from "./rows.ts";

/**
 * The columns of the row that the main statement returns, in order. All are json, text or bytea: their binary format is the
 * content itself.
 */
export const RESULT = {
  ...{ body: 0, rows: 1, total: 2, headers: 3, status: 4 },
  /** Of a change. */
  ...{ location: 5, updated: 6 },
  /** Of a read, or of a call of a function that is not volatile: pg_current_snapshot(). */
  snapshot: 5,
} as const;

/** The session setting that counts the rows that an upsert updated. */
export const UPDATED_SETTING = "content_service.updated";

/**
 * Prefixes of a row count or size that the request does not allow. The statement casts the text to a number, which raises
 * 22P02 and rolls it back.
 */
export const REFUSED = {
  unmatched: "content_service.unmatched=",
  shown: "content_service.shown=",
  affected: "content_service.affected=",
  bytes: "content_service.bytes=",
} as const;

const SHOWN = sql`count(*)`;

export type ResultParts = {
  readonly body: Sql;
  /** Rows in the body. */
  readonly rows: Sql;
  /** The total number of rows, or of changed rows; null when it is not requested, or equal to `rows`. */
  readonly total: Sql | null;
  /** The values of the key as a JSON array of text, for the header Location. */
  readonly location?: Sql;
  readonly countsUpdates?: boolean;
  /** Additional columns. */
  readonly more?: readonly Sql[];
  /** The FROM clause. */
  readonly from: Sql;
};

/** What a statement sees of other transactions. */
export const SNAPSHOT = sql`pg_catalog.pg_current_snapshot()::text`;

/** The outer select of every statement. */
export function writeResult({ maxBytes }: Pick<Plan, "maxBytes">, parts: ResultParts): Sql {
  const { body, rows, total, location, countsUpdates, more = [], from } = parts;
  const guarded = maxBytes === null ? rows : writeGuardedSize(body, maxBytes, rows);
  const columns = [body, guarded, total ?? sql`null::text`, setting("response.headers"), setting("response.status")];
  if (location || countsUpdates) columns.push(location ?? sql`null::json`);
  if (countsUpdates) columns.push(setting(UPDATED_SETTING));
  columns.push(...more);
  return sql`select${sql.lines(columns)}${from}`;
}

const setting = (name: string) => sql.trusted(`nullif(current_setting('${name}', true), '')`);

/**
 * The number of rows in the body. A number that the request does not allow raises an error, which rolls the change back.
 * `affected` is the number of changed rows, if it may differ from the rows in the body; otherwise null.
 */
export function writeGuardedCount(plan: Plan, affected: Sql | null = null): Sql {
  const { format, maxAffected, kind } = plan;
  const all = affected ?? SHOWN;
  // Nothing has to be rolled back after a read.
  const isGuarded = kind !== "read";
  const bad = [
    ...(isPut(plan) ? [sql` when ${all} = 0 then ${refusal("unmatched", all)}`] : []),
    ...(isGuarded && format.isSingular ? [sql` when count(*) <> 1 then ${refusal("shown", SHOWN)}`] : []),
    ...(isGuarded && maxAffected !== null
      ? [sql` when ${all} > ${sql.integer(maxAffected)} then ${refusal("affected", all)}`]
      : []),
  ];
  return bad.length === 0 ? sql`count(*)::text` : sql`case${sql.join(bad, "")} else count(*)::text end`;
}

/** The statement checks the size itself: after the commit, the service could no longer send the result of the change. */
function writeGuardedSize(body: Sql, max: number, rows: Sql): Sql {
  const size = sql`pg_catalog.pg_column_size(${body})`;
  return sql`case when ${size} > ${sql.integer(max)} then ${refusal("bytes", size)} else ${rows} end`;
}

const refusal = (what: keyof typeof REFUSED, count: Sql) =>
  sql`(${sql.trusted(`'${REFUSED[what]}'`)} || ${count})::int::text`;

/** Aggregates the rows `r` into the body. They are written `r.*`, because a column may also be named `r`. */
export function writeBody(format: Format, rows: RowsPlan, postgis: string | null): Sql {
  switch (format.kind) {
    case "object":
      return stripped(format, sql`coalesce(pg_catalog.json_agg(r.*) -> 0, 'null'::json)`);
    case "csv":
      return writeCsv(namesOf(rows));
    case "lines":
      return sql`coalesce(string_agg(${writeJsonLine(sql`r.*`)}, ''), '')`;
    case "geojson": {
      const feature = sql.identifier(postgis!, "st_asgeojson");
      const features = sql`coalesce(pg_catalog.json_agg(${feature}(r.*)::json), '[]'::json)`;
      return sql`json_build_object('type', 'FeatureCollection', 'features', ${features})`;
    }
    case "aggregate":
      return writeHandled(format.handler!);
    default:
      return stripped(format, sql`coalesce(pg_catalog.json_agg(r.*), '[]'::json)`);
  }
}

function writeHandled({ function: name, table, isBinary }: MediaHandler): Sql {
  const row = table === null ? sql`r.*` : sql`row(r.*)::${sql.identifier(table.schema, table.name)}`;
  return sql`${sql.trusted(name)}(${row})::${isBinary ? sql`bytea` : sql`text`}`;
}

export const stripped = ({ stripsNulls }: Format, json: Sql) => (stripsNulls ? sql`json_strip_nulls(${json})` : json);

/**
 * CSV with a header. Source: RFC 4180; null is empty, an empty string is quoted. The text of a row in Postgres has the same
 * format, with brackets around it and doubled backslashes.
 */
export const writeCsv = (names: readonly string[]): Sql =>
  sql`${sql.constant(csvLine(names))}::text || coalesce(E'\\n' || string_agg(${CSV_LINE}, E'\\n'), '')`;

const CSV_LINE = sql`replace(substr(r.*::text, 2, length(r.*::text) - 2), '\\\\', '\\')`;

/** A value as a line of JSON. A line break in a value of type json is white space. */
export const writeJsonLine = (value: Sql): Sql =>
  sql`(replace(coalesce(pg_catalog.to_json(${value})::text, 'null'), E'\\n', ' ') || E'\\n')`;

/** One row `r` as text, with the line break before it in CSV. `value` is what JSON contains of it. */
export const writeStreamedRow = ({ kind }: Format, value: Sql): Sql =>
  kind === "csv" ? sql`E'\\n' || ${CSV_LINE}` : writeJsonLine(value);

/** Values as a line of CSV, as PostgreSQL writes them: null is empty, and an empty text is `""`. */
export const csvLine = (values: readonly (string | null)[]): string =>
  values.map((value) => (value === null ? "" : quoted(value))).join(",");

const quoted = (text: string) => (/[",\n\r]/.test(text) || text === "" ? `"${text.replaceAll('"', '""')}"` : text);
