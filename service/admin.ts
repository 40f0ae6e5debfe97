import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import {
  type AlwaysOnInterface,
  type HttpEnvelope,
  type HttpInterface,
  Pipeline,
  type Routes,
} from "../gate/pipeline/pipeline.ts";
import { HttpServer } from "../gate/process/server.ts";
import type { CallerResolver } from "../identity/caller-resolver.ts";
import { REST } from "../rest-gateway/express-interface.ts";
import { httpRoutes } from "./routes.ts";

export type AdminServerOptions = {
  readonly config: Pick<Config, "adminHost" | "adminPort" | "takeover">;
  readonly log: Logger;
  /** Probes, which also respond while the service starts and stops. */
  readonly health: AlwaysOnInterface;
};

/** The server on ADMIN_PORT. It has neither limits nor CORS, and responds until the service has stopped. */
export class AdminServer {
  readonly #pipeline: Pipeline;
  readonly #server: HttpServer;
  readonly #config: AdminServerOptions["config"];

  constructor({ config, log, health }: AdminServerOptions) {
    const shared = { log, corsOrigins: [], limits: null, metrics: null };
    const starting = httpRoutes<HttpEnvelope | AlwaysOnInterface>({ health }, REST);
    this.#pipeline = new Pipeline({ ...shared, starting });
    this.#server = new HttpServer(this.#pipeline.listener);
    this.#config = config;
  }

  /** Rejects when the port is in use. */
  listen(): Promise<void> {
    const { adminHost: host, adminPort: port, takeover } = this.#config;
    return this.#server.listen({ host, port, isShared: takeover !== "", setting: "ADMIN_PORT" });
  }

  open(routes: Routes<HttpInterface>, callers: CallerResolver): void {
    this.#pipeline.open(routes, { callers });
  }

  close(): void {
    this.#server.close();
  }
}
