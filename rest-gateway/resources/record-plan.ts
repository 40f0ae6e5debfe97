import type { Table } from "../../db/catalog/catalog.ts";
import type { ConditionPlan, RowsPlan } from "../../db/query/plan.ts";
import type { Resource } from "./resource.ts";

/** A row to look for. */
export type TargetPlan = { readonly table: Table; readonly conditions: readonly ConditionPlan[] };

/** One record: how to find it, and how it is returned. */
export type RecordPlan = {
  readonly resource: Resource;
  /** The conditions find the row; for a new row there are none. */
  readonly rows: RowsPlan;
  /** Further conditions of the row, without which it is not changed. */
  readonly preconditions: readonly ConditionPlan[];
};

export const conditionsOf = ({ rows, preconditions }: RecordPlan): readonly ConditionPlan[] => [
  ...rows.conditions,
  ...preconditions,
];
