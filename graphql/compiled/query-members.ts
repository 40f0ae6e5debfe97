import type { FieldNode, GraphQLField } from "postgraphile/graphql";
import type { SQL } from "postgraphile/pg-sql2";
import type { CallSource, RecordSource, RowSource, RowsSource } from "../../plugins/shape/FieldSourcesPlugin.ts";
import type { Json } from "./column-json.ts";

export type Definition = GraphQLField<unknown, unknown>;

/** A member of an object in the response. `key` is its name there. */
export type Member = { readonly key: string } & (
  | { readonly kind: "constant"; readonly text: string }
  | { readonly kind: "column"; readonly attribute: string; readonly json: Json }
  | Records
  | Row
  | List
  | Connection
  | Call
);
/** The records of a column. */
export type Records = {
  readonly kind: "record";
  readonly source: RecordSource;
  readonly alias: SQL;
  /** Whether an item of the array may not be null. */
  readonly isItemNonNull: boolean;
  readonly members: readonly Member[];
};
export type Call = Read<"call", CallSource> & { readonly isNonNull: boolean; readonly members: readonly Member[] };
export type Row = Read<"row", RowSource> & { readonly isNonNull: boolean; readonly members: readonly Member[] };
export type List = Read<"list", RowsSource> & { readonly members: readonly Member[] };
export type Connection = Read<"connection", RowsSource> & { readonly members: readonly ConnectionMember[] };

export type ConnectionMember = { readonly key: string } & (
  | { readonly kind: "constant"; readonly text: string }
  | { readonly kind: "edges"; readonly members: readonly EdgeMember[] }
  | { readonly kind: "pageInfo"; readonly members: readonly PageInfoMember[] }
  | { readonly kind: "totalCount" }
);
export type EdgeMember = { readonly key: string } & (
  | { readonly kind: "constant"; readonly text: string }
  | { readonly kind: "node"; readonly members: readonly Member[] }
  | { readonly kind: "cursor" }
);
export type PageInfoMember = { readonly key: string } & (
  | { readonly kind: "constant"; readonly text: string }
  | { readonly kind: PageInfoField }
);
export type PageInfoField = "hasNextPage" | "hasPreviousPage" | "startCursor" | "endCursor";

/** A field that reads rows. The values of its arguments differ from request to request. */
type Read<Kind, Source> = {
  readonly kind: Kind;
  readonly source: Source;
  readonly alias: SQL;
  readonly definition: Definition;
  readonly nodes: readonly FieldNode[];
  /** Its place among all such fields of the operation. */
  readonly index: number;
};
export type ReadMember = Row | List | Connection | Call;

/** An operation that is one statement or, with a call, two. */
export type QueryTree = { readonly members: readonly Member[]; readonly reads: readonly ReadMember[] };

/** The only field of a mutation; undefined for a query. */
export const callIn = ({ reads }: QueryTree): Call | undefined => (reads[0]?.kind === "call" ? reads[0] : undefined);

/**
 * Why Grafast executes a query: a field of another kind, a type that Postgres writes differently, an interface or union, edges twice, an
 * alias that is too long, a fragment on another type, another directive, a backward or empty page, arguments that only PostGraphile can
 * apply or that are not valid, a value that the result may not have, many rows, or a statement that the database refuses.
 */
export type Reason =
  | "field"
  | "type"
  | "interface"
  | "edges"
  | "alias"
  | "fragment"
  | "directive"
  | "page"
  | "arguments"
  | "value"
  | "rows"
  | "error";

/** Thrown for a query that Grafast has to execute. */
export class NotCompiled extends Error {
  readonly reason: Reason;
  constructor(reason: Reason) {
    super(reason);
    this.reason = reason;
  }
}
