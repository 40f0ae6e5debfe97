import { fieldsOf, itemsOf } from "./node-tree.ts";
import type { ColumnReference, ColumnRow, Oid, Relations } from "./relations.ts";

export type ViewRow = {
  readonly view: Oid;
  /** The parse tree of its query, as Postgres stores it. */
  readonly tree: string;
};

export const VIEWS = `
  select r.oid as view, w.ev_action::text as tree
  from relations as r
  join pg_rewrite as w on w.ev_class = r.oid and w.rulename = '_RETURN'
  where r.kind in ('v', 'm')
  order by r.oid`;

/** The columns of a table in the table itself or, unchanged, in a view; in the same order. */
type Appearance = { readonly relation: Oid; readonly numbers: readonly number[] };

/** For a view: tables → their columns → the columns of the view that show them. */
type Shown = ReadonlyMap<Oid, ReadonlyMap<number, readonly number[]>>;

/** The tables behind the columns of views, through views of views. */
export class Views {
  readonly #relations: Relations;
  readonly #definitions: ReadonlyMap<Oid, ViewDefinition>;
  readonly #shown = new Map<Oid, Shown>();
  /** Tables → the served views that show columns of them. */
  readonly #viewsOf = new Map<Oid, Oid[]>();

  constructor(relations: Relations, definitions: readonly ViewDefinition[]) {
    this.#relations = relations;
    this.#definitions = withoutCycles(definitions);
    for (const { oid } of relations.served) {
      if (!this.isView(oid)) continue;
      const shown = this.#readShown(oid);
      this.#shown.set(oid, shown);
      for (const table of shown.keys()) this.#viewsOf.set(table, [...(this.#viewsOf.get(table) ?? []), oid]);
    }
  }

  isView(relation: Oid): boolean {
    return this.#definitions.has(relation);
  }

  /** The tables that columns of a served view come from. */
  tablesOf(view: Oid): Iterable<Oid> {
    return this.#shown.get(view)!.keys();
  }

  /** Every served relation that has all these columns. A view that shows one of them twice appears more than once. */
  appearancesOf(table: Oid, numbers: readonly number[]): Appearance[] {
    const itself = this.#relations.get(table)?.isServed ? [{ relation: table, numbers }] : [];
    const views = (this.#viewsOf.get(table) ?? []).flatMap((view) => this.appearancesIn(view, table, numbers));
    return [...itself, ...views];
  }

  appearancesIn(view: Oid, table: Oid, numbers: readonly number[]): Appearance[] {
    const shown = this.#shown.get(view)?.get(table);
    const choices = numbers.map((number) => shown?.get(number) ?? []);
    return combinations(choices).map((chosen) => ({ relation: view, numbers: chosen }));
  }

  isOverOneTable(view: Oid): boolean {
    return this.isView(view) && this.onlyTableOf(view) !== null;
  }

  /** The only table behind the view, if each of its rows appears at most once; null when this is unknown. */
  onlyTableOf(relation: Oid): Oid | null {
    const definition = this.#definitions.get(relation);
    if (!definition) return relation;
    const { relations, keepsNotNull, hasSets } = definition;
    return relations.length === 1 && keepsNotNull && !hasSets ? this.onlyTableOf(relations[0]!) : null;
  }

  /** Whether a set-returning column of the view repeats rows. */
  repeatsRows(relation: Oid): boolean {
    const definition = this.#definitions.get(relation);
    return definition !== undefined && (definition.hasSets || definition.relations.some((of) => this.repeatsRows(of)));
  }

  /** The column of a table or view that this column of a view shows unchanged. */
  originOf({ relation, number }: ColumnReference): ColumnRow | undefined {
    const origin = this.#definitions.get(relation)?.origins.get(number);
    return origin && this.#relations.columnAt(origin);
  }

  /** The column of a table that is null exactly when this one is; undefined when this is unknown. */
  sameNullness(column: ColumnRow): ColumnRow | undefined {
    const definition = this.#definitions.get(column.relation);
    if (!definition) return column;
    const origin = definition.emptied.has(column.number) ? undefined : this.originOf(column);
    return origin && this.sameNullness(origin);
  }

  /** The column of the table, through views of views. */
  #tableColumn(column: ColumnRow): ColumnRow | undefined {
    if (!this.isView(column.relation)) return column;
    const origin = this.originOf(column);
    return origin && this.#tableColumn(origin);
  }

  #readShown(view: Oid): Shown {
    const shown = new Map<Oid, Map<number, number[]>>();
    for (const column of this.#relations.columnsOf(view)) {
      const { relation, number } = this.#tableColumn(column) ?? {};
      if (relation === undefined || number === undefined) continue;
      const columns = shown.get(relation) ?? new Map<number, number[]>();
      shown.set(relation, columns.set(number, [...(columns.get(number) ?? []), column.number]));
    }
    return shown;
  }
}

/** The definitions by view. Views that read themselves, directly or through others, have no origins: no query of them succeeds. */
function withoutCycles(definitions: readonly ViewDefinition[]): Map<Oid, ViewDefinition> {
  const byView = new Map(definitions.map((definition) => [definition.view, definition]));
  const readBy = new Map(definitions.map((definition) => [definition.view, viewsReadBy(definition, byView)]));
  // A view that reads no other view is in no cycle. Without it, the same is true of views that read only it.
  for (let removed = -1; removed !== 0; ) {
    const before = readBy.size;
    for (const [view, read] of readBy) if (read.every((other) => !readBy.has(other))) readBy.delete(view);
    removed = before - readBy.size;
  }
  for (const view of readBy.keys()) byView.set(view, { ...byView.get(view)!, ...UNKNOWN });
  return byView;
}

const UNKNOWN = { origins: new Map(), emptied: new Set<number>(), relations: [], keepsNotNull: false, hasSets: false };

const viewsReadBy = ({ origins, relations }: ViewDefinition, views: ReadonlyMap<Oid, unknown>): Oid[] =>
  [...relations, ...[...origins.values()].map(({ relation }) => relation)].filter((read) => views.has(read));

/** `[[1, 2], [3]]` → `[[1, 3], [2, 3]]` */
const combinations = (choices: readonly (readonly number[])[]): number[][] =>
  choices.reduce<number[][]>((rows, choice) => rows.flatMap((row) => choice.map((item) => [...row, item])), [[]]);

/** The origins of a view's columns, from its query. */
type ViewDefinition = {
  readonly view: Oid;
  /** By the number of the view's column: the column of a table or view that it shows unchanged. */
  readonly origins: ReadonlyMap<number, ColumnReference>;
  /** The numbers of columns that may be null where their origin is not, as on the empty side of an outer join. */
  readonly emptied: ReadonlySet<number>;
  /** The tables and views in `from`. */
  readonly relations: readonly Oid[];
  /** Whether `from` contains only these and inner joins of them, so that a not null column remains not null. */
  readonly keepsNotNull: boolean;
  /** Whether a set-returning column repeats rows: `select id, unnest(tags)`. */
  readonly hasSets: boolean;
};

/** Kinds of items in `from` (rtekind); all others are functions and the like. */
const RELATION = "0";
const SUBQUERY = "1";
const JOIN = "2";
const CTE = "6";
const GROUPING = "9";
/** Kinds of joins (jointype) with an inner, a right, a left and a full side; the sides that may be empty. */
const INNER = "0";
const EMPTY_SIDES: Readonly<Record<string, readonly string[]>> = {
  "1": ["rarg"],
  "2": ["larg", "rarg"],
  "3": ["larg"],
};
/** The invalid oid. */
const NONE: Oid = "0";

export function parseViewDefinition(view: Oid, tree: string): ViewDefinition {
  const [first = ""] = itemsOf(tree);
  const query = fieldsOf(first);
  const from = itemsOf(query.get("rtable")!).map(parseFromItem);
  // Up to PostgreSQL 15 the view itself is listed, as its old and new row.
  const relations = from.flatMap(({ kind, relation }) => (kind === RELATION && relation !== view ? [relation] : []));
  const origins = new Map(itemsOf(query.get("targetList")!).flatMap(parseTarget));
  const keepsNotNull = from.every(isPlain) && query.get("groupingSets") === "<>";
  return {
    view,
    origins,
    emptied: new Set(keepsNotNull ? [] : [...origins.keys()].filter((number) => mayBeEmptied(query, number))),
    relations,
    keepsNotNull,
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

function parseTarget(entry: string): [number, ColumnReference][] {
  const fields = fieldsOf(entry);
  const relation = fields.get("resorigtbl")!;
  if (relation === NONE || fields.get("resjunk") === "true") return [];
  return [[Number(fields.get("resno")), { relation, number: Number(fields.get("resorigcol")) }]];
}

type Fields = ReadonlyMap<string, string>;

/** Whether a column of the query may be null although the column of the table that it shows is not. */
function mayBeEmptied(query: Fields, number: number): boolean {
  if (query.get("groupingSets") !== "<>" || query.get("setOperations") !== "<>") return true;
  const targets = itemsOf(query.get("targetList")!).map(fieldsOf);
  const target = targets.find((each) => Number(each.get("resno")) === number);
  return target === undefined || isEmptied(query, target.get("expr")!);
}

function isEmptied(query: Fields, expression: string): boolean {
  const column = expression.startsWith("{VAR ") ? fieldsOf(expression) : undefined;
  if (column?.get("varlevelsup") !== "0") return true;
  const place = Number(column.get("varno"));
  const number = Number(column.get("varattno"));
  const item = itemsOf(query.get("rtable")!)[place - 1];
  if (item === undefined || emptiedItems(query.get("jointree")!).has(place)) return true;
  const source = fieldsOf(item);
  switch (source.get("rtekind")) {
    case RELATION:
      return false;
    case SUBQUERY:
      return mayBeEmptied(fieldsOf(source.get("subquery")!), number);
    case CTE: {
      const named = itemsOf(query.get("cteList")!).map(fieldsOf);
      const cte = named.find((each) => each.get("ctename") === source.get("ctename"));
      return (
        cte === undefined || cte.get("cterecursive") === "true" || mayBeEmptied(fieldsOf(cte.get("ctequery")!), number)
      );
    }
    case GROUPING:
      return isEmptied(query, itemsOf(source.get("groupexprs")!)[number - 1] ?? "");
    default:
      return true;
  }
}

/** The places in `from` that an outer join may leave empty. */
function emptiedItems(node: string, isEmpty = false): ReadonlySet<number> {
  const fields = fieldsOf(node);
  if (node.startsWith("{RANGETBLREF ")) return new Set(isEmpty ? [Number(fields.get("rtindex"))] : []);
  if (node.startsWith("{FROMEXPR "))
    return new Set(itemsOf(fields.get("fromlist")!).flatMap((each) => [...emptiedItems(each, isEmpty)]));
  const empty = EMPTY_SIDES[fields.get("jointype")!] ?? [];
  return new Set(
    ["larg", "rarg"].flatMap((side) => [...emptiedItems(fields.get(side)!, isEmpty || empty.includes(side))]),
  );
}
