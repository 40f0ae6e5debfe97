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

/** A request as plans for its table, and what the table interface lacks: single records, parents, cascades, actions. */
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
  /** The record in the path that the list belongs to; null for `/articles`. */
  readonly parent: TargetPlan | null;
};

export type DeletePlan = {
  readonly kind: "delete";
  readonly command: DeleteCommand;
  readonly record: RecordPlan;
  /** Rows that are deleted with the record, in this order. */
  readonly cascade: readonly { readonly table: TableName; readonly column: string }[];
};

/** A row to look for. */
export type TargetPlan = { readonly table: Table; readonly conditions: readonly ConditionPlan[] };

/** One row, how it is returned, and its metadata. */
export type RecordPlan = {
  readonly table: Table;
  /** The conditions find the row; for a new row there are none. */
  readonly rows: RowsPlan;
  /** Conditions of the current row for a change. */
  readonly preconditions: readonly ConditionPlan[];
  readonly key: Column;
  /** Replaced by each change of the row; null for views. */
  readonly version: Expression;
  /** The time of the last change, in seconds since 1970 with a fraction; null if no field has it. */
  readonly modified: Expression;
};

export const conditionsOf = ({ rows, preconditions }: RecordPlan): readonly ConditionPlan[] => [
  ...rows.conditions,
  ...preconditions,
];
