import type { Config } from "../../../config/config.ts";
import { type Catalog, type Table, tableOf } from "../../../db/catalog/catalog.ts";
import type { ConditionPlan, EmbedPlan, Output, RowSource, RowsPlan, ValuePlan } from "../../../db/query/plan.ts";
import { problem } from "../../../problems/problem.ts";
import type { RestLimits } from "../../limits.ts";
import { noRelationship, notEmbedded, spreadNeedsToOne, tooManyEmbedFilters, tooManyEmbeds } from "../problem.ts";
import type { QueryPart, QueryString, SelectItem } from "../request.ts";
import { castOf, hasField, planConditions, planField } from "./fields.ts";
import { planOrder } from "./order.ts";
import { findRelationship } from "./relationships.ts";

/** Postgres takes very long to plan many conditions that test whether a relation has rows. */
export type RowOptions = Pick<Config, "dbAggregates"> &
  Pick<RestLimits, "restMaxEmbeds" | "restMaxEmbedFilters"> & {
    /** The maximum length of each list; null without a limit. */
    readonly maxRows: number | null;
    /** The maximum length of the outermost list, if it differs. */
    readonly maxOuterRows?: number | null;
  };

type Field = Extract<SelectItem, { kind: "field" }>;
type Embed = Extract<SelectItem, { kind: "embed" }>;

/** One level of `select`: the requested rows, or those of an embedded relation. */
type Level = {
  readonly source: RowSource;
  /** Their name in error messages. */
  readonly name: string;
  /** Their paths in parameters. */
  readonly paths: readonly string[];
  readonly select: readonly SelectItem[];
  /** The relations with an alias that parameters may also refer to by name. */
  readonly knownByName: ReadonlySet<Embed>;
};

/** Resolves `select` with its conditions, order and limits, from the rows themselves to the innermost embedded rows. */
export class RowPlanner {
  readonly #catalog: Catalog;
  readonly #select: readonly SelectItem[];
  readonly #parts: Parts;
  readonly #options: RowOptions;
  #embeds = 0;
  #embedFilters = 0;

  constructor(catalog: Catalog, { select, parts }: QueryString, options: RowOptions) {
    this.#catalog = catalog;
    this.#select = select;
    this.#parts = new Parts(parts);
    this.#options = options;
  }

  /** `name` names the rows in error messages. Throws when parameters refer to relations that are not embedded. */
  plan(source: RowSource, name: string): RowsPlan {
    const rows = this.#rows(levelOf(source, name, this.#select, [""]));
    this.#parts.refuseUnused();
    return rows;
  }

  #maxRowsOf({ paths }: Level): number | null {
    const { maxRows, maxOuterRows } = this.#options;
    return maxOuterRows !== undefined && paths[0] === "" ? maxOuterRows : maxRows;
  }

  #rows(level: Level): RowsPlan {
    const { source, name, select } = level;
    const part = this.#parts.take(level.paths);
    const embeds: EmbedPlan[] = [];
    const outputs: Output[] = [];
    for (const item of select) {
      if (item.kind === "all") outputs.push({ kind: "all" });
      else if (item.kind === "field") outputs.push(this.#field(item, level));
      else {
        const embed = this.#embed(item, level);
        embeds.push(embed);
        if (embed.isShown) outputs.push({ kind: "embed", embed });
      }
    }
    const conditions = planConditions(part.conditions, { catalog: this.#catalog, source, name, embeds });
    this.#countFilters(countExists(conditions));
    const isGrouped = outputs.some(isAggregated);
    return {
      source,
      // An empty select means all columns; one that only filters by relations selects none.
      outputs: select.length === 0 ? [{ kind: "all" }] : outputs,
      embeds,
      conditions,
      order: part.order.map((term) => planOrder(term, { source, name, outputs, embeds, isGrouped })),
      limit: atMost(part.limit, this.#maxRowsOf(level)),
      offset: part.offset,
      isGrouped,
    };
  }

  #field({ field, cast, aggregate, alias }: Field, { source, name }: Level): Output {
    // `select=count` is the deprecated spelling of `count()`.
    const isDeprecatedCount = field?.name === "count" && !hasField(source, "count");
    const value: ValuePlan = {
      field: field === null || isDeprecatedCount ? null : planField(source, name, field),
      cast: this.#cast(cast),
      aggregate: isDeprecatedCount
        ? { name: "count", cast: null }
        : aggregate && { ...aggregate, cast: this.#cast(aggregate.cast) },
    };
    if (value.aggregate && !this.#options.dbAggregates) throw problem("aggregates off");
    return { kind: "field", value, alias: alias ?? keyOf(value) };
  }

  #cast(type: string | null): string | null {
    return type === null ? null : castOf(this.#catalog, type);
  }

  #embed(item: Embed, { source, name, paths, knownByName }: Level): EmbedPlan {
    if (!source.table) throw noRelationship(name, item.name, `'${name}' is not a table or view`, null);
    const isShown = showsAnything(item);
    // A relation that is not returned needs no join.
    if (isShown && ++this.#embeds > this.#options.restMaxEmbeds) throw tooManyEmbeds(this.#options.restMaxEmbeds);
    if (item.join === "inner") this.#countFilters(1);
    const relationship = findRelationship(this.#catalog, source.table, item);
    const target = this.#targetOf(source.table, item.name, relationship.target);
    const key = item.alias ?? item.name;
    const own = this.#parts.below(paths, key);
    const older = knownByName.has(item) ? this.#parts.below(paths, item.name) : [];
    const rows = this.#rows(levelOf(sourceOf(target), target.name, item.select, [...own, ...older]));
    if (item.isSpread && !relationship.isToOne && rows.isGrouped)
      throw spreadNeedsToOne("Aggregates are not implemented for one-to-many or many-to-many spreads.");
    return {
      name: key,
      olderName: older.length > 0 ? item.name : null,
      relationship,
      target,
      rows,
      isInner: item.join === "inner",
      isSpread: item.isSpread,
      isShown,
    };
  }

  #countFilters(count: number): void {
    this.#embedFilters += count;
    refuseManyFilters(this.#embedFilters, this.#options);
  }

  #targetOf(source: Table, name: string, target: { readonly schema: string; readonly name: string }): Table {
    const table = tableOf(this.#catalog, target);
    if (!table) throw noRelationship(source.name, name, `'${target.name}' is not in an exposed schema`, null);
    return table;
  }
}

export function refuseManyFilters(
  count: number,
  { restMaxEmbedFilters: max }: Pick<RowOptions, "restMaxEmbedFilters">,
): void {
  if (count > max) throw tooManyEmbedFilters(max);
}

/** How many of the conditions test whether a relation has rows. */
export const countExists = (conditions: readonly ConditionPlan[]): number =>
  conditions.reduce((sum, each) => {
    if (each.kind === "logic") return sum + countExists(each.conditions);
    return each.kind === "exists" ? sum + 1 : sum;
  }, 0);

export const sourceOf = (table: Table): RowSource => ({ table, columns: table.columns });

function levelOf(source: RowSource, name: string, select: readonly SelectItem[], paths: readonly string[]): Level {
  return { source, name, select, paths, knownByName: findKnownByName(select) };
}

/**
 * Parameters refer to a relation by its alias. Its name is deprecated, but still works for the first relation with that name,
 * unless it is the key of another relation.
 */
function findKnownByName(select: readonly SelectItem[]): ReadonlySet<Embed> {
  const embeds = select.filter((item) => item.kind === "embed");
  const keys = new Set(embeds.map(({ name, alias }) => alias ?? name));
  const first = new Map(embeds.toReversed().map((embed) => [embed.name, embed]));
  return new Set([...first.values()].filter(({ name }) => !keys.has(name)));
}

/** `a()` and `a(b(),c())` only filter. */
const showsAnything = ({ select }: Embed): boolean =>
  select.some((item) => item.kind !== "embed" || showsAnything(item));

/** The key in the response: `b` for `select=data->a->>b`, `sum` for `select=views.sum()`. */
function keyOf({ field, aggregate }: ValuePlan): string {
  if (aggregate) return aggregate.name;
  const keys = field!.path.map(({ key }) => key).filter((key) => typeof key === "string");
  const { origin } = field!;
  // The key "" is a valid step of a path, but not a name.
  return keys.findLast((key) => key !== "") ?? (origin.kind === "column" ? origin.column.name : origin.computed.name);
}

const isAggregated = (output: Output): boolean => {
  if (output.kind === "field") return output.value.aggregate !== null;
  return output.kind === "embed" && output.embed.isSpread && output.embed.rows.isGrouped;
};

const atMost = (limit: number | null, max: number | null): number | null =>
  limit === null ? max : max === null ? limit : Math.min(limit, max);

/** The conditions, order and limits of each relation, by the paths that parameters use: `author.posts`. */
export class Parts {
  readonly #parts: QueryString["parts"];
  readonly #taken = new Set<string>();

  constructor(parts: QueryString["parts"]) {
    this.#parts = parts;
  }

  /** Combines the parameters of all these paths. All conditions apply; the first path with an order, limit or offset wins. */
  take(paths: readonly string[]): QueryPart {
    for (const path of paths) this.#taken.add(path);
    const found = paths.map((path) => this.#parts.get(path)).filter((part) => part !== undefined);
    return {
      conditions: found.flatMap(({ conditions }) => conditions),
      order: found.find(({ order }) => order.length > 0)?.order ?? [],
      limit: found.find(({ limit }) => limit !== null)?.limit ?? null,
      offset: found.find(({ offset }) => offset > 0)?.offset ?? 0,
    };
  }

  /** The paths by which parameters refer to a nested relation. */
  below(paths: readonly string[], name: string): string[] {
    return paths.map((path) => (path === "" ? name : `${path}.${name}`)).filter((path) => this.#isUsed(path));
  }

  #isUsed(path: string): boolean {
    for (const each of this.#parts.keys()) if (each === path || each.startsWith(`${path}.`)) return true;
    return false;
  }

  /** Throws when parameters refer to a relation that was not taken. */
  refuseUnused(): void {
    for (const path of this.#parts.keys()) if (!this.#taken.has(path)) throw notEmbedded(path);
  }
}
