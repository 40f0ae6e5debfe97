import pino from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, type MockInstance, onTestFinished, test, vi } from "vitest";
import { SchemaReload } from "../../graphql/schema-reload.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { connect, POLL } from "../support/graphql-client.ts";
import { startTestService, type TestService } from "../support/service.ts";

const NOT_SERVED = "the changed schema cannot be served: the previous one stays";
const NOT_BUILT = "the schema cannot be built: GraphQL is not served until it is fixed";
const LEFT_OUT = "GraphQL leaves out a part of the database";

const ARTICLE_EDGES = "create table article_edges (id int primary key); grant select on article_edges to anon;";
const FUNCTION = `
  create function articles_author(public.articles) returns text language sql stable as $$ select 'nobody' $$;
  grant execute on function articles_author to anon;`;
const ODD = 'create table odd (id int primary key, a_b int, "aB" int); grant select on odd to anon;';
const THINGS =
  "create table thing (id int primary key); create table things (id int primary key); grant select on thing, things to anon;";
const USER = 'create table "user" (id int primary key); grant select on "user" to anon;';
const NO_TAG =
  "create table tagged (id int primary key); comment on table tagged is '@behavior nonsense +++ foo'; grant select on tagged to anon;";

/** The omissions that the log and /health report for the first three. */
const NO_EDGES =
  "table public.article_edges: it and table public.articles lead to the same GraphQL type ArticleEdge, and GraphQL leaves one of them out; to cure it: comment on table public.article_edges is '@name article_edges2';";
const NO_AUTHOR =
  "function public.articles_author(public.articles): it and constraint articles_author_id_fkey on public.articles lead to the same GraphQL field Article.author, and GraphQL leaves one of them out; to cure it: comment on function public.articles_author(public.articles) is '@fieldName articles_author2';";
const NO_COLUMN = `column public.odd."aB": it and column public.odd.a_b lead to the same GraphQL field Odd.aB, and GraphQL leaves one of them out; to cure it: comment on column public.odd."aB" is '@name aB2';`;
const NO_THING = "lead to the same GraphQL type ThingOrderBy";
const NO_USER = "lead to the same GraphQL type UserOrderBy";

/** Each group of tests starts and ends with the tables of the contract. */
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const dba = async (sql: string) => void (await database.owner.query(sql));
const addTable = (name: string) => dba(`create table ${name} (id int primary key); grant select on ${name} to anon`);

/** Starts a service for a group of tests after executing this SQL. */
function useServiceAfter(sql: string) {
  const logged: Record<string, any>[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(JSON.parse(line)) });
  let service: TestService;
  beforeAll(async () => {
    await dba(sql);
    service = await startTestService({ GRAPHIQL: "on" }, { ...database, drop: async () => {} }, log);
    await service.gql("{ __typename }");
  });
  afterAll(() => service.stop());

  const gql = (query: string) => service.gql(query);
  return {
    service: () => service,
    gql,
    logs: (message: string) => logged.filter(({ msg }) => msg === message),
    async health() {
      const response = await fetch(`${service.url}/health`);
      const { schema, omissions = [] } = ((await response.json()) as any).details.graphql;
      return { status: response.status, schema, omissions: omissions.toSorted() };
    },
    async fieldsOf(type: string): Promise<string[]> {
      const { data } = await gql(`{ __type(name: "${type}") { fields { name } } }`);
      return data.__type?.fields.map(({ name }: any) => name) ?? [];
    },
  };
}

/** PostGraphile by itself would print the omissions to the console. */
function expectNothingPrinted(): void {
  let printed: MockInstance;
  beforeAll(() => {
    printed = vi.spyOn(console, "warn");
  });
  afterEach(() => expect(printed).not.toHaveBeenCalled());
  afterAll(() => void vi.restoreAllMocks());
}

const CURRENT = { status: 200, schema: "current", omissions: [] };

describe("with conflicting names at the start", () => {
  expectNothingPrinted();
  const { gql, logs, health, fieldsOf } = useServiceAfter(ARTICLE_EDGES + FUNCTION + ODD);
  const omissions = [NO_EDGES, NO_COLUMN, NO_AUTHOR];
  const omitted = expect.arrayContaining(omissions.map((omission) => expect.objectContaining({ level: 40, omission })));

  test("the rest is served, and the log (once) and /health report the omissions", async () => {
    expect((await gql("{ users { name } }")).errors).toBeUndefined();
    expect(await health()).toEqual({ ...CURRENT, omissions: omissions.toSorted() });
    expect(logs(LEFT_OUT)).toEqual(omitted);
    expect(logs(LEFT_OUT)).toHaveLength(3);
  });

  test("existing omissions do not block later changes", async () => {
    await addTable("later");
    await expect.poll(() => fieldsOf("Later"), POLL).toEqual(["id"]);
    expect(logs(LEFT_OUT)).toHaveLength(3);
  });

  test("the omitted parts are served after the conflicts are resolved", async () => {
    await dba("drop table article_edges, odd; drop function articles_author");
    await expect.poll(health, POLL).toEqual(CURRENT);
    expect(await fieldsOf("Query")).toContain("articles");
    expect(await fieldsOf("Article")).toContain("author");
  });
});

describe("with conflicting names while the service runs", () => {
  expectNothingPrinted();
  const { gql, logs, health, fieldsOf } = useServiceAfter("select");
  const QUERY = "{ articles(first: 1) { edges { node { author { name } } } } }";

  test("the previous schema stays if fields would be lost, the log and /health give the reason, and the new schema follows after the conflicts are resolved", async () => {
    await dba(ARTICLE_EDGES + FUNCTION);
    await addTable("meanwhile");
    await expect.poll(async () => (await health()).schema, POLL).toContain(NO_EDGES);
    const { schema: reason } = await health();
    expect(reason).toMatch(
      /^name conflicts would remove .*\. Rename the new object, or give it another GraphQL name\./,
    );
    for (const lost of ["Query.articles", "Article.author", NO_EDGES, NO_AUTHOR]) expect(reason).toContain(lost);
    expect(logs(NOT_SERVED).at(-1)).toMatchObject({ level: 50, err: { message: reason } });
    expect((await gql(QUERY)).errors).toBeUndefined();
    expect(await fieldsOf("Meanwhile")).toEqual([]);

    await dba("drop table article_edges; drop function articles_author");
    await expect.poll(() => fieldsOf("Meanwhile"), POLL).toEqual(["id"]);
    expect(await health()).toEqual(CURRENT);
    expect((await gql(QUERY)).errors).toBeUndefined();
    expect(logs(LEFT_OUT)).toEqual([]);
  });

  test("a new object whose name conflicts is omitted and does not block the rest", async () => {
    await dba(ODD);
    onTestFinished(() => dba("drop table odd"));
    await addTable("besides");
    await expect.poll(() => fieldsOf("Beside"), POLL).toEqual(["id"]);
    expect(await health()).toEqual({ ...CURRENT, omissions: [NO_COLUMN] });
    expect(logs(LEFT_OUT)).toEqual([expect.objectContaining({ level: 40, omission: NO_COLUMN })]);
  });

  test.each([
    ["@name links", "links", "@fieldName writer", "writer"],
    ["@behavior -*", "articles", "@behavior -typeField", "author"],
  ])(
    "%s on a table, which keeps Query.%s, and %s on a function, which keeps Article.%s, resolve the conflicts",
    async (...given) => {
      const [ofTable, field, ofFunction, fieldOfArticle] = given;
      await dba(ARTICLE_EDGES + FUNCTION);
      onTestFinished(() => dba("drop table article_edges; drop function articles_author"));
      await expect.poll(async () => (await health()).schema, POLL).not.toBe("current");
      await dba(
        `comment on table article_edges is '${ofTable}'; comment on function articles_author is '${ofFunction}'`,
      );
      await expect.poll(health, POLL).toEqual(CURRENT);
      expect(await fieldsOf("Query")).toContain(field);
      expect(await fieldsOf("Article")).toContain(fieldOfArticle);
      expect((await gql(QUERY)).errors).toBeUndefined();
    },
  );
});

describe("with a schema that cannot be built at the start", () => {
  const { service, gql, logs, health } = useServiceAfter(NO_TAG + THINGS + USER + ARTICLE_EDGES);
  const refusal = {
    message: "the GraphQL schema cannot be built: the log and /health give the reason",
    extensions: { code: "INTERNAL_ERROR" },
  };

  test("the service runs and only GraphQL responds 503", async () => {
    const { status, headers, ...body } = await gql("{ users { name } }");
    expect({ status, body, retryAfter: headers.get("retry-after") }).toEqual({
      status: 503,
      body: { errors: [refusal] },
      retryAfter: "5",
    });
    const login = await fetch(`${service().url}/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: "ada", password: "Correct-Horse-7!" }),
    });
    expect(login.status).toBe(200);
    expect((await fetch(`${service().url}/graphiql`)).status).toBe(200);
  });

  test("the log and /health give the reason, and the schema is served after each cause is removed", async () => {
    const client = connect(service(), { as: "ada" });
    expect(await client.run("{ users { name } }")).toEqual({ errors: [refusal] });
    for (const [reason, fix] of [
      ["Invalid value for behavior", "drop table tagged"],
      [NO_THING, "drop table thing"],
      [NO_USER, 'drop table "user"'],
    ] as const) {
      await expect.poll(health, POLL).toEqual({ ...CURRENT, schema: expect.stringContaining(reason) });
      expect(logs(NOT_BUILT).at(-1)).toMatchObject({ level: 50, err: { message: expect.stringContaining(reason) } });
      expect((await gql("{ users { name } }")).status).toBe(503);
      await dba(fix);
    }
    await expect.poll(async () => (await gql("{ users { name } }")).status, POLL).toBe(200);
    // The socket that was opened before still works.
    expect((await client.run("{ me { name } }")).data).toEqual({ me: { name: "Ada Lovelace" } });
    expect(await health()).toEqual({ ...CURRENT, omissions: [NO_EDGES] });
    expect(logs(LEFT_OUT)).toEqual([expect.objectContaining({ level: 40, omission: NO_EDGES })]);
    expect(logs("unhandled error")).toEqual([]);
  });
});

test("the start fails if the database does not respond", async () => {
  const lost = () => Promise.reject(new Error("the connection was lost"));
  const log = { onRebuilt: vi.fn(), onBuilt: vi.fn(), onFailed: vi.fn(), onOmission: vi.fn() };
  const reload = new SchemaReload({ omissions: [], rebuild: lost, pingDatabase: lost } as never, log);
  await expect(reload.start()).rejects.toThrow("the connection was lost");
  expect(log.onFailed).not.toHaveBeenCalled();
});
