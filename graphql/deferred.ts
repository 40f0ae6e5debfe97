import type { GraphQLSchema } from "postgraphile/graphql";
import type { WebSocket } from "ws";
import { type SocketExchange, type SocketRoute, TRY_AGAIN_LATER } from "../gate/limits/upgrade-gate.ts";
import type { Exchange } from "../gate/pipeline/exchange.ts";
import type { HttpInterface } from "../gate/pipeline/pipeline.ts";
import { problem } from "../problems/problem.ts";
import { REASONS } from "../problems/reasons.ts";
import type { GraphQLInterface, GraphQLOptions } from "./index.ts";
import { GRAPHQL } from "./transport/envelope.ts";

const UNAVAILABLE = REASONS["no GraphQL"][2];

/**
 * GraphQL, loaded after everything else or with the first request: it takes as much memory as the other interfaces together,
 * and building its schema takes as long as the rest of the start. Requests wait until it is loaded. If that fails, the next
 * request tries again.
 */
export class DeferredGraphQL {
  readonly http: HttpInterface;
  readonly socket: SocketRoute;
  #options: GraphQLOptions;
  #loaded: GraphQLInterface | null = null;
  #loading: Promise<GraphQLInterface> | null = null;
  #hasFailed = false;
  #isClosed = false;

  constructor(options: GraphQLOptions) {
    this.#options = options;
    this.http = { ...GRAPHQL, needsDatabase: true, handle: (exchange) => this.#handle(exchange) };
    this.socket = {
      protocol: "graphql-transport-ws",
      accept: (socket, exchange) => void this.#accept(socket, exchange),
    };
  }

  /** The state of the schema for `/health`. */
  get health(): GraphQLInterface["reload"]["health"] {
    return this.#loaded?.reload.health ?? { schema: "not built yet" };
  }

  /** What the schema leaves out. */
  get findings(): GraphQLInterface["reload"]["findings"] {
    return this.#loaded?.reload.findings ?? [];
  }

  /** False if the last build of the schema has failed. True before the first build. */
  get isCurrent(): boolean {
    return (this.#loaded?.reload.failure ?? null) === null;
  }

  /** Null while there is none. */
  async schema(): Promise<GraphQLSchema | null> {
    try {
      return (await this.load()).schema();
    } catch {
      return null;
    }
  }

  /** Whether the first attempt to build the schema is not over yet. */
  get isBeginning(): boolean {
    return this.#loading !== null && !this.#loaded && !this.#hasFailed;
  }

  /** The number of active subscriptions. */
  get subscriptions(): number {
    return this.#loaded?.countSubscriptions() ?? 0;
  }

  /** Resolves when the attempt is over. */
  async loadInBackground(): Promise<void> {
    try {
      await this.load();
    } catch (err) {
      this.#options.log.error({ err }, "GraphQL cannot be loaded: the next request tries again");
    }
  }

  load(): Promise<GraphQLInterface> {
    this.#loading ??= this.#load();
    return this.#loading;
  }

  /** Applies changed settings. Open sockets keep the schema and the role with which they began. */
  async follow(settings: GraphQLOptions["settings"]): Promise<void> {
    const used = ({ dbSchemas, dbAnonRole }: GraphQLOptions["settings"]) => JSON.stringify([dbSchemas, dbAnonRole]);
    const isSame = used(settings) === used(this.#options.settings);
    this.#options = { ...this.#options, settings };
    if (this.#loading === null) return;
    const previous = await this.#loading.catch(() => null);
    if (isSame) return previous?.follow(settings);
    this.#loading = null;
    await this.load();
    await previous?.reload.close();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#loading?.catch(() => {});
    await this.#loaded?.reload.close();
  }

  async #handle(exchange: Exchange): Promise<void> {
    try {
      const { http } = this.#loaded ?? (await this.load());
      return http.handle(exchange);
    } catch (error) {
      this.#options.onInternalError(error, exchange.head.requestId);
      this.http.reject(exchange, problem("no GraphQL"));
    }
  }

  async #load(): Promise<GraphQLInterface> {
    try {
      const { createGraphQL } = await import("./index.ts");
      this.#loaded = await createGraphQL(this.#options);
      return this.#loaded;
    } catch (error) {
      this.#hasFailed = true;
      this.#loading = null;
      throw error;
    }
  }

  async #accept(socket: WebSocket, exchange: SocketExchange): Promise<void> {
    if (this.#loaded) return this.#loaded.socket.accept(socket, exchange);
    // Messages that arrive before the socket has a listener would be lost.
    socket.pause();
    try {
      (await this.load()).socket.accept(socket, exchange);
      socket.resume();
    } catch (error) {
      if (!this.#isClosed) this.#options.onInternalError(error, exchange.requestId);
      socket.close(TRY_AGAIN_LATER, UNAVAILABLE);
    }
  }
}
