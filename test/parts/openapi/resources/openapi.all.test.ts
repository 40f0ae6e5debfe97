import pg from "pg";
import { beforeAll, describe, expect, inject, test } from "vitest";

import { schemaFaults } from "../../../support/json-schema.ts";
import { openApiFaults, resolve, withTags } from "../../../support/openapi-rules.ts";
import { type ApiReply, type ApiSent, sendTo, useResources } from "../../../support/resource-client.ts";
import { startTestService, type TestService } from "../../../support/service.ts";
import { BODY_LIMIT, documented, FAILURES, type Sample, Seen, samplesOf } from "../responses.ts";

const client = useResources({ RATE_LIMIT: "1000000", BODY_LIMIT: String(BODY_LIMIT), TASK_CONCURRENCY: "2" });
const slow = useResources({ DB_STATEMENT_TIMEOUT: "250" });
let busy: TestService;

const VERSIONS = [1, 2] as const;
const PATHS = { 1: "/openapi.json", 2: "/api/v2/openapi.json" } as const;
const PREFIXES = { 1: "", 2: "/api/v2" } as const;

/** `GET /users` → `GET /api/v2/users` */
const inVersion = (version: 1 | 2, request: string) => request.replace(" ", ` ${PREFIXES[version]}`);

/** Rows for each version, and rows whose every change fails as if another transaction had changed them first. */
const ROWS = VERSIONS.map((version) => {
  const id = (number: number) => version * 100 + number;
  return `
    insert into users (id, name, email) overriding system value values (${id(1)}, 'Zoe', 'zoe${version}@example.com');
    insert into articles (id, author_id, title, content) overriding system value values
      (${id(1)}, 1, 'To be deleted', 'x'), (${id(2)}, 1, 'To be deleted', 'x'),
      (${id(3)}, 1, 'Contended', 'conflict'), (${id(4)}, 1, 'Contended', 'conflict');
    insert into comments (id, article_id, author_id, content) overriding system value values
      (${id(1)}, 1, 2, 'x'), (${id(2)}, 1, 2, 'x'), (${id(3)}, 1, 2, 'conflict'), (${id(4)}, 1, 2, 'conflict');`;
}).join("");
const CONTENTION = `
  create function contend() returns trigger language plpgsql set search_path = '' as $$
  begin raise serialization_failure using message = 'changed by another transaction'; end $$;
  create trigger contend_writes before insert or update on articles for each row when (new.content = 'conflict') execute function contend();
  create trigger contend_writes before insert or update on comments for each row when (new.content = 'conflict') execute function contend();
  create trigger contend_deletes before delete on articles for each row when (old.content = 'conflict') execute function contend();
  create trigger contend_deletes before delete on comments for each row when (old.content = 'conflict') execute function contend();`;

const documents: any = {};
beforeAll(async () => {
  const database = { ...client.service().database, drop: async () => {} };
  busy = await startTestService({ RATE_LIMIT: "1", USERS_WRITE: "open", GRAPHQL_DOCUMENTS: "none" }, database);
  await client.sql(ROWS + CONTENTION);
  for (const version of VERSIONS) documents[version] = await client.body(PATHS[version]);
  return () => busy.stop();
});

/** Without the authentication routes, which belong to no version. */
const ofResources = (version: 1 | 2) => withTags(documents[version], (tag) => tag !== "authentication");

describe.each(VERSIONS)("the document of version %i", (version) => {
  test("is valid OpenAPI 3.1", () => {
    expect(openApiFaults(documents[version])).toEqual([]);
  });

  test("has all paths", () => {
    const paths = Object.keys(ofResources(version).paths);
    for (const path of paths) expect(path.startsWith(`${PREFIXES[version]}/`)).toBe(true);
    expect(paths.map((path) => path.slice(PREFIXES[version].length))).toEqual([
      "/users",
      "/users/{userId}",
      "/articles",
      "/articles/{articleId}",
      "/articles/{articleId}/publish",
      "/comments",
      "/comments/{commentId}",
      "/users/{userId}/articles",
      "/users/{userId}/articles/{articleId}",
      "/articles/{articleId}/comments",
      "/articles/{articleId}/comments/{commentId}",
      "/tasks",
      "/tasks/{taskId}",
      "/tasks/{taskId}/cancel",
    ]);
  });

  test("has exactly the responses that are sent, in the described form", async () => {
    const document = ofResources(version);
    const seen = new Seen(document);
    const hasPosition = async () => (await client.api("/users/1")).headers.has("change-position");
    await expect.poll(hasPosition).toBe(true);
    await askSamples(version, seen);
    await askTasks(version, seen);
    await askOverLimit(version, seen);
    await askWithoutDatabase(version, seen);
    expect(seen.faults).toEqual([]);
    expect(seen.answers).toEqual(documented(document));
    expect(seen.missingHeaders).toEqual([]);
  });
});

const fits = async (schema: string, request: string, sent: ApiSent = {}, version: 1 | 2 = 1): Promise<unknown[]> => {
  const { json } = await client.api(inVersion(version, request), sent);
  return schemaFaults(documents[version], { $ref: `#/components/schemas/${schema}` }, json);
};

test.each(["/users", "/users?skip=1&limit=1", "/users?page=0&size=2", "/users?page=1&limit=2", "/users?limit=0"])(
  "GET %s is one of the forms of a list",
  async (path) => {
    expect(await fits("UserList", `GET ${path}`)).toEqual([]);
    expect(await fits("UserList", `GET ${path}`, { prefer: "dialect=envelope" })).toEqual([]);
  },
);

test.each(VERSIONS)("problems of version %i have one form, which is described", async (version) => {
  expect(documents[version].components.schemas.Problem.oneOf).toBeUndefined();
  expect(await fits("Problem", "GET /users/abc", {}, version)).toEqual([]);
  expect(await fits("Problem", "POST /users", { body: { name: 1 } }, version)).toEqual([]);
  expect(await fits("Problem", "GET /users?version=7", {}, 1)).toEqual([]);
});

test.each(VERSIONS)(
  "the response to respond-async in version %i is in a schema, and in no operation",
  async (version) => {
    expect(await fits("AcceptedTask", "GET /users", { prefer: "respond-async" }, version)).toEqual([]);
    const operations = Object.values<any>(documents[version].paths).flatMap(Object.values);
    const withTasks = operations.filter(({ tags, responses }) => !tags.includes("authentication") && 202 in responses);
    expect(withTasks).toEqual([]);
  },
);

test("an operation needs no credentials if the anonymous role has the grant", () => {
  const isOpen = (method: string, path: string) => documents[1].paths[path][method].security !== undefined;
  expect(["get", "post"].map((method) => isOpen(method, "/users"))).toEqual([true, true]);
  expect(["put", "patch", "delete"].map((method) => isOpen(method, "/users/{userId}"))).toEqual([true, true, true]);
  expect(["get", "post"].map((method) => isOpen(method, "/articles"))).toEqual([true, false]);
  expect(["get", "put", "delete"].map((method) => isOpen(method, "/articles/{articleId}"))).toEqual([
    true,
    false,
    false,
  ]);
  expect(isOpen("post", "/articles/{articleId}/publish")).toBe(false);
  expect(documents[1].paths["/users"].get.security).toEqual([
    {},
    { bearer: [] },
    { apiKey: [] },
    { session: [] },
    { basic: [] },
  ]);
});

describe("a record", () => {
  const propertiesOf = (schema: string, version: 1 | 2 = 1) => documents[version].components.schemas[schema].properties;

  test("has the fields of its version, with read-only fields marked", () => {
    expect(Object.keys(propertiesOf("User"))).toEqual([
      "id",
      "name",
      "email",
      "age",
      "created_at",
      "updated_at",
      "_links",
    ]);
    expect(Object.keys(propertiesOf("Article", 2))).toEqual([
      ...["id", "authorId", "title", "content", "status", "tags", "createdAt", "updatedAt", "author", "_links"],
    ]);
    const { id, age, createdAt } = propertiesOf("User", 2);
    expect(id).toEqual({
      type: "integer",
      format: "int64",
      description: "Assigned by the service, increasing.",
      readOnly: true,
    });
    expect(age).toEqual({ type: ["integer", "null"], format: "int32", description: "In years, 0 to 150." });
    expect(createdAt).toMatchObject({ type: "string", format: "date-time", readOnly: true });
  });

  test("has writable fields in request bodies, with the messages of their rules", () => {
    expect(documents[1].components.schemas.UserCreate.required).toEqual(["name", "email"]);
    expect(propertiesOf("UserCreate").age.description).toBe(
      "In years, 0 to 150.\n\nRule: age must be from 0 to 150.\n\nDefault: `null`.",
    );
    expect(propertiesOf("UserCreate").password).toMatchObject({ $ref: "#/components/schemas/NewPassword" });
    const { NewPassword } = documents[1].components.schemas;
    expect(NewPassword).toMatchObject({ minLength: 12, maxLength: 128, writeOnly: true });
    expect(propertiesOf("ArticleReplace").status).toMatchObject({
      type: "string",
      description: expect.stringMatching(/\n\nDefault: `"DRAFT"`\.$/),
    });
    expect(documents[1].components.schemas.ArticleUpdate.required).toBeUndefined();
    expect(propertiesOf("ArticleUpdate").status.description).not.toContain("Default");
    expect(Object.keys(propertiesOf("CommentUpdate"))).toEqual(["content"]);
  });

  test("in a collection has no field for its parent", () => {
    const { requestBody } = documents[1].paths["/articles/{articleId}/comments"].post;
    expect(Object.keys(requestBody.content["application/json"].schema.oneOf[0].properties)).toEqual(["content"]);
  });
});

test.each([
  [1, "skip limit page size status author tag created_after created_before"],
  [2, "page limit status author tag createdAfter createdBefore"],
] as const)("a list of version %i takes these parameters", (version, names) => {
  const { parameters } = documents[version].paths[`${PREFIXES[version]}/articles`].get;
  const named = parameters.map(({ $ref }: any) => resolve(documents[version], $ref).name).join(" ");
  expect(named).toBe(`fields sort order keyword ${names} Prefer If-None-Match version X-API-Version`);
});

type Ask = (request: string, sent?: ApiSent) => Promise<ApiReply>;

const asker =
  ({ api }: Pick<typeof client, "api">, version: 1 | 2, seen: Seen): Ask =>
  async (request, sent) => {
    const reply = await api(inVersion(version, request), { prefer: "handling=strict", ...sent });
    seen.note(inVersion(version, request), reply);
    return reply;
  };

const idsOf = (version: 1 | 2) => (number: number) => version * 100 + number;
const UNKNOWN = "00000000-0000-4000-8000-000000000000";

async function askSamples(version: 1 | 2, seen: Seen): Promise<void> {
  const ask = asker(client, version, seen);
  const samples = samplesOf(idsOf(version));
  for (const sample of samples) await askFailures(ask, sample, version);
  for (const { request, sent } of samples) {
    await ask(request, sent);
    const isCreation = request.startsWith("POST") && sent?.body !== undefined;
    if (isCreation) await ask(request, { ...sent, body: [another(sent.body)] });
  }
}

async function askFailures(ask: Ask, sample: Sample, version: 1 | 2): Promise<void> {
  if (sample.request.startsWith("GET"))
    await ask(sample.request, { ...sample.sent, headers: { "if-none-match": "*" } });
  const failures = FAILURES.map(async ([status, change]) => {
    const failing = change(sample, version);
    if (failing) expect((await ask(...failing)).status, failing.join(" ")).toBe(status);
  });
  await Promise.all(failures);
}

/** The same body with an unused e-mail. */
const another = (body: any) => (body.email ? { ...body, email: `x${body.email}` } : body);

/** A task that has ended, and one that waits for a table. */
async function askTasks(version: 1 | 2, seen: Seen): Promise<void> {
  const ask = asker(client, version, seen);
  const start = async (path: string) => (await client.body(path, { prefer: "respond-async" })).taskId;
  const done = await start("/users");
  await expect.poll(async () => (await client.body(`/tasks/${done}`)).status).toBe("succeeded");
  await client.sql("begin; lock table articles in access exclusive mode");
  const running = await start("/articles");
  const samples: readonly Sample[] = [
    { request: "GET /tasks", sent: { as: "ada" } },
    { request: `GET /tasks/${running}`, missing: `GET /tasks/${UNKNOWN}` },
    { request: `GET /tasks/${done}` },
    {
      request: `POST /tasks/${running}/cancel`,
      missing: `POST /tasks/${UNKNOWN}/cancel`,
      conflict: { request: `POST /tasks/${done}/cancel` },
    },
  ];
  for (const sample of samples) await askFailures(ask, sample, version);
  for (const { request, sent } of samples) await ask(request, sent);
  await client.sql("rollback");
}

const everything = (version: 1 | 2): readonly Sample[] => [
  ...samplesOf(idsOf(version)),
  { request: "GET /tasks", sent: { as: "ada" } },
  { request: `GET /tasks/${UNKNOWN}` },
  { request: `POST /tasks/${UNKNOWN}/cancel` },
];

async function askOverLimit(version: 1 | 2, seen: Seen): Promise<void> {
  // The rate limit applies before credentials are read.
  const api = (request: string, { as: _as, ...sent }: ApiSent = {}) => sendTo(busy.url, request, sent);
  const ask = asker({ api }, version, seen);
  await api("/users");
  for (const { request, sent } of everything(version)) expect((await ask(request, sent)).status, request).toBe(429);
}

/** First the tables are locked, then the database refuses all connections. */
async function askWithoutDatabase(version: 1 | 2, seen: Seen): Promise<void> {
  const ask = asker(slow, version, seen);
  const expectStatus = async ({ request, sent }: Sample, status: number) =>
    expect((await ask(request, sent)).status, request).toBe(status);
  await slow.sql("begin; lock table users, articles, comments, tasks.tasks in access exclusive mode");
  await Promise.all(everything(version).map((sample) => expectStatus(sample, 504)));
  await slow.sql("rollback");
  await withoutDatabase(slow.service().database.name, async () => {
    await Promise.all(everything(version).map((sample) => expectStatus(sample, 503)));
  });
}

/** While `work` runs, the database refuses all connections, and those of the service are closed. */
async function withoutDatabase(name: string, work: () => Promise<unknown>): Promise<void> {
  const root = new pg.Client({ connectionString: inject("clusterUrl") });
  await root.connect();
  await root.query(`alter database ${name} allow_connections false`);
  const ofService = "datname = $1 and application_name like 'content-service%'";
  await root.query(`select pg_terminate_backend(pid) from pg_stat_activity where ${ofService}`, [name]);
  try {
    await work();
  } finally {
    await root.query(`alter database ${name} allow_connections true`);
    await root.end();
  }
}
