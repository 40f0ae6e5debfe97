import type { PgCodec } from "postgraphile/@dataplan/pg";
import { type SQL, sql } from "postgraphile/pg-sql2";

/**
 * Whether a row is null is read from a column that every reader of the table may read. PostGraphile takes the first column that cannot
 * be null, or the whole row, which callers who may read only some of its columns may not read.
 */
export const NullChecksPlugin: GraphileConfig.Plugin = {
  name: "NullChecksPlugin",
  version: "1.0.0",
  gather: {
    hooks: {
      pgCodecs_PgCodec(_info, { pgCodec, pgClass }) {
        if (!pgClass || !pgCodec.attributes) return;
        const certain = readableColumns(pgCodec).find((name) => pgCodec.attributes![name]!.notNull);
        const value = (row: SQL) =>
          certain === undefined ? readableRow(pgCodec, row) : sql`${row}.${sql.identifier(certain)}`;
        const notNullExpression: PgCodec["notNullExpression"] = (row) => sql`(not (${value(row)} is null))::text`;
        Object.assign(pgCodec, { notNullExpression });
      },
    },
  },
};

/** The row, with the columns that every reader of the table may read. */
export function readableRow(codec: PgCodec, row: SQL): SQL {
  const columns = readableColumns(codec);
  if (columns.length === 0 || columns.length === Object.keys(codec.attributes!).length) return row;
  const values = columns.map((name) => sql`${row}.${sql.identifier(name)}`);
  return sql`row(${sql.join(values, ", ")})`;
}

const readableColumns = ({ attributes }: PgCodec): readonly string[] =>
  Object.entries(attributes!).flatMap(([name, { restrictedAccess }]) => (restrictedAccess ? [] : [name]));
