import type { Caller } from "../../../db/caller.ts";
import type { ChangeFeed } from "../../../db/changes/feed.ts";
import type { Start } from "../../../db/changes/position.ts";
import { isFeedGap } from "../../../db/changes/reader.ts";
import { Delivery } from "../../../db/delivery/delivery.ts";
import type { Subscriber } from "../../../db/delivery/subscriber.ts";
import { allOf } from "../../../db/filters/condition.ts";
import type { Plan, ReadPlan } from "../../../db/query/plan.ts";
import { FilterError, filterRequestOf, type PreparedFilter } from "../../../db/rights/filter.ts";
import { watchBytes } from "../../../db/rights/filter-size.ts";
import { columnsRead, type Rights } from "../../../db/rights/rights.ts";
import type { VisibleChange, Watch } from "../../../db/rights/watch.ts";
import type { RequestContext } from "../../../db/transaction/identity.ts";
import type { EventStream, EventStreams } from "../../../gate/pipeline/event-stream.ts";
import type { Exchange } from "../../../gate/pipeline/exchange.ts";
import type { CallerRules } from "../../../identity/caller-resolver.ts";
import type { SocketCallers } from "../../../identity/socket-caller.ts";
import { Problem, problem } from "../../../problems/problem.ts";
import { parseAccept } from "../../conventions/headers.ts";
import { shapeOf } from "../parse/request.ts";
import { streamNotPossible, streamRefused } from "../problem.ts";
import type { TableRequest } from "../request.ts";
import { ChangeEvent } from "./change-event.ts";

/** A client that watches a table. */
export type TableWatch = Watch & {
  readonly subscriber: Subscriber<TableWatch, ChangeEvent>;
  readonly selected: ReadonlySet<string> | null;
  readonly stream: EventStream;
  readonly requestId: string;
  /** Reads the rows. */
  read(): Promise<TableSnapshot>;
};

/** The rows of a table, and the position after which changes follow them. */
export type TableSnapshot = { readonly json: string; readonly start: Start };

export type TableStreamsOptions = {
  readonly feed: ChangeFeed;
  readonly rights: Rights;
  readonly streams: EventStreams;
  readonly callers: SocketCallers;
  onInternalError(error: unknown, requestId: string): void;
};

export type StreamRequest = {
  readonly exchange: Exchange;
  readonly request: TableRequest;
  readonly context: RequestContext;
  readonly plan: Plan;
  readonly caller: Caller;
  readonly callerRules: CallerRules;
  /** Rejects with Problem and the errors of Postgres. */
  read(): Promise<TableSnapshot>;
};

/** What a stream takes beside its filter. Measured: 29,200 bytes. */
const STREAM_BYTES = 30_000;

const JSON_ONLY = parseAccept("application/json");

/** The request for the rows. */
export function snapshotRequest(request: TableRequest): TableRequest {
  const rows = { ...request, accept: JSON_ONLY, isSnapshot: true };
  return { ...rows, shape: shapeOf(rows) };
}

/** `GET /rest/v1/<table>` with `Accept: text/event-stream`: an event with the rows, and then an event for each change. */
export class TableStreams {
  readonly #options: TableStreamsOptions;
  readonly #delivery: Delivery<TableWatch, ChangeEvent>;

  constructor(options: TableStreamsOptions) {
    const { feed, rights } = options;
    this.#options = options;
    this.#delivery = new Delivery(feed, rights, (change) => new ChangeEvent(change));
  }

  get size(): number {
    return this.#delivery.size;
  }

  /** Rejects with Problem if the request cannot be served. */
  async serve({ exchange, request, context, plan, caller, callerRules, read }: StreamRequest): Promise<void> {
    const { feed, rights, streams, callers } = this.#options;
    const { watched, warning } = await rights.attempt(() => this.#describe(request, plan, caller));
    streams.reserve(exchange, STREAM_BYTES + watchBytes({ filter: watched.filter, caller }));
    const since = await this.#sinceOf(exchange);
    if (since !== null) await rights.checker.admit({ caller, request: context });
    // The errors of the first read are ordinary responses.
    const first = since === null ? await read() : null;
    if (exchange.response.destroyed) return;

    const stream = streams.open(exchange, () => {
      const position = this.#delivery.positionOf(watch);
      return position && feed.textOf(position);
    });
    if (warning !== null) stream.send({ event: "warning", data: JSON.stringify({ message: warning }) });
    const subscriber: Subscriber<TableWatch, ChangeEvent> = {
      receive: ([seen], event, position) => this.#send(seen!, event, position),
      fail: (_, { message }) => sendProblem(watch, message),
      end: (error) => this.#end(watch, error),
      untilReady: () => (stream.isBehind ? new Promise<void>((resolve) => stream.onceTaken(resolve)) : null),
    };
    const watch: TableWatch = { ...watched, caller, subscriber, stream, read, requestId: exchange.head.requestId };
    const onEnded = (message: string) => this.#end(watch, new Error(message));
    const watching = callers.open(caller, { resolve: () => exchange.identity.caller(callerRules), onEnded });
    stream.onceClosed(() => {
      watching.close();
      this.#delivery.delete(watch);
    });
    try {
      if (first) await this.#begin(watch, first);
      else await this.#resume(watch, since!);
    } catch (error) {
      this.#fail(watch, error);
    }
  }

  async #begin(watch: TableWatch, { json, start }: TableSnapshot): Promise<void> {
    watch.stream.send({ event: "snapshot", data: json, id: this.#options.feed.textOf(start) });
    await this.#add(watch, start);
  }

  /** If the changes since then are no longer kept, the client gets the rows again. */
  async #resume(watch: TableWatch, since: Start): Promise<void> {
    try {
      await this.#add(watch, since);
    } catch (error) {
      if (!isFeedGap(error)) throw error;
      await this.#restart(watch);
    }
  }

  async #restart(watch: TableWatch): Promise<void> {
    this.#delivery.delete(watch);
    watch.stream.send({ event: "gap", data: "{}" });
    await this.#begin(watch, await watch.read());
  }

  async #add(watch: TableWatch, since: Start): Promise<void> {
    await this.#delivery.open();
    if (!watch.stream.isClosed) this.#delivery.start([watch], since);
  }

  #send(seen: VisibleChange<TableWatch>, event: ChangeEvent, position: Start): void {
    const { watch } = seen;
    if (seen.event === "TRUNCATE") this.#restart(watch).catch((error) => this.#fail(watch, error));
    else watch.stream.send({ event: seen.event, data: event.dataFor(seen), id: this.#options.feed.textOf(position) });
  }

  #fail(watch: TableWatch, error: unknown): void {
    if (!isExpected(error)) this.#options.onInternalError(error, watch.requestId);
    this.#end(watch, isExpected(error) ? error : new Error("the stream was ended by an internal error"));
  }

  /** The client connects again, with the id of the last event. */
  #end(watch: TableWatch, error: Error): void {
    this.#delivery.delete(watch);
    try {
      if (!isExpected(error)) sendProblem(watch, error.message);
    } finally {
      watch.stream.end();
    }
  }

  /** Null without the header: the client gets the rows first. */
  async #sinceOf({ request }: Exchange): Promise<Start | null> {
    const { feed } = this.#options;
    await feed.open();
    const text = request.headers["last-event-id"];
    if (text === undefined || text === "") return null;
    const since = typeof text === "string" ? feed.startOf(text) : null;
    if (!since) throw problem("bad event id");
    return since;
  }

  async #describe(request: TableRequest, plan: Plan, { role }: Caller) {
    if (plan.kind !== "read") throw streamNotPossible("changes of the results of functions cannot be streamed");
    const { rights, feed } = this.#options;
    const { schema, name } = plan.table;
    const table = { schema, name };
    const view = await rights.view(table, role);
    if ("refusal" in view) throw streamRefused(view.refusal);
    const selected = selectedColumns(plan);
    refuseHidden(role, selected ?? [], view.columns);
    const filter = await this.#filterOf(request, plan, role);
    refuseHidden(role, filter?.columns.keys() ?? [], view.columns);
    const { all, deletes } = await feed.lostChanges(table, columnsRead(view, filter?.columns.keys()));
    const lostAll = (reason: string) => `changes of ${schema}.${name} cannot be streamed: ${reason}`;
    const lostDeletes = (reason: string) => `the stream has no DELETE of ${schema}.${name}: ${reason}`;
    if (all !== null) throw streamNotPossible(lostAll(all));
    const warning = deletes && lostDeletes(deletes);
    const lapse: TableWatch["lapse"] = (now) => {
      if (now.all !== null) return lostAll(now.all);
      return now.deletes !== null && warning === null ? lostDeletes(now.deletes) : null;
    };
    return { watched: { table, selected, filter, lapse }, warning };
  }

  async #filterOf({ query, values }: TableRequest, { table }: ReadPlan, role: string): Promise<PreparedFilter | null> {
    try {
      const wanted = allOf(query.parts.get("")?.conditions ?? []);
      return wanted && (await this.#options.rights.prepareFilter(filterRequestOf(wanted, values), table, role));
    } catch (error) {
      if (error instanceof FilterError) throw streamNotPossible(error.message);
      throw error;
    }
  }
}

function refuseHidden(role: string, columns: Iterable<string>, readable: ReadonlySet<string>): void {
  for (const column of columns)
    if (!readable.has(column)) throw streamRefused(`the role ${role} may not read the column ${column}`);
}

/** Null for all columns. Throws Problem for anything else than columns. */
function selectedColumns({ rows }: ReadPlan): ReadonlySet<string> | null {
  if (rows.embeds.length > 0) throw streamNotPossible("a stream of changes cannot embed other tables");
  const names = new Set<string>();
  for (const output of rows.outputs) {
    if (output.kind === "all") return null;
    const origin = output.kind === "field" ? output.value.field?.origin : undefined;
    const isPlain =
      output.kind === "field" &&
      origin?.kind === "column" &&
      output.alias === origin.column.name &&
      output.value.field!.path.length === 0 &&
      output.value.cast === null &&
      output.value.aggregate === null;
    if (!isPlain) throw streamNotPossible("a stream of changes can select columns only, without aliases and casts");
    names.add(output.alias);
  }
  return names;
}

const sendProblem = ({ stream }: TableWatch, message: string) =>
  stream.send({ event: "problem", data: JSON.stringify({ message }) });

const isExpected = (error: unknown): error is Problem =>
  isFeedGap(error) || (error instanceof Problem && error.reason === "changes unavailable");
