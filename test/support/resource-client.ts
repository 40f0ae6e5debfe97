import type { Logger } from "pino";
import { beforeAll } from "vitest";
import { createTestDatabase } from "./database.ts";
import { type DemoUser, startTestService, type TestService } from "./service.ts";

export type ApiReply = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Undefined when the response is not JSON. */
  readonly json: any;
};

export type ApiSent = {
  readonly as?: DemoUser | "service";
  readonly headers?: Readonly<Record<string, string>>;
  readonly prefer?: string;
  /** Text and bytes are sent unchanged, other values as JSON. */
  readonly body?: unknown;
};

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
const OPEN = { USERS_WRITE: "open", TASK_ANONYMOUS: "on" };

/** `USERS_WRITE` is open and `TASK_ANONYMOUS` on unless `settings` say otherwise; `ddl` is run before the service starts. */
export function useResources(settings: Readonly<Record<string, string>> = {}, ddl = "", log?: Logger): ResourceClient {
  let started: TestService;
  beforeAll(async () => {
    const database = await createTestDatabase();
    if (ddl !== "") await database.owner.query(ddl);
    started = await startTestService({ ...OPEN, GRAPHQL_MAX_TABLES: "0", ...settings }, database, log);
    return () => started.stop();
  });
  const api = (request: string, sent: ApiSent = {}) => send(started, request, sent);
  return {
    service: () => started,
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
    sql: async (text, ...values) => (await started.database.owner.query(text, values)).rows,
  };
}

function send({ url, service, token }: TestService, request: string, sent: ApiSent): Promise<ApiReply> {
  const { as } = sent;
  const bearer = as === "service" ? service.tokens.issueKey("service_role") : as && token(as);
  return sendTo(
    url,
    request,
    bearer ? { ...sent, headers: { authorization: `Bearer ${bearer}`, ...sent.headers } } : sent,
  );
}

/** `sendTo(url, "PATCH /users/1", { body: { age: 37 } })` */
export async function sendTo(url: string, request: string, sent: Omit<ApiSent, "as">): Promise<ApiReply> {
  const { body, prefer } = sent;
  const [, method = "GET", path = ""] = /^(?:([A-Z]+) )?(.*)$/.exec(request) ?? [];
  const isRaw = body === undefined || typeof body === "string" || body instanceof Uint8Array;
  const response = await fetch(`${url}${path}`, {
    redirect: "manual",
    method,
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(prefer && { prefer }),
      ...sent.headers,
    },
    ...(body !== undefined && { body: (isRaw ? body : JSON.stringify(body)) as RequestInit["body"] }),
  });
  const text = await response.text();
  const isJson = /^[^;]*json/.test(response.headers.get("content-type") ?? "") && text !== "";
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
}
