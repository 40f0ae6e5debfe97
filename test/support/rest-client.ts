import type { Logger } from "pino";
import { type JsonSent, type Reply, send, sentJson, useOwnService } from "./http-client.ts";
import type { TestService, TestSettings } from "./service.ts";

export type RestReply = Reply;
export type RestSent = JsonSent & { readonly method?: string };

/** The client of a test file for the table interface of a separate service. */
export type RestClient = {
  service(): TestService;
  /** `rest("articles?id=eq.1", { as: "ada" })`: GET, or POST with a body, with the anon key and the user's token. */
  rest(path: string, sent?: RestSent): Promise<RestReply>;
  /** The body of the response, which must be successful. */
  rows(path: string, sent?: RestSent): Promise<any>;
  /** `[404, "PGRST205"]` */
  failure(path: string, sent?: RestSent): Promise<[status: number, code: string]>;
  /** Runs SQL as the owner of the database and returns the rows. */
  sql(text: string, ...values: unknown[]): Promise<any[]>;
};

/** Without GraphQL unless `settings` enable it. `ddl` is run before the first test, and the service knows its tables. `log` receives the log. */
export function useRest(settings: TestSettings = {}, ddl = "", log?: Logger): RestClient {
  const { service, sql } = useOwnService({ settings: { GRAPHQL_DOCUMENTS: "none", ...settings }, ddl, log });
  const rest = (path: string, sent: RestSent = {}) => sendRest(service(), path, sent);
  return {
    service,
    rest,
    async rows(path, sent) {
      const { status, text, json } = await rest(path, sent);
      if (status >= 300) throw new Error(`${path}: ${status} ${text}`);
      return json;
    },
    async failure(path, sent) {
      const { status, json } = await rest(path, sent);
      return [status, json?.code];
    },
    sql,
  };
}

/** Sends one request to the table interface of a service. */
export function sendRest({ url, service, token }: TestService, path: string, sent: RestSent): Promise<RestReply> {
  const { as, method = sent.body === undefined ? "GET" : "POST" } = sent;
  const apikey = service.tokens.issueKey(as === "service" ? "service_role" : "anon");
  const headers = {
    apikey,
    ...(as && as !== "service" && { authorization: `Bearer ${token(as)}` }),
    ...sent.headers,
  };
  return send(`${url}/rest/v1/${path}`, { method, ...sentJson({ ...sent, headers }) });
}
