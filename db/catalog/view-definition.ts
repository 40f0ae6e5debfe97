import { fieldsOf, itemsOf } from "./node-tree.ts";
import type { Oid } from "./rows/types.ts";

/** A column of a table or view, by its number there. */
export type ColumnPlace = { readonly relation: Oid; readonly number: number };

/** What the query of a view tells about where its columns come from. */
export type ViewDefinition = {
  readonly view: Oid;
  /** By the number of the view's column: the column of a table or view that it shows unchanged. */
  readonly origins: ReadonlyMap<number, ColumnPlace>;
  /** The tables and views after `from`. */
  readonly relations: readonly Oid[];
  /** Whether `from` has these alone, and inner joins of them, so that what is not null there is not null here. */
  readonly keepsNotNull: boolean;
  /** Whether a set among the columns makes several rows of one: `select id, unnest(tags)`. */
  readonly hasSets: boolean;
};

/** Kinds of what stands after `from`; all others are queries, functions and the like. */
const RELATION = "0";
const JOIN = "2";
const GROUPING = "9";
const INNER = "0";
/** The number of no relation. */
const NONE: Oid = "0";

export function parseViewDefinition(view: Oid, tree: string): ViewDefinition {
  const [first = ""] = itemsOf(tree);
  const query = fieldsOf(first);
  const from = itemsOf(query.get("rtable")!).map(parseFromItem);
  // Until PostgreSQL 15 a view stands there itself, as its own old and new row.
  const relations = from.flatMap(({ kind, relation }) => (kind === RELATION && relation !== view ? [relation] : []));
  return {
    view,
    origins: new Map(itemsOf(query.get("targetList")!).flatMap(parseTarget)),
    relations,
    keepsNotNull: from.every(isPlain) && query.get("groupingSets") === "<>",
    hasSets: query.get("hasTargetSRFs") === "true",
  };
}

type FromItem = { readonly kind: string; readonly relation: Oid; readonly join: string | undefined };

function parseFromItem(item: string): FromItem {
  const fields = fieldsOf(item);
  return { kind: fields.get("rtekind")!, relation: fields.get("relid") ?? NONE, join: fields.get("jointype") };
}

const isPlain = ({ kind, join }: FromItem) =>
  kind === RELATION || kind === GROUPING || (kind === JOIN && join === INNER);

function parseTarget(entry: string): [number, ColumnPlace][] {
  const fields = fieldsOf(entry);
  const relation = fields.get("resorigtbl")!;
  if (relation === NONE || fields.get("resjunk") === "true") return [];
  return [[Number(fields.get("resno")), { relation, number: Number(fields.get("resorigcol")) }]];
}
