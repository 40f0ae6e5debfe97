import pino from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { SchemaReload } from "../../graphql/schema-reload.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { connect, POLL } from "../support/graphql-client.ts";
import { startTestService, type TestService } from "../support/service.ts";

/** What is promised within a second; the machine of the tests is busy. */
const SOON = { timeout: 5000, interval: 20 };

const NOT_SERVED = "the changed schema can not be served: the old one stays";
const NOT_BUILT = "the schema can not be built: GraphQL is not served until it is mended";
const LEFT_OUT = "a part of the schema is left out because of its name";

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

/** What the log and /health say of the first three. */
const NO_EDGES = "A type named ArticleEdge already exists";
const NO_AUTHOR =
  "two entities have tried to define the same key 'author'. The second entity was: Adding field to GraphQL type 'Article' for singular relation 'usersByMyAuthorId'";
const NO_COLUMN =
  "two entities have tried to define the same key 'aB'. The first entity was: Adding 'a_b' attribute field to GraphQL type 'Odd' (representing PgCodec 'odd') The second entity was: Adding 'aB' attribute field to GraphQL type 'Odd' (representing PgCodec 'odd')";

/** The groups of tests begin and end with the tables of the contract. */
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const dba = async (sql: string) => void (await database.owner.query(sql));
const addTable = (name: string) => dba(`create table ${name} (id int primary key); grant select on ${name} to anon`);

/** A service for a group of tests, on the database that had this done to it before. */
function useServiceAfter(sql: string) {
  const logged: Record<string, any>[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(JSON.parse(line)) });
  let service: TestService;
  beforeAll(async () => {
    await dba(sql);
    service = await startTestService({ GRAPHIQL: "on" }, { ...database, drop: async () => {} }, log);
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

/** Of what it leaves out PostGraphile itself would tell the console. */
function expectNothingPrinted(): void {
  beforeAll(() => void vi.spyOn(console, "warn"));
  afterEach(() => expect(console.warn).not.toHaveBeenCalled());
  afterAll(() => void vi.restoreAllMocks());
}

const CURRENT = { status: 200, schema: "current", omissions: [] };

describe("names that clash when the service starts", () => {
  expectNothingPrinted();
  const { gql, logs, health, fieldsOf } = useServiceAfter(ARTICLE_EDGES + FUNCTION + ODD);
  const omissions = [NO_EDGES, NO_COLUMN, NO_AUTHOR];
  const omitted = expect.arrayContaining(omissions.map((omission) => expect.objectContaining({ level: 40, omission })));

  test("the rest is served; the log, once, and /health say what is left out", async () => {
    expect((await gql("{ users { name } }")).errors).toBeUndefined();
    expect(await health()).toEqual({ ...CURRENT, omissions: omissions.toSorted() });
    expect(logs(LEFT_OUT)).toEqual(omitted);
    expect(logs(LEFT_OUT)).toHaveLength(3);
  });

  test("what was left out already is no reason to refuse what comes later", async () => {
    await addTable("later");
    await expect.poll(() => fieldsOf("Later"), SOON).toEqual(["id"]);
    expect(logs(LEFT_OUT)).toHaveLength(3);
  });

  test("all is served once they are mended", async () => {
    await dba("drop table article_edges, odd; drop function articles_author");
    await expect.poll(health, SOON).toEqual(CURRENT);
    expect(await fieldsOf("Query")).toContain("articles");
    expect(await fieldsOf("Article")).toContain("author");
  });
});

describe("names that clash while the service runs", () => {
  expectNothingPrinted();
  const { gql, logs, health, fieldsOf } = useServiceAfter("select");
  const QUERY = "{ articles(first: 1) { edges { node { author { name } } } } }";

  test("what they would take away stays with the old schema, the log and /health say why, and the new one is served once they are mended", async () => {
    await dba(ARTICLE_EDGES + FUNCTION);
    await addTable("meanwhile");
    await expect.poll(async () => (await health()).schema, POLL).toContain(NO_EDGES);
    const { schema: reason } = await health();
    expect(reason).toMatch(/^name conflicts would remove .*: rename the new object, or use the smart tag @name/);
    for (const lost of ["Query.articles", "Article.author", NO_EDGES, NO_AUTHOR]) expect(reason).toContain(lost);
    expect(logs(NOT_SERVED).at(-1)).toMatchObject({ level: 50, err: { message: reason } });
    expect((await gql(QUERY)).errors).toBeUndefined();
    expect(await fieldsOf("Meanwhile")).toEqual([]);

    await dba("drop table article_edges; drop function articles_author");
    await expect.poll(() => fieldsOf("Meanwhile"), SOON).toEqual(["id"]);
    expect(await health()).toEqual(CURRENT);
    expect((await gql(QUERY)).errors).toBeUndefined();
    expect(logs(LEFT_OUT)).toEqual([]);
  });

  test("what is new and can't be named is left out, and keeps nothing else from being served", async () => {
    await dba(ODD);
    onTestFinished(() => dba("drop table odd"));
    await addTable("besides");
    await expect.poll(() => fieldsOf("Beside"), SOON).toEqual(["id"]);
    expect(await health()).toEqual({ ...CURRENT, omissions: [NO_COLUMN] });
    expect(logs(LEFT_OUT)).toEqual([expect.objectContaining({ level: 40, omission: NO_COLUMN })]);
  });

  test.each([
    ["@name links", "links", "@fieldName writer", "writer"],
    ["@behavior -*", "articles", "@behavior -typeField", "author"],
  ])(
    "%s on a table, which leaves Query.%s, and %s on a function, which leaves Article.%s, mend them",
    async (...given) => {
      const [ofTable, field, ofFunction, fieldOfArticle] = given;
      await dba(ARTICLE_EDGES + FUNCTION);
      onTestFinished(() => dba("drop table article_edges; drop function articles_author"));
      await expect.poll(async () => (await health()).schema, POLL).not.toBe("current");
      await dba(
        `comment on table article_edges is '${ofTable}'; comment on function articles_author is '${ofFunction}'`,
      );
      await expect.poll(health, SOON).toEqual(CURRENT);
      expect(await fieldsOf("Query")).toContain(field);
      expect(await fieldsOf("Article")).toContain(fieldOfArticle);
      expect((await gql(QUERY)).errors).toBeUndefined();
    },
  );
});

describe("a schema that can't be built when the service starts", () => {
  const { service, gql, logs, health } = useServiceAfter(NO_TAG + THINGS + USER + ARTICLE_EDGES);
  const refusal = {
    message: "the GraphQL schema cannot be built: the log and /health give the reason",
    extensions: { code: "INTERNAL_ERROR" },
  };

  test("the service runs, GraphQL alone answers 503", async () => {
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

  test("the log and /health say why; once all is mended that keeps it from being built it is served, with what it lacks", async () => {
    const client = connect(service(), { as: "ada" });
    expect(await client.run("{ users { name } }")).toEqual({ errors: [refusal] });
    for (const [reason, mended] of [
      ["Invalid value for behavior", "drop table tagged"],
      ["two entities have tried to define the same key 'things'", "drop table thing"],
      ["two entities have tried to define the same key 'users'", 'drop table "user"'],
    ] as const) {
      await expect.poll(health, SOON).toEqual({ ...CURRENT, schema: expect.stringContaining(reason) });
      expect(logs(NOT_BUILT).at(-1)).toMatchObject({ level: 50, err: { message: expect.stringContaining(reason) } });
      expect((await gql("{ users { name } }")).status).toBe(503);
      await dba(mended);
    }
    await expect.poll(async () => (await gql("{ users { name } }")).status, SOON).toBe(200);
    // The socket from before goes on.
    expect((await client.run("{ me { name } }")).data).toEqual({ me: { name: "Ada Lovelace" } });
    expect(await health()).toEqual({ ...CURRENT, omissions: [NO_EDGES] });
    expect(logs(LEFT_OUT)).toEqual([expect.objectContaining({ level: 40, omission: NO_EDGES })]);
    expect(logs("unhandled error")).toEqual([]);
  });
});

test("where the database does not answer, the start fails as before", async () => {
  const lost = () => Promise.reject(new Error("the connection was lost"));
  const log = { onRebuilt: vi.fn(), onFailed: vi.fn(), onOmission: vi.fn() };
  const reload = new SchemaReload({ omissions: [], rebuild: lost, pingDatabase: lost } as never, log);
  await expect(reload.start()).rejects.toThrow("the connection was lost");
  expect(log.onFailed).not.toHaveBeenCalled();
});
