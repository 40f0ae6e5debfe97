import type { PgCodec, PgResource } from "postgraphile/@dataplan/pg";
import { type SQL, sql } from "postgraphile/pg-sql2";

type Resource = PgResource<any, any, any, any, any>;

/**
 * Whether there is a row is read from a column that every reader of the table may read and that cannot be null, or from the row as a
 * whole, which is distinct from null although all its columns may be null. PostGraphile takes a row of nulls for none, and reads a
 * whole row that callers may read only in part.
 */
export const NullChecksPlugin: GraphileConfig.Plugin = {
  name: "NullChecksPlugin",
  version: "1.0.0",
  schema: {
    hooks: {
      init(_, build) {
        for (const resource of Object.values(build.pgResources) as Resource[])
          if (resource.codec.attributes)
            (resource as any).getNullCheckExpression = (row: SQL) => sql`(${nullCheck(resource, row)})::text`;
        return _;
      },
    },
  },
};

/** Null if the table has no column that tells a row from NULL. */
export function certainCheck(codec: PgCodec, row: SQL): SQL | null {
  const certain = readableColumns(codec).find((name) => codec.attributes![name]!.notNull);
  return certain === undefined ? null : sql`not (${row}.${sql.identifier(certain)} is null)`;
}

function nullCheck({ codec, uniques, parameters, isUnique }: Resource, row: SQL): SQL {
  const readable = readableColumns(codec);
  const certain = certainCheck(codec, row);
  if (certain !== null) return certain;
  // In `from`, a function that returns NULL for its one row gives a row of nulls.
  if (parameters && isUnique && !codec.isAnonymous) return sql`not (${row} is null)`;
  if (parameters || readable.length === Object.keys(codec.attributes!).length) return sql`${row} is distinct from null`;
  // A row that a key leads to has its key.
  return uniques.length > 0 ? sql`not (${readableRow(codec, row)} is null)` : sql.true;
}

/** The row, with the columns that every reader of the table may read. */
export function readableRow(codec: PgCodec, row: SQL): SQL {
  const columns = readableColumns(codec);
  if (columns.length === 0 || columns.length === Object.keys(codec.attributes!).length) return row;
  const values = columns.map((name) => sql`${row}.${sql.identifier(name)}`);
  return sql`row(${sql.join(values, ", ")})`;
}

const readableColumns = ({ attributes }: PgCodec): readonly string[] =>
  Object.entries(attributes!).flatMap(([name, { restrictedAccess }]) => (restrictedAccess ? [] : [name]));
