import type { ChangeFeed } from "../../db/changes/feed.ts";
import type { Result } from "../../db/transaction/transaction.ts";
import { readBytes } from "../../gate/pipeline/body.ts";
import type { Exchange } from "../../gate/pipeline/exchange.ts";
import { contextOfExchange } from "../../gate/pipeline/exchange.ts";
import type { HttpInterface } from "../../gate/pipeline/pipeline.ts";
import { ClientGone } from "../../gate/pipeline/response.ts";
import { Sender } from "../../identity/sender.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import type { Auth } from "../auth/auth.ts";
import { DataInterface, type DataOptions, type Reader } from "../conventions/data-interface.ts";
import { answerOf, type Endpoint, type RestAnswer } from "../conventions/endpoint.ts";
import { positionHeader } from "../conventions/headers.ts";
import { languagesOf } from "../conventions/languages.ts";
import { methodNotAllowed, rejectRest } from "../conventions/problem.ts";
import type { TaskQueue } from "../tasks/task-handler.ts";
import { answer, locationOf, type ResourceExchange, sendAnswer, sendProblem } from "./answer/answer.ts";
import { resourceProblem } from "./answer/error-mapping.ts";
import { methodsOf, parseRoute, parseUrl, type Route, segmentsOf, templateOf } from "./parse/address.ts";
import { refuseUnknown } from "./parse/headers.ts";
import type { ParseOptions } from "./parse/request.ts";
import type { RequestText } from "./request.ts";
import { Runner, type RunnerOptions, snapshotOf } from "./runner.ts";
import { createAccount, readCreated } from "./sign-up.ts";
import { mayBeTask, newTask } from "./task.ts";

export type ResourceOptions = ParseOptions &
  RunnerOptions &
  DataOptions & {
    /** By their first segment. */
    readonly endpoints: ReadonlyMap<string, Endpoint>;
    readonly feed: Pick<ChangeFeed, "mark" | "textAfter">;
    /** Null when the service has no accounts: then no description has them. */
    readonly auth: Auth | null;
    /** Null when tasks are off. */
    readonly tasks: TaskQueue | null;
  };

/** Whether a body is read: one that is sent with DELETE or to an action is ignored. */
const hasBody = (method: string, { kind }: Route): boolean =>
  kind !== "action" && (method === "POST" || method === "PUT" || method === "PATCH");

/** `["tasks", "5d3f…", "cancel"]` → `/tasks/{id}/cancel` */
const templateOfEndpoint = ([name, id, action]: readonly string[]) =>
  `/${name}${id === undefined ? "" : "/{id}"}${action === undefined ? "" : "/{action}"}`;

/** `/users`, `/posts`, `/comments` and every other description: credential → parse → plan → write → run → answer. */
export class ResourceInterface
  extends DataInterface<ResourceExchange, RestAnswer, Problem, ResourceOptions>
  implements HttpInterface
{
  readonly reject = rejectRest;
  readonly #runner: Runner;

  constructor(options: ResourceOptions) {
    super(options);
    this.#runner = new Runner(options);
  }

  protected open({ request, response, head, identity, countMore }: Exchange): ResourceExchange {
    return {
      request,
      response,
      head,
      identity,
      countMore,
      preferences: this.options.preferences.parse(request.headers.prefer),
      text: null,
      caller: null,
      parsed: null,
      isWritten: false,
    };
  }

  protected send(exchange: ResourceExchange, answered: RestAnswer): Promise<void> {
    return sendAnswer(exchange, answered, this.options.lifecycle);
  }

  protected async answer(exchange: ResourceExchange): Promise<RestAnswer> {
    const { endpoints, resources, lifecycle } = this.options;
    const text = parseUrl(exchange.request, exchange.preferences, lifecycle.supported);
    // From here on an error is sent with its version.
    exchange.text = text;
    const { method, path, parameters, style } = text;
    refuseUnknown(exchange.preferences);
    parameters.refuseMalformed();
    const segments = segmentsOf(text);
    const endpoint = endpoints.get(segments[0]!);
    const route = endpoint ? null : parseRoute(segments, resources);
    const prefix = text.prefix && `/api/v${style.version}`;
    exchange.head.notes.route = prefix + (route ? templateOf(route) : templateOfEndpoint(segments));
    const methods = route ? methodsOf(route) : endpoint!.methodsAt(segments);
    if (methods === null) throw problem("no such path");
    if (method === "OPTIONS") return answerOf(204, null, [["Allow", methods.join(", ")]]);
    if (!methods.includes(method)) throw methodNotAllowed(method, methods);
    const caller = await exchange.identity.caller();
    exchange.caller = caller;
    if (route) return this.#serve(exchange, text, route);
    const request = contextOfExchange(exchange, path, exchange.caller!);
    return endpoint!.answer({ method, segments, parameters, caller, request, ...style });
  }

  async #serve(exchange: ResourceExchange, head: RequestText, route: Route): Promise<RestAnswer> {
    const { limits, resources, tasks } = this.options;
    const { request } = exchange;
    const body = hasBody(head.method, route) ? await readBytes(request, limits.bodyLimit) : null;
    const isTask = tasks !== null && head.preferences.respondsAsync && tasks.isOpenTo(exchange.caller!);
    const text = { ...head, body, isTask };
    return this.attempt(exchange, (isRepeated) => {
      // The resources change with the catalog.
      const current = isRepeated ? parseRoute(segmentsOf(text), resources) : route;
      return this.#run(exchange, text, current);
    });
  }

  async #run(exchange: ResourceExchange, text: RequestText, route: Route): Promise<RestAnswer> {
    const { auth, tasks, database } = this.options;
    const { request: sent } = exchange;
    const { path, headers, preferences, style, body } = text;
    const caller = exchange.caller!;
    const context = contextOfExchange(exchange, path, caller);
    const request = await this.#runner.parse(text, route, this.options.limits, caller, context);
    exchange.parsed = request;
    if (text.isTask && mayBeTask(request)) return tasks!.accept(newTask(exchange, body), style.prefix);

    const identity = this.#runner.identity(request, caller, context);
    const signal = new ClientGone(exchange.response);
    const { feed } = this.options;
    const { mark } = feed;
    const replicated = database.replicas?.requestOf(headers["change-position"], preferences.read);
    let result: Result | null;
    if (request.account === null) result = await this.#runner.run(request, identity, signal, replicated);
    else {
      const languages = languagesOf(headers["accept-language"]);
      const address = auth!.addressOf(sent);
      const bound = { ...auth!, ...auth!.from(new Sender(address)) };
      const created = await createAccount({ request, identity, address, languages }, bound, this.#runner);
      if (created === null) throw problem("email taken");
      exchange.isWritten = true;
      result = await readCreated(created, this.#runner, signal);
      if (result === null) return answerOf(201, null, [["Location", locationOf(request, created.account.id)]]);
    }
    const answered = answer(request, result, text);
    const position = positionHeader(feed, mark, snapshotOf(result, request), replicated);
    return { ...answered, headers: [...answered.headers, ...position] };
  }

  protected problemOf(error: unknown, { parsed: request }: ResourceExchange, reader: Reader): Problem | null {
    return resourceProblem(error, { ...reader, request });
  }

  protected sendProblem(exchange: ResourceExchange, found: Problem | null): void {
    sendProblem(exchange, found ?? problem("internal error"), this.options.lifecycle);
  }
}
