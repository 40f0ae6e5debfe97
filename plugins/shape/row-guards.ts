import { randomBytes } from "node:crypto";
import type { PgCodec } from "postgraphile/@dataplan/pg";
import { type SQL, sql } from "postgraphile/pg-sql2";
import { quoteName, type TableName } from "../../db/catalog/catalog.ts";
import type { Statement } from "../../db/transaction/transaction.ts";

type Codec = PgCodec<any, any, any, any, any, any, any>;

/**
 * The text of a row has no names: if a column is dropped and another one is added before it is read, each value may become that of
 * another column. So it begins with a *guard*, the OID of its table and the highest number that a column has had: `16402.7(1,old)`.
 */
export const guardOf = (codec: Codec): SQL =>
  sql`(select concat(oid, '.', relnatts) from pg_catalog.pg_class where oid = ${sql.literal(quoteName(nameOf(codec)))}::regclass)`;

/** Clients do not know it, so what they send is not taken for a guard. */
const MARK = `row_${randomBytes(8).toString("hex")}_`;
const GUARD = new RegExp(`${MARK}([0-9a-f]+)\\.(\\d+)\\.(\\d+)`, "g");

/** The text with a guard as a value of a statement, also within an array or JSON. A text without one stays as it is. */
export const guarded = (codec: Codec, text: string): string =>
  text.startsWith("(") ? text : `${MARK}${Buffer.from(quoteName(nameOf(codec))).toString("hex")}.${text}`;

/** A domain has no columns of its own. */
function nameOf({ domainOfCodec, extensions }: Codec): TableName {
  if (domainOfCodec) return nameOf(domainOfCodec);
  const { schemaName: schema, name } = extensions!.pg!;
  return { schema, name };
}

/** How many numbers of newer columns are looked for. */
const NEWER = 20;

/** The guards of the rows in the values of a transaction. */
export class RowGuards {
  readonly #guards = new Map<string, readonly [table: string, oid: string, columns: string]>();

  /** The value as Postgres reads it. */
  take(value: string | null): string | null {
    if (!value?.includes(MARK)) return value;
    return value.replaceAll(GUARD, (guard, table: string, oid: string, columns: string) => {
      this.#guards.set(guard, [Buffer.from(table, "hex").toString(), oid, columns]);
      return "";
    });
  }

  /**
   * A query after those that read the rows: whether their tables are the same, and none has a newer column. Null without rows. It asks
   * functions, which see what was committed after the snapshot. If a column was only dropped, reading the row has already failed.
   */
  get check(): Statement | null {
    if (this.#guards.size === 0) return null;
    const guards = [...this.#guards.values()];
    const conditions = guards.map((_, i) => {
      const [table, oid, last] = [`$${3 * i + 1}`, `$${3 * i + 2}::oid`, `$${3 * i + 3}::int`];
      // The first of the newer columns may be dropped again.
      const newer = `select from pg_catalog.generate_series(${last} + 1, ${last} + ${NEWER}) as n
        where pg_catalog.has_column_privilege(${oid}, n::int2, 'select') is not null`;
      return `pg_catalog.to_regclass(${table}) = ${oid} and not exists (${newer})`;
    });
    return { text: `select ${conditions.join(" and ")}`, values: guards.flat() };
  }
}
