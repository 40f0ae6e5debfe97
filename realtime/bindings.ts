import { crc32 } from "node:zlib";
import type { Caller } from "../db/caller.ts";
import { type Catalog, quoteName, type TableName, tableOf } from "../db/catalog/catalog.ts";
import type { ChangeFeed } from "../db/changes/feed.ts";
import type { LostChanges } from "../db/changes/lost-changes.ts";
import type { Subscriber } from "../db/delivery/subscriber.ts";
import { FilterError } from "../db/rights/filter.ts";
import { columnsRead, type Rights } from "../db/rights/rights.ts";
import type { View, VisibleChange, Watch } from "../db/rights/watch.ts";
import type { Problem } from "../problems/problem.ts";
import { parseFilter } from "./filter.ts";
import type { BindingRequest } from "./join.ts";
import { malformed, mayNotSee, notPossible } from "./problem.ts";
import type { ChangeMessages, ChangeView } from "./serializer.ts";

/** The changes of one table for one binding of a channel. */
export type ChangeWatch = Watch & {
  readonly binding: Binding;
  readonly subscriber: ChangeSubscriber;
  /** What the role may read. */
  view: ChangeView;
  /** Why no DELETE of the table arrives; null if they arrive. */
  readonly lost: string | null;
};

/** The subscriber of a channel. */
export type ChangeSubscriber = Subscriber<ChangeWatch, ChangeMessages>;

/** A binding of a join, with the id that the reply to the join gives it. */
export type Binding = {
  readonly request: BindingRequest;
  /** Equal for equal bindings. */
  readonly id: number;
};

export type BindingsOptions = {
  readonly feed: Pick<ChangeFeed, "lostChanges">;
  readonly rights: Pick<Rights, "attempt" | "view" | "prepareFilter" | "catalog">;
};

/** Turns the bindings of channels into watches of tables. */
export class Bindings {
  readonly #options: BindingsOptions;
  readonly #views = new WeakMap<View, Map<string, ChangeView>>();

  constructor(options: BindingsOptions) {
    this.#options = options;
  }

  /** The bindings with their ids, in order. Different bindings of a channel have different ids. */
  number(requests: readonly BindingRequest[]): Binding[] {
    const byId = new Map<number, string>();
    return requests.map((request) => {
      const { event, schema, table, filter, select } = request;
      const text = JSON.stringify([event, schema, table, filter, select]);
      let id = crc32(text) || 1;
      while ((byId.get(id) ?? text) !== text) id++;
      byId.set(id, text);
      return { request, id };
    });
  }

  /**
   * The watches for the bindings of a caller: equal bindings have the same, because they have one id, which each change names once. Throws
   * Problem with the reason if a binding is not possible.
   */
  watches(bindings: readonly Binding[], caller: Caller, subscriber: ChangeSubscriber): Promise<ChangeWatch[]> {
    return this.#options.rights.attempt(async () => {
      const watches: ChangeWatch[] = [];
      for (const binding of new Map(bindings.map((each) => [each.id, each])).values())
        watches.push(...(await this.#watchesOf(binding, caller, subscriber)));
      return watches;
    });
  }

  /** Updates the view of a watch, because DDL may have changed the columns that the role may read. */
  refresh({ watch, view }: VisibleChange<ChangeWatch>): void {
    if (watch.view.of !== view) watch.view = this.#viewOf(view, watch.binding.request.select);
  }

  async #watchesOf(binding: Binding, caller: Caller, subscriber: ChangeSubscriber): Promise<ChangeWatch[]> {
    const { event, schema, table, isPartial } = binding.request;
    if (schema === null || table === null) return this.#watchAll(binding, caller, subscriber);
    const watch = await this.#watchTable(binding, { schema, name: table }, caller, subscriber);
    if (watch.lost !== null && event === "DELETE" && !isPartial)
      throw notPossible(`${watch.lost}. To subscribe nevertheless, set postgres_changes_options.partial`);
    return [watch];
  }

  async #watchTable(
    binding: Binding,
    name: TableName,
    caller: Caller,
    subscriber: ChangeSubscriber,
  ): Promise<ChangeWatch> {
    const { catalog } = this.#options.rights;
    const { event, filter, select } = binding.request;
    const table = tableOf(catalog, name);
    if (!table) throw notPossible(absence(catalog, name));
    const view = await this.#options.rights.view(name, caller.role);
    if ("refusal" in view) throw mayNotSee(view.refusal);
    for (const column of select ?? []) {
      if (!table.columns.has(column))
        throw malformed(`${name.schema}.${name.name} has no column "${column}" to select`);
      if (!view.columns.has(column)) throw mayNotSee(`the role ${caller.role} may not read the column ${column}`);
    }
    const prepared = await this.#prepareFilter(filter, name, view, caller.role);
    const { all, deletes } = await this.#options.feed.lostChanges(name, columnsRead(view, prepared?.columns.keys()));
    if (all !== null) throw notPossible(lostAll(name, all));
    const lost = deletes && lostDeletes(name, deletes);
    return {
      table: name,
      lost,
      lapse: lapseOf(name, event, lost),
      caller,
      filter: prepared,
      selected: select && new Set(select),
      binding,
      subscriber,
      view: this.#viewOf(view, select),
    };
  }

  async #prepareFilter(text: string, name: TableName, view: View, role: string) {
    try {
      const request = parseFilter(text);
      if (request === null) return null;
      const filter = await this.#options.rights.prepareFilter(request, name, role);
      for (const column of filter.columns.keys()) {
        if (!view.columns.has(column)) throw mayNotSee(`the role ${role} may not read the column ${column}`);
      }
      return filter;
    } catch (error) {
      throw error instanceof FilterError ? malformed(error.message) : error;
    }
  }

  /** All tables that the caller may see. */
  async #watchAll(binding: Binding, caller: Caller, subscriber: ChangeSubscriber): Promise<ChangeWatch[]> {
    const { schema, filter, select } = binding.request;
    if (filter !== "" || select !== null) throw malformed("filter and select require a table");
    const { catalog } = this.#options.rights;
    if (schema !== null && !catalog.schemas.has(schema)) throw notPossible(absence(catalog, { schema, name: "*" }));
    const schemas = [...catalog.schemas.values()].filter(({ name }) => schema === null || name === schema);
    const tables = schemas.flatMap((each) => [...each.tables.values()]);
    const watching = tables.map(({ schema, name }) => this.#watchTable(binding, { schema, name }, caller, subscriber));
    const settled = await Promise.allSettled(watching);
    const watches = settled.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
    const errors = settled.flatMap((each) => (each.status === "rejected" ? [each.reason as Partial<Problem>] : []));
    const lost = errors.find(({ reason }) => reason === "channel not possible");
    const fault = errors.find(({ reason }) => reason !== "may not see" && reason !== "channel not possible");
    if (fault) throw fault;
    if (watches.length > 0) return watches;
    throw lost ?? mayNotSee(`the role ${caller.role} may not read the changes of any table`);
  }

  /** The selected columns and the primary key, as far as the role may read them. */
  #viewOf(view: View, select: readonly string[] | null): ChangeView {
    const { columns, primaryKey } = view.table;
    const views = this.#views.get(view) ?? new Map<string, ChangeView>();
    this.#views.set(view, views);
    const selected = new Set(select ? [...primaryKey, ...select] : columns.keys()).intersection(view.columns);
    const name = JSON.stringify([...selected].sort());
    const known = views.get(name) ?? {
      of: view,
      name,
      columns: selected,
      key: new Set(primaryKey).intersection(selected),
    };
    views.set(name, known);
    return known;
  }
}

const lostAll = ({ schema, name }: TableName, reason: string) =>
  `subscribers receive no changes of ${schema}.${name}: ${reason}`;

const lostDeletes = ({ schema, name }: TableName, reason: string) =>
  `subscribers receive no DELETE of ${schema}.${name}: ${reason}`;

/** Why a channel must join again: it wants what is lost now. `known` is the loss that it has been sent. */
const lapseOf =
  (name: TableName, event: BindingRequest["event"], known: string | null) =>
  ({ all, deletes }: LostChanges): string | null => {
    if (all !== null) return lostAll(name, all);
    return deletes !== null && known === null && wantsDeletes(event) ? lostDeletes(name, deletes) : null;
  };

export const wantsDeletes = (event: BindingRequest["event"]): boolean => event === "*" || event === "DELETE";

function absence(catalog: Catalog, { schema, name }: TableName): string {
  if (catalog.schemas.has(schema)) return `there is no table ${quoteName({ schema, name })}`;
  return `the schema ${schema} is not served: the served ones are ${[...catalog.schemas.keys()].join(", ")}`;
}
