import type { LiveCatalog } from "../../db/catalog/live.ts";
import type { Database } from "../../db/database.ts";
import { readBytes } from "../../http/body.ts";
import type { Exchange as HttpExchange } from "../../http/exchange.ts";
import type { HttpInterface } from "../../http/pipeline.ts";
import { contextOf } from "../../http/request.ts";
import { ClientGone } from "../../http/response.ts";
import type { Auth } from "../auth/auth.ts";
import { answerOf, type Endpoint, type RestAnswer } from "../conventions/endpoint.ts";
import { Parameters } from "../conventions/parameters.ts";
import { methodNotAllowed, nothingHere, rejectRest } from "../conventions/problem.ts";
import { chooseVersion, type Lifecycle } from "../conventions/version.ts";
import type { TaskQueue } from "../tasks/task-handler.ts";
import { registerNew } from "./accounts.ts";
import { answer, locationOf } from "./answer/answer.ts";
import { withDeprecation } from "./answer/deprecation.ts";
import { internalProblem, isOutdated, restProblem } from "./answer/problem.ts";
import { sendAnswer, sendProblem } from "./answer/send.ts";
import type { CurrentResources } from "./current.ts";
import { type Exchange, errorDialect, headersOf, styleOf } from "./exchange.ts";
import { type Address, decodeSegments, firstSegment, isVersioned, parseAddress } from "./parse/address.ts";
import { type PreferenceParser, refuseUnknown } from "./parse/preferences.ts";
import { type ParseLimits, parseRequest } from "./parse/request.ts";
import { methodsOf, parseRoute, type Route } from "./parse/route.ts";
import { accountsOff } from "./problem.ts";
import { Runner } from "./runner.ts";
import { isWork, workOf } from "./work.ts";

export type ResourceOptions = {
  readonly resources: CurrentResources;
  readonly database: Pick<Database, "forRole">;
  readonly catalog: Pick<LiveCatalog, "current" | "caughtUp">;
  readonly anonymousRole: string;
  readonly limits: ParseLimits;
  readonly preferences: PreferenceParser;
  readonly lifecycle: Lifecycle;
  /** Whether those without credentials may change what has an editor in its description. */
  readonly isOpen: boolean;
  /** By their first segment. */
  readonly endpoints: ReadonlyMap<string, Endpoint>;
  /** Null when sign-in is off. */
  readonly auth: Auth | null;
  /** Null where there are none. */
  readonly tasks: TaskQueue | null;
  onInternalError(error: unknown, requestId: string): void;
};

/** A request for a resource, its body read. */
type Arrived = {
  readonly address: Address;
  readonly route: Route;
  readonly parameters: Parameters;
  readonly body: Buffer | null;
};

/** Whether a body says anything: one that comes with DELETE or an action is passed over. */
const hasBody = (method: string, { kind }: Route): boolean =>
  kind !== "action" && (method === "POST" || method === "PUT" || method === "PATCH");

/** `/users`, `/articles`, `/comments` and all that has a description: credential → parse → write → run → answer. */
export class ResourceInterface implements HttpInterface {
  readonly reject = rejectRest;
  readonly #options: ResourceOptions;
  readonly #runner: Runner;
  readonly #names: ReadonlySet<string>;

  constructor(options: ResourceOptions) {
    this.#options = options;
    this.#runner = new Runner(options);
    this.#names = new Set([...options.resources.names, ...options.endpoints.keys()]);
  }

  /** Whether the address is a matter of this interface. */
  serves(url: string): boolean {
    return this.#names.has(firstSegment(url)) || isVersioned(url);
  }

  /** Answers every request that it serves, those that fail too. */
  async handle({ request, response, head, identity }: HttpExchange): Promise<void> {
    const preferences = this.#options.preferences.parse(request.headers.prefer);
    const exchange: Exchange = {
      request,
      response,
      head,
      identity,
      preferences,
      address: null,
      chosen: null,
      caller: null,
      parsed: null,
      isWritten: false,
    };
    const { lifecycle } = this.#options;
    try {
      const answered = await this.#answer(exchange);
      const { contentType, version } = exchange.chosen!;
      const told = lifecycle.isDeprecated(version) ? withDeprecation(answered, lifecycle.block) : answered;
      sendAnswer(exchange, told, headersOf(exchange, lifecycle, false), contentType);
    } catch (error) {
      this.#fail(error, exchange);
    }
  }

  async #answer(exchange: Exchange): Promise<RestAnswer> {
    const { lifecycle, endpoints } = this.#options;
    const { headers, method = "GET", url = "/" } = exchange.request;
    const address = parseAddress(url);
    exchange.address = address;
    const parameters = new Parameters(address.search);
    exchange.chosen = chooseVersion(address.version, headers, parameters.get("version"), lifecycle.supported);
    // Behind this line a refusal can tell which version it is of.
    refuseUnknown(exchange.preferences);
    parameters.refuseMalformed();
    const segments = decodeSegments(address);
    const endpoint = endpoints.get(segments[0]!);
    const route = endpoint ? null : parseRoute(segments, this.#options.resources);
    const methods = route ? methodsOf(route) : endpoint!.methodsAt(segments);
    if (methods === null) throw nothingHere();
    if (method === "OPTIONS") return answerOf(204, null, [["Allow", methods.join(", ")]]);
    if (!methods.includes(method)) throw methodNotAllowed(method, methods);
    const caller = await exchange.identity.caller();
    exchange.caller = caller;
    if (route) return this.#serve(exchange, address, route, parameters);
    const { version, prefix } = styleOf(exchange.chosen, address, exchange.preferences);
    const request = contextOf(exchange.request, address.path);
    return endpoint!.answer({ method, segments, parameters, caller, request, version, prefix });
  }

  async #serve(exchange: Exchange, address: Address, route: Route, parameters: Parameters): Promise<RestAnswer> {
    const { limits, catalog, resources } = this.#options;
    const { request, response } = exchange;
    const body = hasBody(request.method!, route) ? await readBytes(request, limits.size) : null;
    try {
      return await this.#perform(exchange, { address, route, parameters, body });
    } catch (error) {
      // The tables may have changed a moment ago.
      if (!isOutdated(error) || exchange.isWritten || response.destroyed || !(await catalog.caughtUp())) throw error;
      const found = parseRoute(decodeSegments(address), resources);
      return this.#perform(exchange, { address, route: found, parameters, body });
    }
  }

  async #perform(exchange: Exchange, { address, route, parameters, body }: Arrived): Promise<RestAnswer> {
    const { limits, auth, tasks } = this.#options;
    const { preferences, request: sent } = exchange;
    const { headers, method = "GET" } = sent;
    const style = styleOf(exchange.chosen!, address, preferences);
    const incoming = { method, route, parameters, headers, body, style, preferences };
    const isAsync = tasks !== null && preferences.respondsAsync;
    const { request, account } = parseRequest({ ...incoming, isExport: isAsync && method === "GET" }, limits);
    exchange.parsed = request;
    const context = contextOf(sent, address.path);
    if (isAsync && isWork(request)) return tasks.accept(workOf(exchange, body), style.prefix);

    const identity = this.#runner.identity(request, exchange.caller!, context);
    const signal = new ClientGone(exchange.response);
    if (account !== null && auth === null) throw accountsOff();
    if (account === null || auth === null) {
      return answer(request, await this.#runner.run(request, identity, signal), address, parameters);
    }
    const newAccount = { request, account, identity, address: auth.addressOf(sent) };
    const { id, reading } = await registerNew(newAccount, auth.registration, this.#runner);
    exchange.isWritten = true;
    const made = answer(reading, await this.#runner.run(reading, identity, signal), address, parameters);
    return { ...made, status: 201, headers: [["Location", locationOf(request, id)]] };
  }

  #fail(error: unknown, exchange: Exchange): void {
    if (exchange.response.destroyed) return;
    const { catalog, anonymousRole, lifecycle, onInternalError } = this.#options;
    const { parsed: request, caller, head } = exchange;
    const isAnonymous = caller === null || caller.role === anonymousRole;
    const problem = restProblem(error, { request, isAnonymous, catalog: catalog.current });
    if (!problem) onInternalError(error, head.requestId);
    const headers = headersOf(exchange, lifecycle, true);
    sendProblem(exchange, problem ?? internalProblem(), headers, errorDialect(exchange.preferences));
  }
}
