import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import { Clients, RateLimit } from "../gate/limits/clients.ts";
import { ConnectionLimit, SendTimeout } from "../gate/limits/connection-limits.ts";
import { LimitLog } from "../gate/limits/limit-log.ts";
import { SharedRates } from "../gate/limits/shared-rates.ts";
import { Turns } from "../gate/limits/turns.ts";
import { UpgradeGate } from "../gate/limits/upgrade-gate.ts";
import { RequestMetrics } from "../gate/operations/metrics.ts";
import { allowsOrigin } from "../gate/pipeline/cors.ts";
import { addressReader, trustOf } from "../gate/pipeline/exchange.ts";
import { type HttpInterface, Pipeline, type PipelineOptions, type Routes } from "../gate/pipeline/pipeline.ts";
import { HttpServer, urlOf } from "../gate/process/server.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { App } from "./app.ts";
import type { LimitedConfig } from "./limits.ts";
import { socketRoutes } from "./routes.ts";

type GateOptions = Pick<PipelineOptions, "tracer" | "starting"> & {
  readonly config: Config;
  /** Those of the last reload. */
  limits(): LimitedConfig;
  readonly log: Logger;
  readonly metrics: Metrics;
};

/** The port of the service, with the limits in front of its interfaces. It listens before they exist. */
export class Gate {
  readonly addressOf: ReturnType<typeof addressReader>;
  readonly pipeline: Pipeline;
  readonly server: HttpServer;
  readonly onLimit: LimitLog["report"];
  readonly #options: GateOptions;
  readonly #clients = new Clients();
  readonly #rateLimit: RateLimit;
  readonly #turns: Turns;

  constructor(options: GateOptions) {
    const { config, limits, log, metrics } = options;
    const { maxQueueTime, dbPoolShort, sendTimeout: timeout } = limits();
    const limitLog = new LimitLog(log);
    const onLimit = limitLog.report;
    const clients = this.#clients;
    const addressOf = addressReader(config.trustProxy);
    const rateLimit = new RateLimit({ limit: config.rateLimit, clients, onLimit });
    const turns = new Turns({ time: maxQueueTime, running: Math.max(2, Math.floor(dbPoolShort / 2)) });
    const sendTimeout = new SendTimeout({ timeout, onLimit, log });
    const isProxy = trustOf(config.trustProxy);
    const connections = new ConnectionLimit({ limits, isProxy: (address) => isProxy(address, 0), clients, onLimit });
    this.pipeline = new Pipeline({
      ...{ log, onLimit, tracer: options.tracer, starting: options.starting },
      metrics: new RequestMetrics(metrics),
      corsOrigins: config.corsOrigins,
      limits: { turns, rateLimit, addressOf },
    });
    this.server = new HttpServer(this.pipeline.listener, (socket) => {
      const isAdmitted = connections.admits(socket);
      if (isAdmitted) sendTimeout.watch(socket);
      return isAdmitted;
    });
    this.addressOf = addressOf;
    this.onLimit = onLimit;
    this.#options = options;
    this.#rateLimit = rateLimit;
    this.#turns = turns;
    metrics.gauge({ name: "connections_open", about: "Open connections of clients.", read: () => connections.open });
    clients.registerMetrics(metrics, () => rateLimit.limit);
    limitLog.registerMetrics(metrics);
  }

  listen(): Promise<void> {
    const { host, port, takeover } = this.#options.config;
    return this.server.listen({ host, port, isShared: takeover !== "" });
  }

  /** The URL of the service. */
  get url(): string {
    const { baseUrl, host, port } = this.#options.config;
    return baseUrl || urlOf({ host, port: port || this.server.port });
  }

  /** Limits what waits for the database, too. */
  measure({ database, redis }: Pick<App, "database" | "redis">): void {
    this.#turns.database = database;
    if (redis) this.#clients.share(new SharedRates(redis));
  }

  /** Serves requests and WebSockets. */
  open(routes: Routes<HttpInterface>, { callers, database, realtime, graphql, settings }: App): UpgradeGate {
    const { limits, log, metrics } = this.#options;
    const sockets = new UpgradeGate(this.server.node, {
      routes: socketRoutes({ realtime: realtime.socket, graphql: graphql?.socket ?? null }),
      ...{ limits, callers, onLimit: this.onLimit },
      ...{ clients: this.#clients, turns: this.#turns, rateLimit: this.#rateLimit },
      isAllowedOrigin: (origin) => allowsOrigin(settings.current.corsOrigins)(origin),
      onSocketError: (error) => log.debug({ err: error }, "a WebSocket was closed by an error"),
    });
    metrics.gauge({ name: "websockets_open", about: "Open WebSockets.", read: () => sockets.open.sockets });
    this.pipeline.open(routes, { callers, database });
    return sockets;
  }

  follow({ corsOrigins, rateLimit }: Config): void {
    this.pipeline.allowOrigins(corsOrigins);
    this.#rateLimit.follow(rateLimit);
  }
}
