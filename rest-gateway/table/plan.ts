import type {
  Column,
  ComputedField,
  DatabaseFunction,
  FunctionArgument,
  MediaHandler,
  Relationship,
  Table,
} from "../../db/catalog/catalog.ts";
import type { Sql } from "../sql.ts";
import type { AggregateName, IsKeyword, JsonStep, Operator, Preferences } from "./request.ts";
import type { Scope } from "./write/values.ts";

/**
 * A request, looked up in the catalog: what is to be read or written and how it is answered, as frozen data. It holds for
 * every request of its shape; values are named by their index.
 */
export type Plan = ReadPlan | ChangePlan | CallPlan;
export type ChangePlan = InsertPlan | UpdatePlan | DeletePlan;

export const isChange = (plan: Plan): plan is ChangePlan => plan.kind !== "read" && plan.kind !== "call";
export const isPut = (plan: Plan): boolean => plan.kind === "insert" && plan.key !== null;
export const isReadOnly = (plan: Plan): boolean => plan.kind === "read" || (plan.kind === "call" && plan.isReadOnly);

type Common = {
  readonly schema: string;
  readonly format: Format;
  readonly preferences: Preferences;
  /** More rows than this undo the whole; null without a limit. */
  readonly maxAffected: number | null;
  /** A larger answer undoes what was written; null without a limit. What only reads is limited as it comes. */
  readonly maxBytes: number | null;
};

export type ReadPlan = Common & {
  readonly kind: "read";
  readonly table: Table;
  readonly rows: RowsPlan;
  readonly count: Count | null;
  /** HEAD: everything but the body. */
  readonly isBodiless: boolean;
};

export type Count = { readonly kind: "exact" | "planned" } | { readonly kind: "estimated"; readonly exactUpTo: number };

type Change = Common & {
  readonly table: Table;
  /** What is answered of the changed rows; null for nothing. */
  readonly representation: RowsPlan | null;
};

/** The columns of the header Location; empty without one. */
export type InsertPlan = Change & InsertCommand & { readonly locationKey: readonly Column[] };
export type UpdatePlan = Change & UpdateCommand;
export type DeletePlan = Change & DeleteCommand;

/** What is written, without what is shown of it. */
export type Command = InsertCommand | UpdateCommand | DeleteCommand;

export type InsertCommand = {
  readonly kind: "insert";
  readonly table: Table;
  readonly body: BodyColumns;
  readonly conflict: Conflict | null;
  /** PUT: the row that the URL names; the body's must be the same. */
  readonly key: readonly KeyValue[] | null;
  /** Without them nothing is inserted. They know no row: it is not there yet. */
  readonly conditions: readonly Sql[];
};

export type UpdateCommand = {
  readonly kind: "update";
  readonly table: Table;
  readonly body: BodyColumns;
  /** Columns whose value is not in the body. */
  readonly assignments: readonly Assignment[];
  readonly conditions: readonly ConditionPlan[];
};

export type Assignment = { readonly column: Column; readonly value: Expression };

export type DeleteCommand = {
  readonly kind: "delete";
  readonly table: Table;
  readonly conditions: readonly ConditionPlan[];
};

/** What is taken from a body of JSON. */
export type BodyColumns = {
  readonly columns: readonly Column[];
  readonly isArray: boolean;
  /** Whether a key that an object does not have means the column's default in place of null. */
  readonly fillsDefaults: boolean;
};

export type Conflict = { readonly columns: readonly string[]; readonly action: "update" | "nothing" };
export type KeyValue = { readonly column: Column; readonly value: number };

export type CallPlan = Common & {
  readonly kind: "call";
  readonly function: DatabaseFunction;
  readonly arguments: CallArguments;
  /** Of functions that give rows, or a set of values; null for a single value and for none. */
  readonly rows: RowsPlan | null;
  readonly count: Count | null;
  readonly isReadOnly: boolean;
  readonly isBodiless: boolean;
};

/** What the values of functions that give no rows are called, in filters and in CSV. Source: PostgREST. */
export const VALUE = "pgrst_scalar";

export type CallArguments =
  | {
      readonly kind: "named";
      readonly values: readonly { readonly argument: FunctionArgument; readonly values: readonly number[] }[];
    }
  /** From the object of the body, or from the first one of a list. */
  | { readonly kind: "body"; readonly arguments: readonly FunctionArgument[]; readonly isArray: boolean }
  /** The whole body is the one argument. */
  | { readonly kind: "whole"; readonly argument: FunctionArgument };

/** Rows with columns that are known, and what of them is wanted. */
export type RowsPlan = {
  readonly source: RowSource;
  readonly outputs: readonly Output[];
  /** Every embedded relation, those that only filter included. */
  readonly embeds: readonly EmbedPlan[];
  readonly conditions: readonly ConditionPlan[];
  readonly order: readonly OrderPlan[];
  readonly limit: number | null;
  readonly offset: number;
  /** Has aggregates: every other output is a group. */
  readonly isGrouped: boolean;
};

/** Where the columns of rows come from: `table` for computed fields and relationships, null for rows of no table. */
export type RowSource = { readonly table: Table | null; readonly columns: ReadonlyMap<string, SourceColumn> | null };

export type SourceColumn = Pick<Column, "name" | "type" | "shape"> & { readonly casts?: Column["casts"] };

export type Output =
  | { readonly kind: "all" }
  | { readonly kind: "field"; readonly value: ValuePlan; readonly alias: string }
  | { readonly kind: "embed"; readonly embed: EmbedPlan }
  | { readonly kind: "expression"; readonly alias: string; readonly value: Expression };

/** SQL over a row that no URL can express: only plans of the resources have it. */
export type Expression = (row: Scope) => Sql;

/** A value of a row: a column or computed field, a JSON path into it, a cast, an aggregate. */
export type ValuePlan = {
  /** Null for `count()` of rows. */
  readonly field: FieldPlan | null;
  readonly cast: string | null;
  readonly aggregate: { readonly name: AggregateName; readonly cast: string | null } | null;
};

export type FieldPlan = {
  readonly origin:
    | { readonly kind: "column"; readonly column: SourceColumn }
    | { readonly kind: "computed"; readonly computed: ComputedField };
  readonly path: readonly JsonStep[];
};

export type EmbedPlan = {
  /** The key in the answer. */
  readonly name: string;
  /** The relation's own name, where parameters still use it in place of the alias; null elsewhere. */
  readonly olderName: string | null;
  readonly relationship: Relationship;
  readonly target: Table;
  readonly rows: RowsPlan;
  /** Rows without a match are left out. */
  readonly isInner: boolean;
  readonly isSpread: boolean;
  /** False for `rel()`, which only filters. */
  readonly isShown: boolean;
};

export type ConditionPlan =
  | {
      readonly kind: "logic";
      readonly operator: "and" | "or";
      readonly isNegated: boolean;
      readonly conditions: readonly ConditionPlan[];
    }
  | {
      readonly kind: "compare";
      readonly field: FieldPlan;
      readonly isNegated: boolean;
      readonly operator: Exclude<Operator, "is">;
      readonly quantifier: "any" | "all" | null;
      readonly language: string | null;
      readonly value: number;
    }
  | { readonly kind: "is"; readonly field: FieldPlan; readonly isNegated: boolean; readonly keyword: IsKeyword }
  /** `author=is.null`: whether an embedded relation has rows. */
  | { readonly kind: "exists"; readonly embed: EmbedPlan; readonly isNegated: boolean }
  | { readonly kind: "expression"; readonly holds: Expression };

export type OrderPlan = {
  readonly key: OrderKey;
  readonly direction: "asc" | "desc" | null;
  readonly nulls: "first" | "last" | null;
};

export type OrderKey =
  | { readonly kind: "field"; readonly field: FieldPlan }
  /** A field of a to-one relation. */
  | { readonly kind: "related"; readonly embed: EmbedPlan; readonly field: FieldPlan }
  /** What the select list calls so: an alias, an aggregate. */
  | { readonly kind: "output"; readonly name: string };

/** What the answer looks like. */
export type Format = {
  readonly kind: "array" | "object" | "csv" | "geojson" | "scalar" | "raw" | "aggregate";
  /** Exactly one row was asked for: any other number is an error, and undoes what was written. */
  readonly isSingular: boolean;
  readonly stripsNulls: boolean;
  /** The header Content-Type. */
  readonly contentType: string;
  /** Of kind "aggregate": what makes the body. */
  readonly handler: MediaHandler | null;
  /** Options of EXPLAIN, whose result is answered in place of rows; null for rows. */
  readonly explain: ExplainPlan | null;
};

export type ExplainPlan = { readonly isJson: boolean; readonly options: readonly string[] };
