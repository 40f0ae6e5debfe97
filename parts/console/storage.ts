import type { Pool } from "pg";
import type { DatabaseError } from "pg-protocol";
import type { TableName } from "../../db/catalog/catalog.ts";
import { SHORT_LOCK_TIMEOUT } from "../../db/follow/lock-retries.ts";

/** What a table takes, with its partitions. Sizes are bytes. */
export type TableSize = TableName & {
  /** As last estimated by ANALYZE; null if it never ran. */
  readonly rows: number | null;
  readonly size: number;
  readonly indexSize: number;
};

export type Index = {
  readonly name: string;
  /** SQL text: `CREATE INDEX …` */
  readonly definition: string;
  readonly size: number;
  readonly isValid: boolean;
  /** Scans since the statistics were reset. */
  readonly scans: number;
};

const SIZES = `
  select n.nspname as schema, c.relname as name,
    (select sum(nullif(p.reltuples, -1))::float from pg_class as p where p.oid = any (r.parts)) as rows,
    (select sum(pg_table_size(part))::float from unnest(r.parts) as part) as size,
    (select sum(pg_indexes_size(part))::float from unnest(r.parts) as part) as "indexSize"
  from pg_class as c
  join pg_namespace as n on n.oid = c.relnamespace
  cross join lateral (select array(select relid::oid from pg_partition_tree(c.oid) where isleaf union select c.oid where c.relkind <> 'p') as parts) as r
  where n.nspname = any ($1) and c.relkind in ('r', 'p', 'm')`;

const INDEXES = `
  select i.relname as name, pg_get_indexdef(x.indexrelid) as definition, pg_relation_size(x.indexrelid)::float as size,
    x.indisvalid as "isValid", coalesce(s.idx_scan, 0)::float as scans
  from pg_index as x
  join pg_class as c on c.oid = x.indrelid
  join pg_namespace as n on n.oid = c.relnamespace
  join pg_class as i on i.oid = x.indexrelid
  left join pg_stat_user_indexes as s on s.indexrelid = x.indexrelid
  where n.nspname = $1 and c.relname = $2
  order by i.relname`;

/** The sizes of the tables in these schemas; null while one is locked. */
export const readSizes = (
  pool: Pick<Pool, "connect">,
  schemas: readonly string[],
): Promise<readonly TableSize[] | null> => readUnlocked<TableSize>(pool, SIZES, [schemas]);

/** The indexes of a table, sorted by name; null while it is locked. */
export const readIndexes = (
  pool: Pick<Pool, "connect">,
  { schema, name }: TableName,
): Promise<readonly Index[] | null> => readUnlocked<Index>(pool, INDEXES, [schema, name]);

async function readUnlocked<Row extends object>(
  pool: Pick<Pool, "connect">,
  text: string,
  values: unknown[],
): Promise<readonly Row[] | null> {
  const client = await pool.connect();
  try {
    await client.query(`begin read only; ${SHORT_LOCK_TIMEOUT}`);
    return (await client.query<Row>(text, values)).rows;
  } catch (error) {
    if ((error as DatabaseError).code === "55P03") return null;
    throw error;
  } finally {
    await client.query("rollback");
    client.release();
  }
}
