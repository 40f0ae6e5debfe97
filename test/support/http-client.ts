import { afterEach, beforeAll, beforeEach, expect } from "vitest";
import { type Answer, type DemoUser, type GqlOptions, startTestService, type TestService } from "./service.ts";

type Row = Readonly<Record<string, any>>;
export type Sent = {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | ReadableStream;
};
export type Reply = { readonly status: number; readonly headers: Headers; readonly text: string; readonly json: any };

/** How the tests of one file speak to the service that they share. */
export type Client = {
  /** The service itself, once it has started. */
  service(): TestService;
  /** The whole answer: `gql("{ me { id } }", { as: "ada" })`. */
  gql(query: string, options?: GqlOptions): Promise<Answer>;
  /** The answer's data; an answer with errors fails the test. */
  data(query: string, options?: GqlOptions): Promise<any>;
  /** What the answer says of its errors: `["AUTH_REQUIRED: login required"]`. */
  errors(query: string, options?: GqlOptions): Promise<string[]>;
  /** Any request: `send("/graphql?query={__typename}")`. */
  send(path: string, sent?: Sent): Promise<Reply>;
  /** Posts to /graphql, as JSON: text and bytes as they are, anything else as its JSON. */
  post(body: unknown, headers?: Readonly<Record<string, string>>): Promise<Reply>;
  token(user: DemoUser): string;
  /** Rows that the owner of the database reads or writes. */
  sql(text: string, ...values: unknown[]): Promise<Row[]>;
  /** A new article, by ada unless somebody else is named; its id. */
  article(given?: NewArticle): Promise<string>;
  /** All rows of the content, as text: equal when nothing was written. */
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

/** A service of its own for the test file; `settings` are environment variables, `clock` is the service's. */
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
      if (errors) throw new Error(told({ errors }).join("; "));
      return data;
    },
    errors: async (query, options) => told(await gql(query, options)),
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

/** Each test of the file sends what is refused, or harmless: nothing is written, and the service answers as before. */
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

/** `["VALIDATION_ERROR: query must be a GraphQL document"]` */
export const told = ({ errors = [] }: Pick<Answer, "errors">): string[] =>
  errors.map(({ message, extensions }) => `${extensions?.code}: ${message}`);

async function send(url: string, { method, headers = {}, body }: Sent = {}): Promise<Reply> {
  const streamed = body instanceof ReadableStream ? { duplex: "half" } : {};
  const response = await fetch(url, {
    method: method ?? (body ? "POST" : "GET"),
    headers,
    body,
    ...streamed,
  } as RequestInit);
  const text = await response.text();
  const isJson = /json/.test(response.headers.get("content-type") ?? "") && text !== "";
  return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : undefined };
}
