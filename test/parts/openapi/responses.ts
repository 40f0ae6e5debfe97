import { expect } from "vitest";
import { schemaFaults } from "../../support/json-schema.ts";
import { resolve } from "../../support/openapi-rules.ts";
import type { ApiReply, ApiSent } from "../../support/resource-client.ts";

/** A request that succeeds, and the changes to it that make it fail. */
export type Sample = {
  readonly request: string;
  readonly sent?: ApiSent;
  /** The same for a record that does not exist. */
  readonly missing?: string;
  /** The same, in conflict with other data. */
  readonly conflict?: { readonly request?: string; readonly body?: unknown };
};

const ada = "ada" as const;
const bob = "bob" as const;
const ARTICLE = { title: "A new title", content: "Some content." };
const CONTENDED = { ...ARTICLE, content: "conflict" };
const COMMENT = { content: "Well said." };

/** One for each operation but those of tasks; `of(1)` is an id that is there for this version alone. */
export const samplesOf = (of: (number: number) => number): readonly Sample[] => [
  { request: "GET /users" },
  {
    request: "POST /users",
    sent: { body: { name: "Zed", email: `zed${of(0)}@example.com` } },
    conflict: { body: { name: "Zed", email: "ADA@example.com" } },
  },
  { request: "GET /users/1", missing: "GET /users/999999" },
  {
    request: "PUT /users/2",
    sent: { body: { name: "Bob Kahn", email: "bob@example.com", age: 41 } },
    missing: "PUT /users/999999",
    conflict: { body: { name: "Bob Kahn", email: "ada@example.com" } },
  },
  {
    request: "PATCH /users/2",
    sent: { body: { email: "bob@example.com" } },
    missing: "PATCH /users/999999",
    conflict: { body: { email: "ada@example.com" } },
  },
  { request: `DELETE /users/${of(1)}`, missing: "DELETE /users/999999", conflict: { request: "DELETE /users/1" } },
  { request: "GET /users/1/articles", missing: "GET /users/999999/articles" },
  ...records("/users/1/articles", "/users/2/articles", 1, of(2), of(4), { as: ada, body: ARTICLE }, CONTENDED),
  { request: "GET /articles" },
  { request: "POST /articles", sent: { as: ada, body: ARTICLE }, conflict: { body: CONTENDED } },
  ...records("/articles", null, 1, of(1), of(3), { as: ada, body: ARTICLE }, CONTENDED),
  {
    request: "POST /articles/3/publish",
    sent: { as: ada },
    missing: "POST /articles/999999/publish",
    conflict: { request: `POST /articles/${of(3)}/publish` },
  },
  { request: "GET /articles/1/comments", missing: "GET /articles/999999/comments" },
  {
    request: "POST /articles/1/comments",
    sent: { as: bob, body: COMMENT },
    missing: "POST /articles/999999/comments",
    conflict: { body: { content: "conflict" } },
  },
  ...records(
    "/articles/1/comments",
    "/articles/2/comments",
    1,
    of(2),
    of(4),
    { as: bob, body: COMMENT },
    { content: "conflict" },
  ),
  { request: "GET /comments" },
  {
    request: "POST /comments",
    sent: { as: bob, body: { ...COMMENT, article_id: 1 } },
    conflict: { body: { ...COMMENT, article_id: 999_999 } },
  },
  ...records("/comments", null, 1, of(1), of(3), { as: bob, body: COMMENT }, { content: "conflict" }),
];

/** Reading, replacing, changing and deleting one of a collection; in the `other` one it is not. */
function records(
  path: string,
  other: string | null,
  id: number,
  deletable: number,
  contended: number,
  sent: ApiSent,
  conflict: object,
): Sample[] {
  const missing = other === null ? `${path}/999999` : `${other}/${id}`;
  const { body, ...alone } = sent;
  return [
    { request: `GET ${path}/${id}`, missing: `GET ${missing}` },
    { request: `PUT ${path}/${id}`, sent, missing: `PUT ${missing}`, conflict: { body: conflict } },
    { request: `PATCH ${path}/${id}`, sent, missing: `PATCH ${missing}`, conflict: { body: conflict } },
    {
      request: `DELETE ${path}/${deletable}`,
      sent: alone,
      missing: `DELETE ${path}/999999`,
      conflict: { request: `DELETE ${path}/${contended}` },
    },
  ];
}

/** Requests that fail, made of one that succeeds: status, and how; null where it can't fail so. */
export const FAILURES: readonly (readonly [
  status: number,
  change: (sample: Sample, version: 1 | 2) => Request | null,
])[] = [
  [400, ({ request, sent = {} }) => [`${request}?nonsense=1`, sent]],
  [401, ({ request, sent = {} }) => [request, { ...sent, as: undefined, headers: { authorization: "Bearer x" } }]],
  [403, ({ request, sent = {} }) => [request, { ...sent, as: "service", headers: { origin: "https://app.example" } }]],
  [404, ({ missing, sent = {} }) => (missing === undefined ? null : [missing, sent])],
  [
    409,
    ({ request, sent = {}, conflict }) =>
      conflict
        ? [conflict.request ?? request, { ...sent, ...(conflict.body !== undefined && { body: conflict.body }) }]
        : null,
  ],
  [
    412,
    ({ request, sent = {} }) =>
      /^(?:PUT|PATCH|DELETE)|publish$/.test(request) ? [request, { ...sent, headers: { "if-match": '"v1-1"' } }] : null,
  ],
  [
    413,
    ({ request, sent = {} }) =>
      sent.body === undefined
        ? null
        : [request, { ...sent, body: { ...(sent.body as object), more: "x".repeat(BODY_LIMIT) } }],
  ],
  [
    415,
    ({ request, sent = {} }) =>
      sent.body === undefined ? null : [request, { ...sent, headers: { "content-type": "text/plain" } }],
  ],
  [
    422,
    ({ request, sent = {} }, version) =>
      sent.body === undefined || version === 1 ? null : [request, { ...sent, body: wrong(sent.body) }],
  ],
];

type Request = readonly [request: string, sent: ApiSent];

export const BODY_LIMIT = 2000;

/** No field is a list of lists. */
const wrong = (body: unknown) => Object.fromEntries(Object.keys(body as object).map((name) => [name, [[]]]));

/** What was answered, by operation and status: names of headers, and where bodies are not what the document says. */
export class Seen {
  readonly faults: string[] = [];
  readonly #document: any;
  readonly #headers = new Map<string, Set<string>>();

  constructor(document: any) {
    this.#document = document;
  }

  note(request: string, { status, headers, text, json }: ApiReply): void {
    const operation = operationAt(this.#document, request);
    const key = `${operation.operationId} ${status}`;
    const names = this.#headers.get(key) ?? new Set();
    this.#headers.set(key, names);
    for (const name of headers.keys()) names.add(name);
    const response = responseOf(this.#document, operation, status);
    if (response === undefined) return;
    // Express writes a sentence into redirects; errors of routes for browsers may be pages.
    if (status === 302 || status === 303) return;
    const [type = ""] = (headers.get("content-type") ?? "").split(";");
    if (type === "text/html" && hasPages(operation)) return;
    if (/xml$/.test(type) && type in response.content) return;
    const schema = response.content?.["application/json"]?.schema;
    const faults = schema ? schemaFaults(this.#document, schema, json) : text === "" ? [] : ["there is a body"];
    this.faults.push(...faults.map((fault) => `${request} ${status}: ${fault}`));
  }

  /** `["readUser 200", …]` */
  get answers(): string[] {
    return [...this.#headers.keys()].sort();
  }

  /** Headers that the document promises, and no answer had. */
  get missingHeaders(): string[] {
    return operationsOf(this.#document).flatMap(({ operation }) =>
      Object.keys(operation.responses).flatMap((status) => {
        const key = `${operation.operationId} ${status}`;
        const promised = Object.keys(responseOf(this.#document, operation, Number(status)).headers ?? {});
        return promised
          .filter((name) => !this.#headers.get(key)?.has(name.toLowerCase()))
          .map((name) => `${key}: ${name}`);
      }),
    );
  }
}

const hasPages = ({ responses }: any) => Object.values<any>(responses).some(({ content }) => content?.["text/html"]);

/** `["readUser 200", …]`, as the document has them. */
export const documented = (document: any): string[] =>
  operationsOf(document)
    .flatMap(({ operation }) => Object.keys(operation.responses).map((status) => `${operation.operationId} ${status}`))
    .sort();

type Located = { readonly method: string; readonly path: string; readonly operation: any };

const operationsOf = (document: any): Located[] =>
  Object.entries<any>(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );

function operationAt(document: any, request: string): any {
  const [method, path = ""] = request.split("?")[0]!.split(" ");
  const found = operationsOf(document).filter(
    (each) => each.method === method && new RegExp(`^${each.path.replace(/\{\w+\}/g, "[^/]+")}$`).test(path),
  );
  expect(
    found.map(({ path }) => path),
    request,
  ).toHaveLength(1);
  return found[0]!.operation;
}

function responseOf(document: any, operation: any, status: number): any {
  const response = operation.responses[status];
  return response?.$ref ? resolve(document, response.$ref) : response;
}
