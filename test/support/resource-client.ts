import type { Logger } from "pino";
import { type JsonSent, type Reply, send, sentJson, useOwnService } from "./http-client.ts";
import type { TestService, TestSettings } from "./service.ts";

export type ApiReply = Reply;
export type ApiSent = JsonSent;

/** The client of a test file for the resources of a separate service. */
export type ResourceClient = {
  service(): TestService;
  /** `api("PATCH /users/1", { body: { age: 37 }, as: "ada" })`; without a method it is GET. */
  api(request: string, sent?: ApiSent): Promise<ApiReply>;
  /** The body of the response, which must be successful. */
  body(request: string, sent?: ApiSent): Promise<any>;
  /** `[404, "USER_NOT_FOUND", "there is no user with this id"]` */
  failure(request: string, sent?: ApiSent): Promise<[status: number, code: string, message: string]>;
  /** Runs SQL as the owner of the database and returns the rows. */
  sql(text: string, ...values: unknown[]): Promise<any[]>;
};

/** As with the embedded database. */
const OPEN = { USERS_WRITE: "open", taskAnonymousRetention: 3600 };

/** `USERS_WRITE` is open, and anonymous callers have tasks, unless `settings` say otherwise; `ddl` is run before the service starts. */
export function useResources(settings: TestSettings = {}, ddl = "", log?: Logger): ResourceClient {
  const { service, sql } = useOwnService({ settings: { ...OPEN, GRAPHQL_DOCUMENTS: "none", ...settings }, ddl, log });
  const api = (request: string, sent: ApiSent = {}) => sendAs(service(), request, sent);
  return {
    service,
    api,
    async body(request, sent) {
      const { status, text, json } = await api(request, sent);
      if (status >= 300) throw new Error(`${request}: ${status} ${text}`);
      return json;
    },
    async failure(request, sent) {
      const { status, json } = await api(request, sent);
      return [status, json?.error?.code, json?.error?.message];
    },
    sql,
  };
}

function sendAs({ url, service, token }: TestService, request: string, sent: ApiSent): Promise<ApiReply> {
  const { as } = sent;
  const bearer = as === "service" ? service.tokens.issueKey("service_role") : as && token(as);
  return sendTo(
    url,
    request,
    bearer ? { ...sent, headers: { authorization: `Bearer ${bearer}`, ...sent.headers } } : sent,
  );
}

/** `sendTo(url, "PATCH /users/1", { body: { age: 37 } })` */
export function sendTo(url: string, request: string, sent: Omit<ApiSent, "as">): Promise<ApiReply> {
  const [, method = "GET", path = ""] = /^(?:([A-Z]+) )?(.*)$/.exec(request) ?? [];
  return send(`${url}${path}`, { method, redirect: "manual", ...sentJson(sent) });
}
