import { GraphQLError } from "postgraphile/graphql";
import { camelCase } from "../../config/setting-types.ts";
import type { Holding } from "../../db/admission/byte-budget.ts";
import { pieces } from "../../db/admission/pieces.ts";
import type { Caller } from "../../db/caller.ts";
import type { Change } from "../../db/changes/change.ts";
import type { ChangeFeed } from "../../db/changes/feed.ts";
import { columnIndexesOf, imageJson } from "../../db/changes/json.ts";
import type { LostChanges } from "../../db/changes/lost-changes.ts";
import type { Start } from "../../db/changes/position.ts";
import { formerNames, presentTable } from "../../db/changes/present-table.ts";
import { feedGap } from "../../db/changes/reader.ts";
import { Delivery } from "../../db/delivery/delivery.ts";
import type { Subscriber } from "../../db/delivery/subscriber.ts";
import { WatchEnded } from "../../db/delivery/watch-group.ts";
import { allOf, filterOf } from "../../db/filters/condition.ts";
import type { Checker } from "../../db/rights/checker.ts";
import { FilterError, type FilterRequest, type PreparedFilter } from "../../db/rights/filter.ts";
import { watchBytes } from "../../db/rights/filter-size.ts";
import { columnsRead, type Rights } from "../../db/rights/rights.ts";
import type { VisibleChange, Watch } from "../../db/rights/watch.ts";
import { problem } from "../../problems/problem.ts";

/** The changes that a subscriber receives: those of one table whose columns have these values and fulfil the filter. */
export type ChangeFilter = {
  readonly schema: string;
  readonly table: string;
  /** The columns of its primary key, by which its rows are read. */
  readonly key: readonly string[];
  /** The columns that the schema of the subscription has, and their numbers in pg_attribute. */
  readonly columns: ReadonlyMap<string, number>;
  readonly operations: readonly Change["operation"][];
  readonly where: Readonly<Record<string, string>>;
  readonly filter: FilterRequest | null;
  /** Whether events have the old row, and an UPDATE that takes a row out of view is a DELETE. */
  readonly isWhole: boolean;
};

/** A change that the subscriber may see. */
export type ChangeEvent = {
  readonly operation: Change["operation"];
  /** The columns of the new row that the subscriber may read; null for a DELETE. */
  readonly row: Readonly<Record<string, string | null | undefined>> | null;
  /** A JSON array with the old row, as far as it is logged and the subscriber could see it; null if the event has none. */
  readonly old: string | null;
};

export type SubscriberOptions = {
  readonly caller: Caller;
  /** The position after which the events begin, as text; null for now. */
  readonly since: string | null;
  /** Counts the memory of the subscription. */
  readonly holding: Holding;
};

type Received = { readonly event: ChangeEvent; readonly position: Start };

/** Events that may wait for a subscriber whose rows are read slowly, before it is set aside until it has dealt with all. */
const MAX_WAITING = 1000;

/** The changes for all GraphQL subscriptions. */
export class Subscriptions {
  readonly checker: Checker;
  readonly #feed: ChangeFeed;
  readonly #rights: Rights;
  readonly #delivery: Delivery<ChangeEvents, Change>;
  /** The subscriptions that have started and receive every later commit. */
  readonly #active = new Set<ChangeEvents>();

  constructor(feed: ChangeFeed, rights: Rights) {
    this.checker = rights.checker;
    this.#feed = feed;
    this.#rights = rights;
    this.#delivery = new Delivery<ChangeEvents, Change>(feed, rights, (change) => change);
  }

  /** The number of active subscriptions. */
  get size(): number {
    return this.#active.size;
  }

  /** Every change up to here that the subscriber sees has been handed out. */
  positionOf(events: ChangeEvents): Start | undefined {
    return this.#delivery.positionOf(events);
  }

  textOf(position: Start): string {
    return this.#feed.textOf(position);
  }

  /** The matching changes that are committed from now on, or after the position `since`. */
  open(wanted: ChangeFilter, { caller, since, holding }: SubscriberOptions): ChangeEvents {
    const events = new ChangeEvents(wanted, caller, () => {
      this.#delivery.delete(events);
      this.#active.delete(events);
    });
    events.begun = this.#add(events, since, holding).then(
      () => void (!events.hasEnded && this.#active.add(events)),
      (error: Error) => events.end(error),
    );
    return events;
  }

  async #add(events: ChangeEvents, since: string | null, holding: Holding): Promise<void> {
    await this.#rights.attempt(() => this.#describe(events));
    if (!events.hasEnded && !holding.take(watchBytes(events))) throw problem("subscriptions too large");
    await this.#delivery.open();
    const start = since === null ? undefined : this.#feed.startOf(since);
    if (start === null) throw invalid("a subscription can begin only at the position of an event or of a query");
    if (!events.hasEnded) this.#delivery.start([events], start);
  }

  /** Rejects with Problem if the caller cannot receive the changes. */
  async #describe(events: ChangeEvents): Promise<void> {
    const { table, caller } = events;
    const view = await this.#rights.view(table, caller.role);
    if ("refusal" in view) throw refused(view.refusal);
    try {
      events.filter = await this.#filterOf(events);
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      throw invalid(error.message, await this.#refusedArgument(events));
    }
    const columns = [...(events.filter?.columns.keys() ?? [])];
    const hidden = columns.find((column) => !view.columns.has(column));
    if (hidden !== undefined) throw refused(`the role ${caller.role} may not read the column ${hidden}`);
    const lost = events.lapse(await this.#feed.lostChanges(table, columnsRead(view, columns)));
    if (lost !== null) throw refused(lost);
  }

  #filterOf({ wanted, table, caller }: ChangeEvents): PreparedFilter | null | Promise<PreparedFilter> {
    const equal = Object.entries(wanted.where).map(equals);
    const request = allOf<string, string | null, never>(wanted.filter ? [...equal, wanted.filter] : equal);
    return request && this.#rights.prepareFilter(request, table, caller.role);
  }

  /** The argument whose value no row can have, such as an id that is not a number; null if it is another part of the filter. */
  async #refusedArgument({ wanted, table, caller }: ChangeEvents): Promise<string | null> {
    for (const condition of Object.entries(wanted.where))
      try {
        await this.#rights.prepareFilter(equals(condition), table, caller.role);
      } catch (error) {
        if (error instanceof FilterError) return camelCase(condition[0]);
        throw error;
      }
    return null;
  }
}

function eventOf(change: Change, { watch, view, event, seesOld }: VisibleChange<ChangeEvents>): ChangeEvent {
  const { new: current, old } = change;
  const table = presentTable(change.table, view.table);
  const columns = columnIndexesOf(table, view.columns).map((i) => [table.columns[i]!.name, current?.[i]] as const);
  const row = event === "DELETE" ? null : Object.fromEntries(columns);
  if (event === "INSERT" || (event === "UPDATE" && !watch.wanted.isWhole)) return { operation: event, row, old: null };
  const shown = seesOld && old ? view.columns : view.columns.intersection(new Set(view.table.primaryKey));
  const indexes = columnIndexesOf(table, shown);
  const former = formerNames(watch.wanted.columns, view.table, table).filter(([, i]) => indexes.includes(i));
  const json = imageJson(table, old ?? current!, indexes, former);
  return { operation: event, row, old: `[${json}]` };
}

/** The changes for one subscription, in order. Each is returned by `next` after the previous one has been processed. */
export class ChangeEvents implements AsyncIterableIterator<ChangeEvent>, Watch, Subscriber<ChangeEvents, Change> {
  readonly subscriber = this;
  readonly wanted: ChangeFilter;
  readonly table: Watch["table"];
  readonly selected: ReadonlySet<string>;
  readonly caller: Caller;
  filter: PreparedFilter | null = null;
  /** Why the events have ended; null if the subscriber has ended them. */
  error: Error | null = null;
  hasEnded = false;
  /** Resolves when later commits are received and the position is known, or the events have ended. */
  begun: Promise<void> = Promise.resolve();
  /** Positions of the events that have been handed out, for their results. */
  readonly positions: Start[] = [];
  readonly #onEnd: () => void;
  #received: Received[] = [];
  #pending: PromiseWithResolvers<IteratorResult<ChangeEvent>> | null = null;
  #idle: PromiseWithResolvers<void> | null = null;

  constructor(wanted: ChangeFilter, caller: Caller, onEnd: () => void) {
    this.wanted = wanted;
    this.table = { schema: wanted.schema, name: wanted.table };
    this.selected = new Set(wanted.key);
    this.caller = caller;
    this.#onEnd = onEnd;
  }

  /** Why the subscription is not possible if this is lost. */
  lapse({ all, deletes }: LostChanges): string | null {
    const { wanted, table } = this;
    const lost = all ?? (wanted.operations.includes("DELETE") ? deletes : null);
    if (lost === null) return null;
    const way = all === null && wanted.isWhole ? ". To receive the others, subscribe to INSERT and UPDATE" : "";
    return `changes of ${table.schema}.${table.name} are not available: ${lost}${way}`;
  }

  /** Events that have not been handed out. */
  get waiting(): number {
    return this.#received.length;
  }

  receive([seen]: readonly VisibleChange<ChangeEvents>[], change: Change, position: Start): void {
    const { event, left } = seen!;
    const { operations, isWhole } = this.wanted;
    if (change.operation === "TRUNCATE") {
      if (operations.includes("DELETE")) this.end(feedGap());
      return;
    }
    if (!operations.includes(event) || (left !== null && !isWhole)) return;
    this.#received.push({ event: eventOf(change, seen!), position });
    this.#handOutLater();
  }

  fail(_watch: ChangeEvents, { message }: Error): void {
    this.end(refused(message));
  }

  /** When too many events wait, it is ready again when every one has been dealt with. */
  untilReady(): Promise<void> | null {
    if (this.hasEnded || this.waiting <= MAX_WAITING) return null;
    this.#idle ??= Promise.withResolvers();
    return this.#idle.promise;
  }

  /** The subscription gets this error instead of further events. */
  end(error: Error | null): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    this.error = error instanceof WatchEnded ? refused(error.message) : error;
    this.#received = [];
    this.#onEnd();
    this.#rest();
    if (this.error) this.#pending?.reject(this.error);
    else this.#pending?.resolve({ value: undefined, done: true });
  }

  next(): Promise<IteratorResult<ChangeEvent>> {
    if (this.hasEnded) return this.error ? Promise.reject(this.error) : this.return();
    const pending = Promise.withResolvers<IteratorResult<ChangeEvent>>();
    this.#pending = pending;
    this.#handOutLater();
    return pending.promise;
  }

  async return(): Promise<IteratorResult<ChangeEvent>> {
    this.end(null);
    return { value: undefined, done: true };
  }

  throw(): Promise<IteratorResult<ChangeEvent>> {
    return this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** With an event, a query begins. */
  #handOutLater(): void {
    if (!this.#pending) return;
    if (this.#received.length === 0) this.#rest();
    else pieces.start(this.#handOut);
  }

  readonly #handOut = (): void => {
    const pending = this.#pending;
    const received = pending && this.#received.shift();
    if (!received) return;
    this.positions.push(received.position);
    pending.resolve({ value: received.event, done: false });
    this.#pending = null;
  };

  #rest(): void {
    this.#idle?.resolve();
    this.#idle = null;
  }
}

const equals = ([column, value]: [string, string]) => filterOf<string, string>(column, "eq", value);

/** `argument`: the one that is named in `extensions.fields`. */
function invalid(message: string, argument: string | null = null): Error {
  const originalError = problem("invalid request", { message });
  const fields = argument && [{ field: argument, message, code: originalError.code }];
  return fields ? new GraphQLError(message, { originalError, extensions: { fields } }) : originalError;
}
const refused = (message: string) => problem("not permitted", { message });
