import type { Logger } from "pino";
import { beforeAll } from "vitest";
import { createTestDatabase } from "./database.ts";
import { type DemoUser, startTestService, type TestService } from "./service.ts";

export type RestReply = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Undefined when the response is not JSON. */
  readonly json: any;
};

export type RestSent = {
  readonly method?: string;
  readonly as?: DemoUser | "service";
  readonly headers?: Readonly<Record<string, string>>;
  /** Text and bytes are sent unchanged, other values as JSON. */
  readonly body?: unknown;
  readonly prefer?: string;
};

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
export function useRest(settings: Readonly<Record<string, string>> = {}, ddl = "", log?: Logger): RestClient {
  let started: TestService;
  beforeAll(async () => {
    const database = await createTestDatabase();
    if (ddl !== "") await database.owner.query(ddl);
    started = await startTestService({ GRAPHQL_MAX_TABLES: "0", ...settings }, database, log);
    return () => started.stop();
  });
  const rest = (path: string, sent: RestSent = {}) => sendRest(started, path, sent);
  return {
    service: () => started,
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
    sql: async (text, ...values) => (await started.database.owner.query(text, values)).rows,
  };
}

/** Sends one request to the table interface of a service. */
export async function sendRest({ url, service, token }: TestService, path: string, sent: RestSent): Promise<RestReply> {
  const { as, body, prefer } = sent;
  const apikey = service.tokens.issueKey(as === "service" ? "service_role" : "anon");
  const isRaw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
  const response = await fetch(`${url}/rest/v1/${path}`, {
    method: sent.method ?? (body === undefined ? "GET" : "POST"),
    headers: {
      apikey,
      ...(as && as !== "service" && { authorization: `Bearer ${token(as)}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(prefer && { prefer }),
      ...sent.headers,
    },
    ...(body !== undefined && { body: (isRaw ? body : JSON.stringify(body)) as RequestInit["body"] }),
  });
  const text = await response.text();
  const isJson = /^[^;]*[/+]json/.test(response.headers.get("content-type") ?? "") && text !== "";
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
}
