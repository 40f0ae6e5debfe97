import type { MediaHandler } from "../../../db/catalog/catalog.ts";
import { type Sql, sql } from "../../sql.ts";
import { type Format, isPut, type Plan, type RowsPlan } from "../plan.ts";
import { REFUSED, UPDATED_SETTING } from "../query.ts";
import { namesOf } from "./rows.ts";

const SHOWN = sql`count(*)`;

export type ResultParts = {
  readonly body: Sql;
  /** Rows in the body. */
  readonly rows: Sql;
  /** Rows in all, and of a change those that it changed; null when nobody asked, or when the body has all of them. */
  readonly total: Sql | null;
  /** JSON array of the texts of the key, for the header Location. */
  readonly location?: Sql;
  readonly countsUpdates?: boolean;
  /** Further columns behind these, which only the resources have. */
  readonly more?: readonly Sql[];
  /** Where the rows come from, with FROM. */
  readonly from: Sql;
};

/** The select list that every statement ends in. */
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
 * The number of rows in the body; when it must not be, an error that undoes what the statement wrote. `affected` are
 * those that were changed, where the body may have others; null where it has them.
 */
export function writeGuardedCount(plan: Plan, affected: Sql | null = null): Sql {
  const { format, maxAffected, kind } = plan;
  const all = affected ?? SHOWN;
  const isUndone = kind !== "read";
  const bad = [
    ...(isPut(plan) ? [sql` when ${all} = 0 then ${refusal("unmatched", all)}`] : []),
    ...(isUndone && format.isSingular ? [sql` when count(*) <> 1 then ${refusal("shown", SHOWN)}`] : []),
    ...(isUndone && maxAffected !== null
      ? [sql` when ${all} > ${sql.integer(maxAffected)} then ${refusal("affected", all)}`]
      : []),
  ];
  return bad.length === 0 ? sql`count(*)::text` : sql`case${sql.join(bad, "")} else count(*)::text end`;
}

/** Afterwards the client could only be told that a change was made, and not which. */
function writeGuardedSize(body: Sql, max: number, rows: Sql): Sql {
  const size = sql`pg_catalog.pg_column_size(${body})`;
  return sql`case when ${size} > ${sql.integer(max)} then ${refusal("bytes", size)} else ${rows} end`;
}

const refusal = (what: keyof typeof REFUSED, count: Sql) =>
  sql`(${sql.trusted(`'${REFUSED[what]}'`)} || ${count})::int::text`;

/** The body, aggregated from rows that are called `r`: `r.*`, since one of their columns may have that name too. */
export function writeBody(format: Format, rows: RowsPlan, postgis: string | null): Sql {
  switch (format.kind) {
    case "object":
      return stripped(format, sql`coalesce(pg_catalog.json_agg(r.*) -> 0, 'null'::json)`);
    case "csv":
      return writeCsv(namesOf(rows));
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
 * A line of names and a line for each row. Source: RFC 4180; null is nothing, the empty text is quoted. Postgres writes a
 * row the same way, in brackets and with backslashes doubled.
 */
export function writeCsv(names: readonly string[]): Sql {
  const header = sql`${sql.constant(names.map(quoteCsv).join(","))}::text`;
  const line = sql`replace(substr(r.*::text, 2, length(r.*::text) - 2), '\\\\', '\\')`;
  return sql`${header} || coalesce(E'\\n' || string_agg(${line}, E'\\n'), '')`;
}

const quoteCsv = (text: string) => (/[",\n\r]/.test(text) || text === "" ? `"${text.replaceAll('"', '""')}"` : text);
