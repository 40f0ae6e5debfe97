import type {
  Column,
  ComputedField,
  DatabaseFunction,
  FunctionArgument,
  MediaHandler,
  Relationship,
  Table,
} from "../catalog/catalog.ts";
import type { Condition } from "../filters/condition.ts";
import type { JsonStep } from "../filters/field.ts";
import type { Sql } from "../sql.ts";

/**
 * A request whose names are resolved in the catalog: what it reads or writes, and how the result is formatted. A plan
 * is immutable and serves every request of its shape; it refers to values by index.
 */
export type Plan = ReadPlan | ChangePlan | CallPlan;
export type ChangePlan = InsertPlan | UpdatePlan | DeletePlan;

export const isChange = (plan: Plan): plan is ChangePlan => plan.kind !== "read" && plan.kind !== "call";
export const isPut = (plan: Plan): boolean => plan.kind === "insert" && plan.key !== null;

/**
 * Whether policies, or the query of a view, may hide rows that are read. The statistics of the planner know those rows, so the numbers
 * of EXPLAIN would reveal what they contain.
 */
export function mayHideRows(plan: Plan): boolean {
  if (plan.kind === "call") return true;
  return hidesRows(plan.table) || readsHidden(plan.kind === "read" ? plan.rows : plan.representation);
}

const hidesRows = ({ kind, rowSecurity }: Table) => kind === "view" || rowSecurity.isEnabled;
/** The rows of a computed relationship come from a function, and others may be linked by a table of their own. */
const LINKED: ReadonlySet<string> = new Set(["computed", "many-to-many"] satisfies Relationship["kind"][]);

const readsHidden = (rows: RowsPlan | null): boolean =>
  rows?.embeds.some(
    ({ relationship, target, rows: inner }) => LINKED.has(relationship.kind) || hidesRows(target) || readsHidden(inner),
  ) ?? false;

type Common = {
  readonly format: Format;
  /** A change of more rows is rolled back; null without a limit. */
  readonly maxAffected: number | null;
  /** A change with a larger response body is rolled back; null without a limit. Reads have no limit here. */
  readonly maxBytes: number | null;
};

export type ReadPlan = Common & {
  readonly kind: "read";
  readonly table: Table;
  readonly rows: RowsPlan;
  readonly count: Count | null;
  /** HEAD: everything but the body. */
  readonly isBodiless: boolean;
  /** Without the rows of tables that inherit from the table. */
  readonly isAlone?: boolean;
};

/** An estimate is exact up to a number of rows; without that number, it is the larger of the estimate and the exact count. */
export type Count =
  | { readonly kind: "exact" | "planned" }
  | { readonly kind: "estimated"; readonly exactUpTo: number | null };

type Change = Common & {
  readonly table: Table;
  /** The changed rows in the response; null if none are returned. */
  readonly representation: RowsPlan | null;
};

export type InsertPlan = Change &
  InsertCommand & {
    /** The key columns in the header Location; empty if the header is not sent. */
    readonly locationKey: readonly Column[];
  };
export type UpdatePlan = Change & UpdateCommand;
export type DeletePlan = Change & DeleteCommand;

/** A write, without the rows that it returns. */
export type Command = InsertCommand | UpdateCommand | DeleteCommand;

export type InsertCommand = {
  readonly kind: "insert";
  readonly table: Table;
  readonly body: BodyColumns;
  readonly conflict: Conflict | null;
  /** PUT: the primary key in the URL, which the body must repeat. */
  readonly key: readonly KeyValue[] | null;
  /** If one of them is false, nothing is inserted. They cannot refer to the row, because it does not exist yet. */
  readonly conditions: readonly Sql[];
};

export type UpdateCommand = {
  readonly kind: "update";
  readonly table: Table;
  readonly body: BodyColumns;
  /** Values for columns that are not read from the body. */
  readonly assignments: readonly Assignment[];
  readonly conditions: readonly ConditionPlan[];
};

export type Assignment = { readonly column: Column; readonly value: Expression };

export type DeleteCommand = {
  readonly kind: "delete";
  readonly table: Table;
  readonly conditions: readonly ConditionPlan[];
};

/** The columns that are read from a JSON body. */
export type BodyColumns = {
  readonly columns: readonly Column[];
  readonly isArray: boolean;
  /**
   * Null if a missing key stands for null. Otherwise it stands for the column's default, and the objects are read as this
   * type: json keeps the order of keys in values of type json; jsonb, as in PostgREST, is faster.
   */
  readonly defaultsFrom: "json" | "jsonb" | null;
};

export type Conflict = { readonly columns: readonly string[]; readonly action: "update" | "nothing" };
export type KeyValue = { readonly column: Column; readonly value: number };

export type CallPlan = Common & {
  readonly kind: "call";
  readonly function: DatabaseFunction;
  readonly arguments: CallArguments;
  /** For functions that return rows or a set of values; null for a single value and for void. */
  readonly rows: RowsPlan | null;
  readonly count: Count | null;
  readonly isReadOnly: boolean;
  readonly isBodiless: boolean;
};

/** The column name of a function's scalar values, in filters and in CSV. Source: PostgREST. */
export const VALUE = "pgrst_scalar";

export type CallArguments =
  | {
      readonly kind: "named";
      readonly values: readonly { readonly argument: FunctionArgument; readonly values: readonly number[] }[];
    }
  /** From the object in the body, or from the first object of a list. */
  | {
      readonly kind: "body";
      readonly arguments: readonly FunctionArgument[];
      readonly isArray: boolean;
      /** In a form, a variadic argument is an array only if its name is repeated. */
      readonly isForm: boolean;
    }
  /** The whole body is the only argument. */
  | { readonly kind: "whole"; readonly argument: FunctionArgument; readonly isJson: boolean };

/** Rows of a source, and what is selected from them. */
export type RowsPlan = {
  readonly source: RowSource;
  readonly outputs: readonly Output[];
  /** Every embedded relation, including those that only filter. */
  readonly embeds: readonly EmbedPlan[];
  readonly conditions: readonly ConditionPlan[];
  readonly order: readonly OrderPlan[];
  readonly limit: number | null;
  readonly offset: number;
  /** Whether there are aggregates. The rows are then grouped by the other outputs. */
  readonly isGrouped: boolean;
};

/** Where rows come from. `table` is null for rows that do not belong to a table. They have no computed fields or relationships. */
export type RowSource = { readonly table: Table | null; readonly columns: ReadonlyMap<string, SourceColumn> | null };

export type SourceColumn = Pick<Column, "name" | "type" | "shape"> & { readonly casts?: Column["casts"] };

export type Output =
  | { readonly kind: "all" }
  | { readonly kind: "field"; readonly value: ValuePlan; readonly alias: string }
  | { readonly kind: "embed"; readonly embed: EmbedPlan }
  | {
      readonly kind: "expression";
      readonly alias: string;
      readonly value: Expression;
      /** Names of the columns that it reads. */
      readonly columns: readonly string[];
    };

/** How SQL refers to the rows of a FROM item. */
export type Scope = {
  readonly alias: Sql;
  /** A whole row as a function argument: `t.*`, because a column may also be named `t`. */
  readonly row: Sql;
};

/** SQL over a row that a URL cannot express. Only the plans of resources use it. */
export type Expression = (row: Scope) => Sql;

export type AggregateName = "sum" | "avg" | "min" | "max" | "count";

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
  /** The key in the response body. */
  readonly name: string;
  /** The name of the relation, if parameters use it instead of the alias, which is deprecated; null otherwise. */
  readonly olderName: string | null;
  readonly relationship: Relationship;
  readonly target: Table;
  readonly rows: RowsPlan;
  /** Whether rows without a match are left out. */
  readonly isInner: boolean;
  readonly isSpread: boolean;
  /** False for `rel()` and `rel(other())`, which only filter. */
  readonly isShown: boolean;
};

export type ConditionPlan = Condition<FieldPlan, number, ExistsPlan | ExpressionPlan>;

/** `author=is.null`: whether an embedded relation has rows. */
export type ExistsPlan = { readonly kind: "exists"; readonly isNegated: boolean; readonly embed: EmbedPlan };
export type ExpressionPlan = { readonly kind: "expression"; readonly isNegated: boolean; readonly holds: Expression };

export type OrderPlan = {
  readonly key: OrderKey;
  readonly direction: "asc" | "desc" | null;
  readonly nulls: "first" | "last" | null;
};

export type OrderKey =
  | { readonly kind: "field"; readonly field: FieldPlan }
  /** A field of a to-one relation. */
  | { readonly kind: "related"; readonly embed: EmbedPlan; readonly field: FieldPlan }
  /** An entry of the select list: an alias or an aggregate. */
  | { readonly kind: "output"; readonly name: string }
  /** An entry of the select list of grouped rows, counted from 1. */
  | { readonly kind: "position"; readonly position: number };

/** The format of the response body. */
export type Format = {
  readonly kind: "array" | "object" | "csv" | "lines" | "geojson" | "scalar" | "raw" | "aggregate";
  /** Whether the client requires exactly one row. Any other number is an error and rolls a change back. */
  readonly isSingular: boolean;
  readonly stripsNulls: boolean;
  /** The header Content-Type. */
  readonly contentType: string;
  /** The aggregate that produces the body, for the kind "aggregate"; null otherwise. */
  readonly handler: MediaHandler | null;
  /** Options of EXPLAIN, whose output is returned instead of rows; null for rows. */
  readonly explain: ExplainPlan | null;
};

export type ExplainPlan = { readonly isJson: boolean; readonly options: readonly string[] };

/** Every table has these columns, though `*` leaves them out. Source: PostgreSQL, "System Columns". */
const SYSTEM_COLUMNS: ReadonlyMap<string, SourceColumn> = new Map(
  ["tableoid oid", "xmin xid", "cmin cid", "xmax xid", "cmax cid", "ctid tid"].map((text) => {
    const [name, type] = text.split(" ") as [string, string];
    const shape = {
      name: type,
      schema: "pg_catalog",
      category: "base",
      isArray: false,
      domain: null,
      labels: [],
    } as const;
    return [name, { name, type, shape }];
  }),
);

/** Views have none, but may have columns of these names. */
export const systemColumn = ({ kind }: Table, name: string): SourceColumn | undefined =>
  kind === "view" ? undefined : SYSTEM_COLUMNS.get(name);

const isSystemColumn = (column: SourceColumn): boolean => SYSTEM_COLUMNS.get(column.name) === column;

/** The names of the system columns that the rows depend on. */
export function systemColumnsOf({ outputs, order }: RowsPlan): readonly string[] {
  const fields = [
    ...outputs.flatMap((output) => (output.kind === "field" ? [output.value.field] : [])),
    ...order.flatMap(({ key }) => (key.kind === "field" ? [key.field] : [])),
  ];
  const columns = fields.flatMap((field) => (field?.origin.kind === "column" ? [field.origin.column] : []));
  return [...new Set(columns.filter(isSystemColumn).map(({ name }) => name))];
}
