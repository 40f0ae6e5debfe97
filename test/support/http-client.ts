import { Agent, type IncomingMessage } from "node:http";
import type { Logger } from "pino";
import request, { type Response } from "supertest";
import { afterEach, beforeAll, beforeEach, expect } from "vitest";
import type { Tracer } from "../../telemetry/span.ts";
import { createTestDatabase } from "./database.ts";
import {
  type Answer,
  type DemoUser,
  type GqlOptions,
  startTestService,
  type TestService,
  type TestSettings,
} from "./service.ts";
import { recordReceived, recordSent } from "./transcript.ts";

type Row = Readonly<Record<string, any>>;
export type Sent = {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | ReadableStream;
  /** Whether a redirect is the response, in place of what it leads to. */
  readonly redirect?: "manual";
};
export type Reply = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Undefined when the response is not JSON. */
  readonly json: any;
};

/** What the clients of REST send. */
export type JsonSent = {
  readonly as?: DemoUser | "service";
  readonly headers?: Readonly<Record<string, string>>;
  readonly prefer?: string;
  /** Text and bytes are sent unchanged, other values as JSON. */
  readonly body?: unknown;
};

/** The client of a test file for the service that its tests share. */
export type Client = {
  /** The service, after it has started. */
  service(): TestService;
  /** The whole response: `gql("{ me { id } }", { as: "ada" })`. */
  gql(query: string, options?: GqlOptions): Promise<Answer>;
  /** The data of the response. Fails the test if the response has errors. */
  data(query: string, options?: GqlOptions): Promise<any>;
  /** The errors of the response as text: `["AUTH_REQUIRED: login required"]`. */
  errors(query: string, options?: GqlOptions): Promise<string[]>;
  /** Any request: `send("/graphql?query={__typename}")`. */
  send(path: string, sent?: Sent): Promise<Reply>;
  /** Posts to /graphql as JSON. Text and bytes are sent unchanged, other values as JSON. */
  post(body: unknown, headers?: Readonly<Record<string, string>>): Promise<Reply>;
  token(user: DemoUser): string;
  /** Runs SQL as the owner of the database and returns the rows. */
  sql(text: string, ...values: unknown[]): Promise<Row[]>;
  /** Creates an article, by ada unless another author is given. Resolves to its id. */
  article(given?: NewArticle): Promise<string>;
  /** All rows of the content tables as text, to check that nothing was written. */
  content(): Promise<string>;
};

export type NewArticle = {
  readonly author?: number;
  readonly title?: string;
  readonly content?: string;
  readonly status?: string;
  readonly tags?: readonly string[];
  readonly createdAt?: string;
};

/**
 * Starts a separate service for the test file. `settings` are environment variables; `clock` replaces that of the service, and `tracer`
 * follows its requests.
 */
export function useService(settings: TestSettings = {}, clock?: () => number, tracer?: Tracer): Client {
  return clientOf(useOwnService({ settings, clock, tracer }));
}

/** The service of a test file, after it has started, and SQL as the owner of its database. */
export type OwnService = Pick<Client, "service" | "sql">;
export type OwnOptions = {
  readonly settings: TestSettings;
  /** Is run before the service starts. */
  readonly ddl?: string;
  readonly log?: Logger | undefined;
  readonly clock?: (() => number) | undefined;
  /** Follows the requests. */
  readonly tracer?: Tracer | undefined;
};

/** Starts a separate service for the test file. */
export function useOwnService({ settings, ddl = "", log, clock, tracer }: OwnOptions): OwnService {
  let started: TestService;
  beforeAll(async () => {
    const database = await createTestDatabase();
    if (ddl !== "") await database.owner.query(ddl);
    started = await startTestService(settings, database, log, clock, tracer && { tracer });
    return () => started.stop();
  });
  return {
    service: () => started,
    sql: async (text, ...values) => (await started.database.owner.query(text, values)).rows,
  };
}

function clientOf({ service, sql }: OwnService): Client {
  const gql = (query: string, options?: GqlOptions) => service().gql(query, options);
  const sendTo = (path: string, sent?: Sent) => send(`${service().url}${path}`, sent);
  return {
    service,
    gql,
    async data(query, options) {
      const { data, errors } = await gql(query, options);
      if (errors) throw new Error(errorTexts({ errors }).join("; "));
      return data;
    },
    errors: async (query, options) => errorTexts(await gql(query, options)),
    send: sendTo,
    post: (body, headers) => sendTo("/graphql", { method: "POST", ...sentJson({ body, headers }) }),
    token: (user) => service().token(user),
    sql,
    async article({ author = 1, title = "A new title", content = "Some content.", ...given } = {}) {
      const { status = "DRAFT", tags = [], createdAt = new Date().toISOString() } = given;
      const columns = "author_id, title, content, status, tags, created_at";
      const text = `insert into articles (${columns}) values ($1, $2, $3, $4, $5, $6) returning id`;
      return (await sql(text, author, title, content, status, tags, createdAt))[0]!.id;
    },
    async content() {
      const tables = ["users", "articles", "comments", "article_translations"];
      const rows = tables.map((table) => `select '${table}' as source, t::text from ${table} as t`);
      return JSON.stringify(await sql(`${rows.join(" union all ")} order by 1, 2`));
    },
  };
}

/** Checks after each test of the file that nothing was written and that the service still responds correctly. */
export function expectNoTrace({ content, data }: Client): void {
  let before: string;
  beforeEach(async () => {
    before = await content();
  });
  afterEach(async () => {
    expect(await content()).toBe(before);
    expect(await data("{ user(id: 1) { name } me { id } }", { as: "ada" })).toEqual({
      user: { name: "Ada Lovelace" },
      me: { id: "1" },
    });
  });
}

/** The errors of a response as text: `["VALIDATION_ERROR: query must be a GraphQL document"]` */
export const errorTexts = ({ errors = [] }: Pick<Answer, "errors">): string[] =>
  errors.map(({ message, extensions }) => `${extensions?.code}: ${message}`);

/** A request uses the connection of an earlier one: a new one for each would double the CPU time. */
const AGENT = new Agent({ keepAlive: true });

/** One request, with supertest. It sends no streams, which are left to `fetch`. */
export async function send(url: string, { headers = {}, body, redirect, ...sent }: Sent = {}): Promise<Reply> {
  const method = sent.method ?? (body ? "POST" : "GET");
  if (body instanceof ReadableStream) {
    const response = await fetch(url, { method, headers, body, redirect, duplex: "half" } as RequestInit);
    return replyOf(response.status, response.headers, await response.text());
  }
  const { origin, pathname, search } = new URL(url);
  const test = request(origin)[method.toLowerCase() as "get"](pathname + search);
  test.agent(AGENT).redirects(0);
  // As text, which tests compare too.
  test.buffer(true).parse(readText);
  // Otherwise bytes would be sent as JSON.
  test.serialize((bytes) => bytes);
  if (typeof body === "string") test.type("text/plain;charset=UTF-8");
  // Also for HEAD, for which superagent would send none.
  test.set({ "user-agent": "node", "accept-encoding": "gzip, deflate", ...headers });
  // As bytes: superagent gives text without a type one.
  if (body !== undefined) test.send(Buffer.from(body as string));
  test.once("request", ({ req }) => recordSent(req, body));
  const { status, body: read } = await test;
  // A response without a body is not read.
  const text = typeof read === "string" ? read : "";
  recordReceived(test.req, text);
  const reply = replyOf(status, headersOf(test.res as IncomingMessage), text);
  // As fetch: a status of a redirect without Location is not one.
  const location = status >= 300 && status < 400 && redirect !== "manual" ? reply.headers.get("location") : null;
  return location === null ? reply : send(new URL(location, url).href, { headers });
}

function readText(response: Response, done: (error: null, text: string) => void): void {
  const chunks: Buffer[] = [];
  response.on("data", (chunk: Buffer) => chunks.push(chunk));
  response.on("end", () => done(null, new TextDecoder().decode(Buffer.concat(chunks))));
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i]!, rawHeaders[i + 1]!);
  return headers;
}

function replyOf(status: number, headers: Headers, text: string): Reply {
  const isJson = /^[^;]*[/+]json/.test(headers.get("content-type") ?? "") && text !== "";
  return { status, headers, text, json: isJson ? JSON.parse(text) : undefined };
}

/** Text and bytes are sent unchanged, other values as JSON. */
export function sentJson({ body, prefer, headers }: Omit<JsonSent, "as">): Pick<Sent, "headers" | "body"> {
  const isRaw = typeof body === "string" || body instanceof Uint8Array || body instanceof ReadableStream;
  return {
    headers: {
      ...(body !== undefined && { "content-type": "application/json" }),
      ...(prefer && { prefer }),
      ...headers,
    },
    ...(body !== undefined && { body: isRaw ? body : JSON.stringify(body) }),
  };
}
