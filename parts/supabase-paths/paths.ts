import type { Logger } from "pino";
import type { Exchange } from "../../gate/pipeline/exchange.ts";
import type { HttpEnvelope, HttpInterface } from "../../gate/pipeline/pipeline.ts";
import { headersOf, Problem, problem } from "../../problems/problem.ts";
import { STORAGE, StorageServer } from "./storage-server.ts";

const NO_STORAGE = "This service stores no files: its operator names a storage server in STORAGE_URL.";
const NO_GRAPHQL = "This service has no pg_graphql: its GraphQL is at /graphql, with names of its own.";

/** The form of errors in which the libraries of Supabase look for the message. */
export const ENVELOPE: HttpEnvelope = {
  reject({ request, response, head }, refused) {
    const { status, code, message } = refused;
    head.notes.code = code;
    const isStorage = request.url!.startsWith(STORAGE);
    const body = isStorage
      ? { statusCode: String(status), error: code, message }
      : { errors: [{ message, extensions: { code } }] };
    response.writeHead(status, [
      ...head.headers,
      ...["Content-Type", "application/json; charset=utf-8", "Cache-Control", "no-store", "Vary", "Origin"],
      ...Object.entries(headersOf(refused)).flat(),
    ]);
    response.end(JSON.stringify(body));
    if (!request.complete) request.resume();
  },
};

/** The paths of a Supabase project that the service does not answer itself. */
export class SupabasePaths implements HttpInterface {
  readonly sendsData = true;
  readonly hasFilters = true;
  readonly reject = ENVELOPE.reject;
  readonly #storage: StorageServer | null;

  /** `storageUrl` is that of the storage server, or ""; `ownUrl` that of the service. */
  constructor(storageUrl: string, ownUrl: string, log: Logger) {
    this.#storage = storageUrl === "" ? null : new StorageServer(storageUrl, ownUrl, log);
  }

  async handle(exchange: Exchange): Promise<void> {
    const { request, response, head } = exchange;
    const isStorage = request.url!.startsWith(STORAGE);
    head.notes.route = isStorage ? STORAGE : "/graphql/v1";
    try {
      if (!isStorage) throw problem("no such path", { message: NO_GRAPHQL });
      if (this.#storage === null) throw problem("no such path", { message: NO_STORAGE });
      await this.#storage.pass(exchange);
    } catch (error) {
      if (response.headersSent || response.destroyed) response.destroy();
      else if (error instanceof Problem) this.reject(exchange, error);
      else throw error;
    }
  }
}
