import type { Position } from "./position.ts";

/** Which JSON a value of a type becomes. Domains have the shape of their type. */
export type ValueShape =
  | { readonly kind: "text" | "number" | "boolean" | "json" | "timestamp" }
  | { readonly kind: "array"; readonly element: ValueShape; readonly delimiter: string }
  | { readonly kind: "composite"; readonly fields: readonly { readonly name: string; readonly shape: ValueShape }[] };

/** A column of a changed table. `type` is the OID of its type, `typeName` its name in pg_type. */
export type ChangedColumn = {
  /** The name when the change was made. Subscribers get the one in the catalog, see `presentTable`. */
  readonly name: string;
  /** Its number in pg_attribute, which it keeps when it is renamed; undefined if that is not known. */
  readonly number?: number | undefined;
  /** Whether it is logged of old rows; absent if it is not. */
  readonly isLogged?: boolean | undefined;
  readonly type: number;
  readonly typeName: string;
  readonly shape: ValueShape;
  /** Set if Postgres has to write the JSON of the column. */
  readonly computed?: ComputedColumn;
};

/**
 * A column whose type has a cast to json, such as hstore and geometry; or a generated column, which the write-ahead log does not
 * contain before PostgreSQL 18.
 */
export type ComputedColumn = {
  /** SQL over `inputs`. */
  readonly expression: string;
  /** Columns of the table, with their names in the expression; `type` is a name in SQL. */
  readonly inputs: readonly { readonly number: number; readonly name: string; readonly type: string }[];
  /** Whether images have the column. */
  readonly isSent: boolean;
};

/** A table as the stream describes it; the same object for all its changes until DDL changes it. */
export type ChangedTable = {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly ChangedColumn[];
  /** Whether it has partitions, which all log whole old rows. The stream says only what the table itself would log. */
  readonly hasWholePartitions?: boolean | undefined;
};

/**
 * The values of a row in Postgres' text form, in the order of the table's columns. undefined: the stream has no value, because
 * the column is not part of the replica identity (old row) or is a large value that the update did not change (new row).
 */
export type Image = readonly (string | null | undefined)[];

/** A committed change of one row, or a TRUNCATE of its table. */
export type Change = {
  readonly position: Position;
  /** When its transaction was committed, in milliseconds since 1970. */
  readonly committedAt: number;
  /** The number of its transaction, modulo 2³². */
  readonly xid: number;
  readonly table: ChangedTable;
  readonly operation: "INSERT" | "UPDATE" | "DELETE" | "TRUNCATE";
  /** The row after the change; null for a DELETE and a TRUNCATE. */
  readonly new: Image | null;
  /** The row before the change, as far as the replica identity has it; null for an INSERT and a TRUNCATE. */
  readonly old: Image | null;
};
