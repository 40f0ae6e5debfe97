import type { IncomingMessage } from "node:http";
import type { Caller } from "../../db/caller.ts";
import type { Catalog } from "../../db/catalog/catalog.ts";
import type { ChangeFeed } from "../../db/changes/feed.ts";
import { startAfter } from "../../db/changes/position.ts";
import type { Database } from "../../db/database.ts";
import type { Plan } from "../../db/query/plan.ts";
import { type RefusedValue, refusedValuesOf } from "../../db/query/refused-row.ts";
import { RESULT } from "../../db/query/result.ts";
import { run, runStreamed } from "../../db/query/run.ts";
import type { ReplicatedRequest } from "../../db/replicas/replicas.ts";
import type { Identity } from "../../db/transaction/identity.ts";
import type { SlowStreams } from "../../gate/limits/slow-streams.ts";
import { readBytes } from "../../gate/pipeline/body.ts";
import type { Destination, Exchange } from "../../gate/pipeline/exchange.ts";
import { contextOfExchange } from "../../gate/pipeline/exchange.ts";
import type { HttpInterface } from "../../gate/pipeline/pipeline.ts";
import { ClientGone } from "../../gate/pipeline/response.ts";
import type { CallerRules } from "../../identity/caller-resolver.ts";
import type { Problem } from "../../problems/problem.ts";
import { type DataExchange, DataInterface, type DataOptions, type Reader } from "../conventions/data-interface.ts";
import { positionHeader } from "../conventions/headers.ts";
import type { TaskQueue } from "../tasks/task-handler.ts";
import { type Answer, answer, answerStreamed, type StreamedAnswer } from "./answer/answer.ts";
import { internalProblem, problemOf } from "./answer/error-mapping.ts";
import { bodyLimitOf, refuseLongStream, wantsStream } from "./parse/headers.ts";
import { readLargeBody } from "./parse/large-body.ts";
import { BASE, countQuery, parseRequest, parseUrl, withQueryInUrl } from "./parse/request.ts";
import { allowedMethods } from "./plan/request.ts";
import { Planner, type PlannerOptions } from "./planner.ts";
import { type TableProblem, tableAnswer } from "./problem.ts";
import {
  type ParseLimits,
  type PlannedRequest,
  QUERY_TYPE,
  type RequestText,
  type RequestUrl,
  type TableRequest,
} from "./request.ts";
import { Stopwatch, sendAnswer, sendStream, sendTableProblem } from "./send.ts";
import { snapshotRequest, type TableSnapshot, type TableStreams } from "./stream/stream.ts";
import { acceptTask, isTask, taskOf } from "./task.ts";

export type TableOptions = PlannerOptions &
  DataOptions & {
    readonly database: Pick<Database, "forRole" | "budget" | "replicas">;
    readonly limits: ParseLimits;
    /** The maximum size of a body in bytes. */
    readonly maxBodySize: number;
    /** Null when tasks are off. */
    readonly tasks: TaskQueue | null;
    /** Milliseconds that a streamed response may take; 0 means no limit. */
    readonly streamTimeout: number;
    readonly slowStreams: SlowStreams;
    readonly callerRules: CallerRules;
    readonly feed: ChangeFeed;
    readonly streams: TableStreams;
    /** A description of the interface, at `/rest/v1/`, `/rest/v1/openapi.json` or `/rest/v1/types.ts`; null if there is a table of this name. */
    document(path: string, request: IncomingMessage, caller: Caller, catalog: Catalog): Answer | null;
  };

type TableExchange = DataExchange & {
  readonly url: RequestUrl;
  readonly stopwatch: Stopwatch;
  plan: Plan | null;
  /** The values in the body that the database has refused. */
  refused: readonly RefusedValue[];
  /** Aborted when the client disconnects. */
  gone: ClientGone | null;
};

/** A planned request, and who sends it. */
type SentRequest = {
  readonly request: TableRequest;
  readonly planned: PlannedRequest;
  readonly caller: Caller;
  readonly exchange: TableExchange;
  readonly replicated: ReplicatedRequest | undefined;
};

/** `/rest/v1`: credential → parse → plan → write → run → answer. */
export class TableInterface
  extends DataInterface<TableExchange, Answer | StreamedAnswer | null, TableProblem, TableOptions>
  implements HttpInterface
{
  readonly hasFilters = true;
  #planner: Planner;

  constructor(options: TableOptions) {
    super(options);
    this.#planner = new Planner(options);
  }

  /** Applies changed settings. */
  follow(options: TableOptions): void {
    this.options = options;
    this.#planner = new Planner(options);
  }

  /** Responds with a problem of the pipeline. */
  reject(destination: Destination, problem: Problem): void {
    sendTableProblem(destination, tableAnswer(problem));
  }

  protected open({ request, response, head, identity, countMore }: Exchange): TableExchange {
    const { span } = head.notes;
    const stopwatch = new Stopwatch(span);
    const url = parseUrl(request.url!);
    head.notes.route = routeOf(url.path);
    return {
      request,
      response,
      head,
      identity,
      countMore,
      url,
      stopwatch,
      caller: null,
      isWritten: false,
      plan: null,
      refused: [],
      gone: null,
    };
  }

  protected async send(exchange: TableExchange, answered: Answer | StreamedAnswer | null): Promise<void> {
    exchange.stopwatch.mark("response");
    if (answered === null) return;
    if (!("parts" in answered)) return sendAnswer(exchange, answered);
    const { database, slowStreams } = this.options;
    const { network } = exchange.identity;
    await sendStream(exchange, answered, { gone: exchange.gone!, network, budget: database.budget, slowStreams });
  }

  /** Null if the response is a stream of changes, which has begun. */
  protected async answer(exchange: TableExchange): Promise<Answer | StreamedAnswer | null> {
    const { maxBodySize, catalog, limits } = this.options;
    const { request, url, stopwatch } = exchange;
    const method = request.method!;
    const caller = await exchange.identity.caller(this.options.callerRules);
    exchange.caller = caller;
    stopwatch.mark("jwt");
    const path = pathOf(url);
    const document = DOCUMENTS.has(path) ? this.options.document(path, request, caller, catalog.current) : null;
    if (document) return document;

    const body = HAS_BODY.has(method) ? await readBytes(request, bodyLimitOf(request, maxBodySize)) : null;
    const sent = withQueryInUrl({ method, url, headers: request.headers, body });
    refuseLongStream(sent);
    countQuery(sent.url, (cost) => exchange.countMore(exchange.identity.nameOf(caller), cost));
    const text = sent.body === null ? sent : await readLargeBody(sent, limits.jsonMaxDepth);
    const parsed = parseRequest(text, limits);
    if (method === "OPTIONS") return allow(allowedMethods(parsed, catalog.current));
    stopwatch.mark("parse");
    return this.attempt<Answer | StreamedAnswer | null>(exchange, () =>
      wantsStream(parsed) ? this.#stream(parsed, caller, exchange) : this.#serve(parsed, text, caller, exchange),
    );
  }

  async #stream(parsed: TableRequest, caller: Caller, exchange: TableExchange): Promise<null> {
    const { streams, callerRules } = this.options;
    const request = snapshotRequest(parsed);
    const planned = this.#planner.plan(request);
    const { plan } = planned;
    exchange.plan = plan;
    const read = async (): Promise<TableSnapshot> => {
      const replicated = this.#replicated(exchange, planned, this.options.feed.mark);
      const { result, mark } = await this.#run({ request, planned, caller, exchange, replicated });
      const [row] = result.main.rows;
      const start = startAfter(mark!, row![RESULT.snapshot]!.toString(), replicated?.reading?.replayed);
      return { json: row![RESULT.body]!.toString(), start };
    };
    const context = this.#context(parsed, caller, exchange);
    await streams.serve({ exchange, request: parsed, context, plan, caller, callerRules, read });
    return null;
  }

  async #serve(
    parsed: TableRequest,
    text: RequestText,
    caller: Caller,
    exchange: TableExchange,
  ): Promise<Answer | StreamedAnswer> {
    const { database, tasks, feed } = this.options;
    const { url, stopwatch } = exchange;
    const { body } = text;
    const planned = this.#planner.plan(parsed);
    exchange.plan = planned.plan;
    stopwatch.mark("plan");
    if (tasks && body && isTask(parsed, planned, body) && tasks.isOpenTo(caller)) {
      return acceptTask(tasks, taskOf(exchange, url, caller, body), planned);
    }
    const mayStream = database.forRole(caller.role).streams && exchange.identity.trial === null;
    const replicated = this.#replicated(exchange, planned);
    const sent = { request: parsed, planned, caller, exchange, replicated };
    if (mayStream && planned.query.stream) return this.#export(sent, text.url);
    const { result, mark } = await this.#run(sent);
    const answered = answer(planned, result, text.url);
    const { kind } = planned.plan;
    const snapshot = kind === "read" || kind === "call" ? result.main.rows[0]![RESULT.snapshot] : null;
    const position = positionHeader(feed, mark, snapshot, replicated);
    return position.length === 0 ? answered : { ...answered, headers: [...answered.headers, ...position] };
  }

  /** What the request says about replicas. The rows of a stream must contain every change that was sent before. */
  #replicated({ request }: TableExchange, { preferences }: PlannedRequest, mark: ChangeFeed["mark"] = null) {
    const { replicas } = this.options.database;
    return replicas?.requestOf(request.headers["change-position"], preferences.read, mark);
  }

  async #export(sent: SentRequest, url: RequestUrl): Promise<Answer | StreamedAnswer> {
    const { request, planned, caller, exchange } = sent;
    const { database, streamTimeout: timeout } = this.options;
    const signal = new ClientGone(exchange.response);
    exchange.gone = signal;
    const options = { ...this.#optionsOf(sent), signal, timeout };
    const running = runStreamed(database.forRole(caller.role), planned, request, options);
    const result = await this.#examined(running, sent, options.identity);
    return "parts" in result ? answerStreamed(planned, result, url) : answer(planned, result, url);
  }

  async #run(sent: SentRequest) {
    const { request, planned, caller, exchange, replicated } = sent;
    const { database, feed } = this.options;
    const signal = new ClientGone(exchange.response);
    const options = { ...this.#optionsOf(sent), signal, written: replicated?.written };
    const { mark } = feed;
    const running = run(database.forRole(caller.role), planned, request, options);
    const result = await this.#examined(running, sent, options.identity);
    exchange.stopwatch.mark("transaction");
    return { result, mark };
  }

  #optionsOf({ request, planned, caller, exchange, replicated }: SentRequest) {
    return {
      identity: { caller, request: this.#context(request, caller, exchange), settings: planned.settings },
      onConnected: () => exchange.stopwatch.mark("wait"),
      reading: replicated?.reading,
    };
  }

  #context(parsed: TableRequest, caller: Caller, exchange: TableExchange) {
    const { method } = exchange.request;
    // As SQL sees it: QUERY, or the method that overrides POST.
    const own = { method: method === "POST" ? parsed.method : method! };
    return { ...contextOfExchange(exchange, exchange.url.path, caller), ...own };
  }

  /** Finds the values that a database error is about, before it is thrown. */
  #examined<T>(running: Promise<T>, { request: input, exchange }: SentRequest, identity: Identity): Promise<T> {
    return running.catch(async (error) => {
      const { database, catalog } = this.options;
      const transactions = database.forRole(identity.caller.role);
      const write = { input, plan: exchange.plan!, identity, transactions, catalog: catalog.current };
      exchange.refused = await refusedValuesOf(error, write).catch(() => []);
      throw error;
    });
  }

  protected problemOf(error: unknown, { plan, refused, caller }: TableExchange, reader: Reader): TableProblem | null {
    return problemOf(error, { ...reader, plan, refused, subject: caller?.claims.sub });
  }

  protected sendProblem({ request, response, head }: TableExchange, problem: TableProblem | null): void {
    sendTableProblem({ request, response, head }, problem ?? internalProblem(head.requestId));
  }
}

/** The template of a path, for metrics. */
function routeOf(path: string): string {
  if (path.startsWith(FUNCTIONS)) return `${BASE}/rpc/{function}`;
  return path.length > BASE.length + 1 ? `${BASE}/{table}` : `${BASE}/`;
}

const FUNCTIONS = `${BASE}/rpc/`;

/** The path after the base, without the slash. */
const pathOf = ({ path }: RequestUrl) => path.slice(BASE.length + 1);

/** The paths of the descriptions, unless there is a table of this name. */
const DOCUMENTS = new Set(["", "openapi.json", "types.ts"]);

const HAS_BODY = new Set(["POST", "PATCH", "PUT", "QUERY"]);

/** The types of bodies of QUERY. Source: RFC 10008, "Accept-Query". */
const ACCEPT_QUERY = ["Accept-Query", QUERY_TYPE] as const;

const allow = (methods: readonly string[]): Answer => ({
  status: 200,
  headers: [["Allow", methods.join(",")], ...(methods.includes("QUERY") ? [ACCEPT_QUERY] : [])],
  body: Buffer.alloc(0),
});
