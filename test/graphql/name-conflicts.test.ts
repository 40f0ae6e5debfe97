import pino from "pino";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { SchemaReload } from "../../graphql/reload.ts";
import { createTestDatabase } from "../support/database.ts";
import { connect, POLL } from "../support/graphql-client.ts";
import { startTestService, type TestService } from "../support/service.ts";

/** Twice what is promised, since the machine of the tests is busy. */
const SOON = { timeout: 2000, interval: 20 };

const NOT_SERVED = "the changed schema can not be served: the old one stays";
const NOT_BUILT = "the schema can not be built: GraphQL is not served until it is mended";
const LEFT_OUT = "a part of the schema is left out because of its name";

const ARTICLE_EDGES = "create table article_edges (id int primary key); grant select on article_edges to anon;";
const THINGS =
  "create table thing (id int primary key); create table things (id int primary key); grant select on thing, things to anon;";
const FUNCTION = `
  create function articles_author(public.articles) returns text language sql stable as $$ select 'nobody' $$;
  grant execute on function articles_author to anon;`;

afterEach(() => void vi.restoreAllMocks());

/** A service on a database that had this done to it before the service started. */
async function startAfter(sql: string) {
  const logged: Record<string, any>[] = [];
  const database = await createTestDatabase();
  const dba = async (text: string) => void (await database.owner.query(text));
  await dba(sql);
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(JSON.parse(line)) });
  const service = await startTestService({ GRAPHIQL: "on" }, database, log);
  onTestFinished(() => service.stop());
  return { service, dba, logs: (message: string) => logged.filter(({ msg }) => msg === message) };
}

async function healthOf({ url }: TestService) {
  const response = await fetch(`${url}/health`);
  const body = (await response.json()) as any;
  return { status: response.status, graphql: body.details.graphql };
}

async function fieldsOf(service: TestService, type: string): Promise<string[]> {
  const { data } = await service.gql(`{ __type(name: "${type}") { fields { name } } }`);
  return data.__type?.fields.map(({ name }: any) => name) ?? [];
}

const CLASHES = [
  ["a table article_edges", ARTICLE_EDGES, "drop table article_edges", "A type named ArticleEdge already exists"],
  [
    "a function articles_author",
    FUNCTION,
    "drop function articles_author",
    "two entities have tried to define the same key 'author'. The second entity was: Adding field to GraphQL type 'Article' for singular relation 'usersByMyAuthorId'",
  ],
  [
    "two columns of one name",
    'create table odd (id int primary key, a_b int, "aB" int); grant select on odd to anon',
    "drop table odd",
    "two entities have tried to define the same key 'aB'. The first entity was: Adding 'a_b' attribute field to GraphQL type 'Odd' (representing PgCodec 'odd') The second entity was: Adding 'aB' attribute field to GraphQL type 'Odd' (representing PgCodec 'odd')",
  ],
] as const;

describe("names that clash when the service starts", () => {
  test.each(CLASHES)(
    "%s: the rest is served; the log, once, and /health say what is left out, until it is mended",
    async (_what, broken, mended, omission) => {
      const printed = vi.spyOn(console, "warn");
      const { service, dba, logs } = await startAfter(broken);
      expect((await service.gql("{ users { name } }")).errors).toBeUndefined();
      expect(await healthOf(service)).toEqual({ status: 200, graphql: { schema: "current", omissions: [omission] } });

      // What was left out already is no reason to refuse what comes later.
      await dba("create table later (id int primary key); grant select on later to anon");
      await expect.poll(() => fieldsOf(service, "Later"), SOON).toEqual(["id"]);
      expect(logs(LEFT_OUT)).toEqual([expect.objectContaining({ level: 40, omission })]);

      await dba(mended);
      await expect.poll(() => healthOf(service), SOON).toEqual({ status: 200, graphql: { schema: "current" } });
      expect(await fieldsOf(service, "Query")).toContain("articles");
      expect(await fieldsOf(service, "Article")).toContain("author");
      expect(printed).not.toHaveBeenCalled();
    },
  );
});

describe("names that clash while the service runs", () => {
  const QUERY = "{ articles(first: 1) { edges { node { author { name } } } } }";

  test.each([
    [CLASHES[0][0], "Query.articles", CLASHES[0]],
    [CLASHES[1][0], "Article.author", CLASHES[1]],
  ] as const)(
    "%s takes away %s: the old schema stays, the log and /health say why, and the new one is served once it is mended",
    async (_what, lost, [, broken, mended, omission]) => {
      const printed = vi.spyOn(console, "warn");
      const { service, dba, logs } = await startAfter("select");
      await dba(`${broken}; create table later (id int primary key); grant select on later to anon`);
      await expect.poll(async () => (await healthOf(service)).graphql.schema, POLL).toContain(omission);
      const reason = (await healthOf(service)).graphql.schema;
      expect(reason).toMatch(/^names that clash would take away .*: rename what is new, or use the smart tag @name/);
      expect(reason).toContain(lost);
      expect(logs(NOT_SERVED)[0]).toMatchObject({ level: 50, err: { message: reason } });
      expect((await service.gql(QUERY)).errors).toBeUndefined();
      expect(await fieldsOf(service, "Later")).toEqual([]);

      await dba(mended);
      await expect.poll(() => fieldsOf(service, "Later"), SOON).toEqual(["id"]);
      expect(await healthOf(service)).toEqual({ status: 200, graphql: { schema: "current" } });
      expect((await service.gql(QUERY)).errors).toBeUndefined();
      expect(logs(LEFT_OUT)).toEqual([]);
      expect(printed).not.toHaveBeenCalled();
    },
  );

  test("what is new and can't be named is left out, and keeps nothing else from being served", async () => {
    const { service, dba, logs } = await startAfter("select");
    const [, odd, , omission] = CLASHES[2];
    await dba(`${odd}; create table later (id int primary key); grant select on later to anon`);
    await expect.poll(() => fieldsOf(service, "Later"), SOON).toEqual(["id"]);
    expect(await healthOf(service)).toEqual({ status: 200, graphql: { schema: "current", omissions: [omission] } });
    expect(logs(LEFT_OUT)).toEqual([expect.objectContaining({ level: 40, omission })]);
  });

  test.each([
    ["table article_edges", "@name links", ARTICLE_EDGES, "Query", "links"],
    ["table article_edges", "@behavior -*", ARTICLE_EDGES, "Query", "articles"],
    ["function articles_author", "@fieldName writer", FUNCTION, "Article", "writer"],
    ["function articles_author", "@behavior -typeField", FUNCTION, "Article", "author"],
  ])("on a %s %s mends it", async (what, tag, broken, type, field) => {
    const { service, dba } = await startAfter("select");
    await dba(broken);
    await expect.poll(async () => (await healthOf(service)).graphql.schema, POLL).not.toBe("current");
    await dba(`comment on ${what} is '${tag}'`);
    await expect.poll(() => healthOf(service), SOON).toEqual({ status: 200, graphql: { schema: "current" } });
    expect(await fieldsOf(service, type)).toContain(field);
    expect((await service.gql(QUERY)).errors).toBeUndefined();
  });
});

describe("a schema that can't be built when the service starts", () => {
  const refusal = {
    message: "the GraphQL schema can not be built: the log and /health say why",
    extensions: { code: "INTERNAL_ERROR" },
  };

  test.each([
    ["two tables of one name", THINGS, "drop table thing", "naming conflict"],
    [
      "user beside users",
      'create table "user" (id int primary key); grant select on "user" to anon',
      'drop table "user"',
      "naming conflict",
    ],
    [
      "a smart tag that is none",
      "create table odd (id int primary key); comment on table odd is '@behavior nonsense +++ foo'; grant select on odd to anon",
      "drop table odd",
      "Invalid value for behavior",
    ],
  ])(
    "%s: the service runs, GraphQL alone answers 503, and is served once it is mended",
    async (_what, broken, mended, reason) => {
      const { service, dba, logs } = await startAfter(broken);
      expect(logs(NOT_BUILT)[0]).toMatchObject({ level: 50, err: { message: expect.stringContaining(reason) } });
      expect(await healthOf(service)).toEqual({ status: 200, graphql: { schema: expect.stringContaining(reason) } });

      const { status, headers, ...body } = await service.gql("{ users { name } }");
      expect({ status, body, retryAfter: headers.get("retry-after") }).toEqual({
        status: 503,
        body: { errors: [refusal] },
        retryAfter: "5",
      });
      const client = connect(service, { as: "ada" });
      expect(await client.run("{ users { name } }")).toEqual({ errors: [refusal] });
      const login = await fetch(`${service.url}/auth/login`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ username: "ada", password: "Correct-Horse-7!" }),
      });
      expect(login.status).toBe(200);
      expect((await fetch(`${service.url}/graphiql`)).status).toBe(200);

      await dba(mended);
      await expect.poll(async () => (await service.gql("{ users { name } }")).status, SOON).toBe(200);
      // The socket from before goes on.
      expect((await client.run("{ me { name } }")).data).toEqual({ me: { name: "Ada Lovelace" } });
      expect(await healthOf(service)).toEqual({ status: 200, graphql: { schema: "current" } });
      expect(logs("unhandled error")).toEqual([]);
    },
  );

  test("a schema that is mended in part is served with what it lacks", async () => {
    const { service, dba, logs } = await startAfter(THINGS + ARTICLE_EDGES);
    await dba("drop table thing");
    await expect.poll(async () => (await service.gql("{ users { name } }")).status, SOON).toBe(200);
    const omission = "A type named ArticleEdge already exists";
    expect(await healthOf(service)).toEqual({ status: 200, graphql: { schema: "current", omissions: [omission] } });
    expect(logs(LEFT_OUT)).toEqual([expect.objectContaining({ level: 40, omission })]);
  });

  test("where the database does not answer, the start fails as before", async () => {
    const lost = () => Promise.reject(new Error("the connection was lost"));
    const log = { onRebuilt: vi.fn(), onFailed: vi.fn(), onOmission: vi.fn() };
    const reload = new SchemaReload({ omissions: [], rebuild: lost, pingDatabase: lost } as never, log);
    await expect(reload.start()).rejects.toThrow("the connection was lost");
    expect(log.onFailed).not.toHaveBeenCalled();
  });
});
