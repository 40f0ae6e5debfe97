import { afterEach, beforeAll, beforeEach, expect } from "vitest";
import { type Answer, type DemoUser, type GqlOptions, startTestService, type TestService } from "./service.ts";

type Row = Readonly<Record<string, any>>;
export type Sent = {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | ReadableStream;
  /** Whether a redirect is the response, in place of what it leads to. */
  readonly redirect?: "manual";
};
export type Reply = { readonly status: number; readonly headers: Headers; readonly text: string; readonly json: any };

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

/** Starts a separate service for the test file. `settings` are environment variables; `clock` replaces that of the service. */
export function useService(settings: Readonly<Record<string, string>> = {}, clock?: () => number): Client {
  let started: TestService;
  beforeAll(async () => {
    started = await startTestService(settings, undefined, undefined, clock);
    return () => started.stop();
  });
  return clientOf(() => started);
}

function clientOf(service: () => TestService): Client {
  const sql = async (text: string, ...values: unknown[]) => (await service().database.owner.query(text, values)).rows;
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
    post: (body, headers) => {
      const isText = typeof body === "string" || body instanceof Uint8Array || body instanceof ReadableStream;
      const text = isText ? body : JSON.stringify(body);
      return sendTo("/graphql", {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: text,
      });
    },
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

async function send(url: string, { method, headers = {}, body, redirect }: Sent = {}): Promise<Reply> {
  const streamed = body instanceof ReadableStream ? { duplex: "half" } : {};
  const response = await fetch(url, {
    method: method ?? (body ? "POST" : "GET"),
    headers,
    body,
    ...(redirect && { redirect }),
    ...streamed,
  } as RequestInit);
  const text = await response.text();
  const isJson = /json/.test(response.headers.get("content-type") ?? "") && text !== "";
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
}
