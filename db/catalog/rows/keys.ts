import type { Oid } from "./types.ts";

/** A primary key, unique constraint or unique index over plain columns. */
export type KeyRow = {
  readonly relation: Oid;
  readonly columns: readonly number[];
  readonly isPrimary: boolean;
  readonly isConstraint: boolean;
};

// Columns behind INCLUDE stand in indkey after those of the key.
export const KEYS = `
  select i.indrelid as relation, (i.indkey::int2[])[0:i.indnkeyatts - 1] as columns, i.indisprimary as "isPrimary",
    exists (
      select from pg_constraint as c
      where c.conindid = i.indexrelid and c.conrelid = i.indrelid and c.contype in ('p', 'u')
    ) as "isConstraint"
  from relations as r
  join pg_index as i on i.indrelid = r.oid
  where i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
  order by i.indrelid, i.indisprimary desc, i.indexrelid`;

export type ForeignKeyRow = {
  readonly name: string;
  readonly from: Oid;
  readonly columns: readonly number[];
  readonly to: Oid;
  readonly references: readonly number[];
};

// Foreign keys that partitions have from their parent, and those to single partitions, have a parent themselves.
// A foreign key over periods (PostgreSQL 18) compares by overlap, not by equality: its index excludes.
export const FOREIGN_KEYS = `
  select c.conname as name, c.conrelid as from, c.conkey as columns, c.confrelid as to, c.confkey as references
  from pg_constraint as c
  join relations as source on source.oid = c.conrelid
  join relations as target on target.oid = c.confrelid
  join pg_index as i on i.indexrelid = c.conindid and not i.indisexclusion
  where c.contype = 'f' and c.conparentid = 0
  order by source.schema, source.name, c.conname`;
