import type { Column, Table, TableName } from "../../db/catalog/catalog.ts";
import type {
  ConditionPlan,
  DeleteCommand,
  Expression,
  InsertCommand,
  InsertPlan,
  ReadPlan,
  RowsPlan,
  UpdateCommand,
} from "../table/plan.ts";

/** A request as plans of the tables, with what tables do not have: one record, parents, cascades, actions. */
export type ResourcePlan =
  | ListPlan
  | { readonly kind: "read"; readonly record: RecordPlan }
  | { readonly kind: "create"; readonly command: InsertCommand; readonly record: RecordPlan }
  /** Several records from an array. */
  | { readonly kind: "create many"; readonly insert: InsertPlan }
  | { readonly kind: "update"; readonly command: UpdateCommand; readonly record: RecordPlan }
  | DeletePlan
  | { readonly kind: "act"; readonly function: TableName; readonly record: RecordPlan };

export type ListPlan = {
  readonly kind: "list";
  readonly read: ReadPlan;
  /** The record whose collection this is; null for a collection at the top. */
  readonly parent: TargetPlan | null;
};

export type DeletePlan = {
  readonly kind: "delete";
  readonly command: DeleteCommand;
  readonly record: RecordPlan;
  /** Rows that are deleted with the record, in this order. */
  readonly cascade: readonly { readonly table: TableName; readonly column: string }[];
};

/** A row that is looked for. */
export type TargetPlan = { readonly table: Table; readonly conditions: readonly ConditionPlan[] };

/** One row, how it is shown, and what a response says about it besides. */
export type RecordPlan = {
  readonly table: Table;
  /** Its conditions say which row it is; a new row has none. */
  readonly rows: RowsPlan;
  /** What must hold for the row as it is, for a change to be made. */
  readonly preconditions: readonly ConditionPlan[];
  readonly key: Column;
  /** Changes with each change of the row; null for rows of views. */
  readonly version: Expression;
  /** When the row last changed, in seconds since 1970 with a fraction; null where no field says. */
  readonly modified: Expression;
};
