import pg from "pg";
import pino from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, type MockInstance, onTestFinished, test, vi } from "vitest";
import { buildCatalog } from "../../db/catalog/build.ts";
import { parseCatalog, readCatalog } from "../../db/catalog/read.ts";
import { SchemaReload } from "../../graphql/schema/schema-reload.ts";
import { findLeftOut } from "../../parts/advisor/left-out.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { connect } from "../support/graphql-client.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

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

/** The omissions that the log and /health report for the first three. */
const NO_EDGES =
  "table public.article_edges: it and table public.articles lead to the same GraphQL type ArticleEdge, and GraphQL leaves one of them out; to fix it: comment on table public.article_edges is '@name article_edges2';";
const NO_AUTHOR =
  "function public.articles_author(public.articles): it and constraint articles_author_id_fkey on public.articles lead to the same GraphQL field Article.author, and GraphQL leaves one of them out; to fix it: comment on function public.articles_author(public.articles) is '@fieldName articles_author2';";
const NO_COLUMN = `column public.odd."aB": it and column public.odd.a_b lead to the same GraphQL field Odd.aB, and GraphQL leaves one of them out; to fix it: comment on column public.odd."aB" is '@name aB2';`;

/** Each group of tests starts and ends with the tables of the contract. */
let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

const dba = async (sql: string) => void (await database.owner.query(sql));
const addTable = (name: string) => dba(`create table ${name} (id int primary key); grant select on ${name} to anon`);

/** Starts a service for a group of tests after executing this SQL. */
function useServiceAfter(sql: string, settings: Readonly<Record<string, string>> = {}) {
  const logged: Record<string, any>[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => logged.push(JSON.parse(line)) });
  let service: TestService;
  beforeAll(async () => {
    await dba(sql);
    service = await startTestService({ PARTS: "+explorer", ...settings }, { ...database, drop: async () => {} }, log);
    await service.gql("{ __typename }");
  });
  afterAll(() => service.stop());

  const gql = (query: string) => service.gql(query);
  return {
    service: () => service,
    gql,
    logs: (message: string) => logged.filter(({ msg }) => msg === message),
    async health() {
      const { details } = await service.health();
      const { schema, omissions = [] } = details.graphql;
      return { schema, omissions: omissions.toSorted() };
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

const CURRENT = { schema: "current", omissions: [] };

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

  test("new objects whose names conflict are left out, and the rest of the change is served", async () => {
    await dba(ARTICLE_EDGES + FUNCTION);
    await addTable("meanwhile");
    await expect.poll(() => fieldsOf("Meanwhile"), POLL).toEqual(["id"]);
    await expect.poll(health, POLL).toEqual({ ...CURRENT, omissions: [NO_AUTHOR, NO_EDGES].toSorted() });
    expect((await gql(QUERY)).errors).toBeUndefined();
    await dba("drop table article_edges; drop function articles_author");
    await expect.poll(health, POLL).toEqual(CURRENT);
    expect((await gql(QUERY)).errors).toBeUndefined();
  });

  test("the previous schema stays if an object that is served would be left out, and the log and /health give the reason", async () => {
    await addTable("thing");
    await dba(
      "create table others (id int primary key, a int, b int, c int, d int, e int, f int); grant select on others to anon",
    );
    await expect.poll(() => fieldsOf("Other"), POLL).toContain("f");
    await dba("alter table thing rename to other");
    await expect.poll(async () => (await health()).schema, POLL).not.toBe("current");
    const { schema: reason } = await health();
    expect(reason).toMatch(
      /^table public\.others: GraphQL would lose (\w+\.\w+, ){4}\w+\.\w+ and \d+ more: it and table public\.other lead to the same GraphQL /,
    );
    expect(logs(NOT_SERVED).at(-1)).toMatchObject({ level: 50, err: { message: reason } });
    expect((await gql("{ others { edges { node { a f } } } }")).errors).toBeUndefined();
    await dba("drop table other, others");
    await expect.poll(health, POLL).toEqual(CURRENT);
  });

  test("two tables that become one type are named, and the fix gives the newer one a name", async () => {
    await dba('create table "a:b" (id int primary key); grant select on "a:b" to anon');
    await dba('create table "a/b" (id int primary key); grant select on "a/b" to anon');
    const fix = `comment on table public."a/b" is '@name a/b2';`;
    const reason = `table public."a/b": it and table public."a:b" lead to the same GraphQL name aB, and GraphQL leaves one of them out`;
    await expect.poll(health, POLL).toEqual({ ...CURRENT, omissions: [`${reason}; to fix it: ${fix}`] });
    await dba(fix);
    await expect.poll(health, POLL).toEqual(CURRENT);
    expect(await fieldsOf("Query")).toEqual(expect.arrayContaining(["aB", "aB2"]));
    await dba('drop table "a:b", "a/b"');
  });

  test("a new @name that is taken is ignored: its object keeps its name, and other renames are served", async () => {
    await dba("create table firsts (id int primary key, a int, b_c int); grant select on firsts to anon");
    await dba("create table seconds (id int primary key, d int); grant select on seconds to anon");
    await expect.poll(() => fieldsOf("Second"), POLL).toEqual(["id", "d"]);
    await dba(`comment on table firsts is '@name seconds'; comment on column firsts.a is e'@name bC\\nThe a.';
      comment on column seconds.d is '@name e'`);
    await expect.poll(() => fieldsOf("Second"), POLL).toEqual(["id", "e"]);
    expect(await health()).toEqual({
      ...CURRENT,
      omissions: [
        "column public.firsts.a: GraphQL ignores @name bC: column public.firsts.b_c leads to the GraphQL field First.bC too; to fix it: comment on column public.firsts.a is 'The a.';",
        "table public.firsts: GraphQL ignores @name seconds: table public.seconds leads to the GraphQL name seconds too; to fix it: comment on table public.firsts is null;",
      ],
    });
    expect(await fieldsOf("First")).toEqual(["id", "a", "bC"]);
    await dba("drop table firsts, seconds");
    await expect.poll(health, POLL).toEqual(CURRENT);
  });

  test("a name that is served stays with its object, and the fix keeps the comment of the newer one", async () => {
    await dba(
      "create table firsts (id int primary key); comment on table firsts is '@name served'; grant select on firsts to anon",
    );
    await expect.poll(() => fieldsOf("Served"), POLL).toEqual(["id"]);
    await dba(`create table served (id int primary key, newer int); grant select on served to anon;
      comment on table served is e'@fieldName odd\\nThe second.'`);
    const omission =
      "table public.served: it and table public.firsts lead to the same GraphQL name served, and GraphQL leaves one of them out; to fix it: comment on table public.served is '@name served2\n@fieldName odd\nThe second.';";
    await expect.poll(health, POLL).toEqual({ ...CURRENT, omissions: [omission] });
    expect(await fieldsOf("Served")).toEqual(["id"]);
    await dba("drop table firsts, served");
    await expect.poll(health, POLL).toEqual(CURRENT);
  });

  test("a smart tag with a wrong argument is ignored, and the log and /health name it until it is fixed", async () => {
    await dba("comment on table comments is e'@order bodie desc\\nWhat readers say.'");
    await addTable("meanwhile_tagged");
    await expect.poll(() => fieldsOf("MeanwhileTagged"), POLL).toEqual(["id"]);
    const omission =
      "table public.comments: GraphQL ignores @order bodie desc: \"bodie desc\" in @order of comments is not a column followed by asc or desc; to fix it: comment on table public.comments is 'What readers say.';";
    expect(await health()).toEqual({ ...CURRENT, omissions: [omission] });
    expect(logs(LEFT_OUT).at(-1)).toMatchObject({ level: 40, omission });
    expect((await gql("{ comments { totalCount } }")).errors).toBeUndefined();
    await dba("comment on table comments is null; drop table meanwhile_tagged");
    await expect.poll(health, POLL).toEqual(CURRENT);
  });

  test.each([
    ["@name links", "links", "@fieldName writer", "writer"],
    ["@behavior -*", "articles", "@behavior -typeField", "author"],
  ])(
    "%s on a table, which keeps Query.%s, and %s on a function, which keeps Article.%s, resolve the conflicts",
    async (...given) => {
      const [ofTable, field, ofFunction, fieldOfArticle] = given;
      await dba(ARTICLE_EDGES + FUNCTION);
      onTestFinished(async () => {
        await dba("drop table article_edges; drop function articles_author");
        await expect.poll(() => fieldsOf("Query"), POLL).not.toContain("links");
      });
      await expect.poll(async () => (await health()).omissions, POLL).toHaveLength(2);
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

describe("with conflicting names that end the build at the start", () => {
  const { gql, logs, health } = useServiceAfter(THINGS + USER + ARTICLE_EDGES);

  test("GraphQL is served without the newer objects, and the log and /health give the reason of each", async () => {
    expect((await gql("{ users { name } things { totalCount } }")).errors).toBeUndefined();
    const { schema, omissions } = await health();
    expect(schema).toBe("current");
    expect(omissions).toEqual([
      expect.stringMatching(/^table public\."user": .*the same GraphQL /),
      NO_EDGES,
      expect.stringMatching(/^table public\.things: .*the same GraphQL /),
    ]);
    expect(logs(LEFT_OUT)).toHaveLength(3);
  });

  test("each is served as soon as its cause is removed, although the others remain", async () => {
    await dba("drop table thing");
    await expect.poll(async () => (await gql("{ things { totalCount } }")).errors, POLL).toBeUndefined();
    expect((await health()).omissions).toEqual([expect.stringContaining('table public."user"'), NO_EDGES]);
    await dba('drop table "user", things, article_edges');
    await expect.poll(health, POLL).toEqual(CURRENT);
  });
});

const REFUSAL = {
  message: "the GraphQL schema cannot be built: the log and /health give the reason",
  extensions: { code: "INTERNAL_ERROR" },
};

describe("with invalid smart tags at the start", () => {
  const { gql, health, fieldsOf } = useServiceAfter(`
    create domain short as text;
    create table tagged (id int primary key, a int, b short);
    comment on table tagged is e'@behavior nonsense +++ foo\n@unique nowhere\n@name one\n@name two';
    comment on column tagged.a is '@name';
    comment on column tagged.b is '@behavior -insert';
    grant select on tagged to anon;
    comment on domain short is e'@name brief\n@behavior +++';`);

  test("they are ignored and reported with the reasons, and the rest and the fix are served", async () => {
    expect((await gql("{ users { name } }")).errors).toBeUndefined();
    expect(await fieldsOf("One")).toEqual(["id", "a", "b"]);
    const { schema, omissions } = await health();
    expect(schema).toBe("current");
    expect(omissions).toEqual([
      expect.stringContaining("column public.tagged.a: GraphQL ignores @name: it has no name;"),
      expect.stringContaining("domain public.short: GraphQL ignores @behavior +++: it is not a list of behaviors"),
      expect.stringContaining("table public.tagged: GraphQL ignores @behavior nonsense +++ foo: it is not a list of"),
      expect.stringContaining("table public.tagged: GraphQL ignores @name two: the object has this tag twice;"),
      expect.stringMatching(/^table public.tagged: GraphQL ignores @unique nowhere: .*nowhere/),
    ]);
    await dba("comment on table tagged is null; comment on column tagged.a is null; comment on domain short is null");
    await expect.poll(health, POLL).toEqual(CURRENT);
    await expect.poll(() => fieldsOf("Tagged"), POLL).toEqual(["id", "a", "b"]);
    await dba("drop table tagged; drop domain short");
  });
});

describe("with types that have the names of others", () => {
  const { gql, health, fieldsOf } = useServiceAfter(`
    create type query as enum ('toString', 'b');
    create type node as enum ('a');
    create domain "a/b" as int[];
    create table "a:b" (id int primary key, list "a/b", query query, node node, "and" int);
    create table json (id int primary key, "value" json);
    create table "a/B" (id int) partition by range (id);
    create table part partition of "a/B" for values from (1) to (2);
    insert into json values (1, '{}');
    grant select on "a:b", json, "a/B", part to anon`);

  test("a type gets another name, and a partition does not end the build if its table is left out", async () => {
    expect(await fieldsOf("AB")).toEqual(["id", "list", "query", "node", "and"]);
    const { data } = await gql('{ __type(name: "ABFilter") { inputFields { name type { kind } } } }');
    expect(data.__type.inputFields).toContainEqual({ name: "and", type: { kind: "LIST" } });
    expect((await gql("{ jsons { edges { node { id value } } } }")).errors).toBeUndefined();
    expect((await gql('{ __type(name: "QueryType") { enumValues { name } } }')).data.__type.enumValues).toHaveLength(2);
    const { schema, omissions } = await health();
    expect({ schema, omissions }).toEqual({
      schema: "current",
      omissions: [
        expect.stringMatching(/^table public\."a\/B": it and table public\."a:b" lead to the same GraphQL name aB/),
      ],
    });
    await dba('drop table "a:b", json, "a/B"; drop type query, node; drop domain "a/b"');
    await expect.poll(health, POLL).toEqual(CURRENT);
  });

  const TYPES = [
    "base64_encoded_binaries big_floats big_float_ranges big_ints big_int_ranges bit_strings booleans boxes cidr_addresses",
    "circles cursors dates date_ranges floats ids ints int_ranges internet_addresses intervals key_value_hashes lines",
    "line_segments mac_addresses mutations nodes oids page_infos paths points polygons queries reg_classes reg_types strings",
    "subscriptions times uuids",
  ].flatMap((names) => names.split(" "));

  test("a table that is named like a type of GraphQL or PostgreSQL is served, and that type too", async () => {
    const columns = `id int primary key, l line, p point, v interval, d date, t time, b bigint, n numeric, r daterange, i inet, o oid, x bytea`;
    await dba(TYPES.map((name) => `create table ${name} (${columns}); grant select on ${name} to anon;`).join(" "));
    const field = (name: string) => name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
    const query = TYPES.map((name) => `${field(name)} { edges { node { id l { a { x } } v { days } b } } }`).join(" ");
    await expect.poll(() => gql(`{ ${query} }`).then(({ errors }) => errors), POLL).toBeUndefined();
    expect(await health()).toEqual(CURRENT);
    expect((await gql('{ __type(name: "Line") { fields { name } } }')).data.__type.fields).toHaveLength(2);
    await dba(TYPES.map((name) => `drop table ${name};`).join(" "));
  });
});

describe("with a database that has nothing for callers", () => {
  const settings = { MIGRATE: "off", DB_SCHEMAS: "desert", API_KEY_REQUIRED: "off" };
  const { service, gql, logs, health } = useServiceAfter(
    "create schema desert; grant usage on schema desert to anon",
    settings,
  );

  test("only GraphQL responds 503, one line of the log and /health give the reason, and the first table is served", async () => {
    const { status, headers, ...body } = await gql("{ users { name } }");
    expect({ status, body, retryAfter: headers.get("retry-after") }).toEqual({
      status: 503,
      body: { errors: [REFUSAL] },
      retryAfter: "5",
    });
    expect((await fetch(`${service().url}/graphiql`)).status).toBe(200);
    const client = connect(service(), {});
    expect(await client.run("{ __typename }")).toEqual({ errors: [REFUSAL] });
    const reason = "there is no table or function that a caller may use";
    expect(await health()).toEqual({ ...CURRENT, schema: reason });
    expect((await fetch(`${service().url}/ready`)).status).toBe(200);
    expect(logs(NOT_BUILT)).toEqual([]);
    expect(logs(`${reason}: GraphQL is served when there is one`)).toEqual([expect.objectContaining({ level: 30 })]);

    await addTable("desert.oasis");
    await dba("notify pgrst");
    await expect.poll(async () => (await gql("{ oases { totalCount } }")).status, POLL).toBe(200);
    // The socket that was opened before still works.
    expect(await client.run("{ __typename }")).toEqual({ data: { __typename: "Query" } });
    expect(logs("unhandled error")).toEqual([]);
    await dba("drop schema desert cascade");
  });
});

test("a schema that cannot be built is tried again, and the log has a line for each reason", async () => {
  const reasons = ["a", "a", "a", "b", "b"];
  const rebuild = vi.fn(async () => Promise.reject(new Error(reasons.shift() ?? "b")));
  const onFailed = vi.fn();
  const engine = {
    omissions: [],
    isServing: false,
    readDatabase: async () => {},
    rebuild,
    pingDatabase: async () => {},
  };
  const reload = new SchemaReload(engine as never, { onRebuilt() {}, onBuilt() {}, onFailed, onOmission() {} });
  await reload.start();
  while (rebuild.mock.calls.length < 5) {
    reload.soon();
    await reload.untilBuilt();
  }
  expect(onFailed.mock.calls.map(([error]) => error.message)).toEqual(["a", "b"]);
  expect(reload.findings).toEqual([
    { rule: "graphql-schema", level: "error", object: "GraphQL", reason: "b", fix: null },
  ]);
  await reload.close();
});

/** What a schema of the database, with these plugins, leaves out. */
async function findFaults(plugins: readonly GraphileConfig.Plugin[] = []) {
  const pool = new pg.Pool({ connectionString: database.url, max: 2 });
  onTestFinished(() => pool.end());
  const catalog = await buildCatalog(
    await parseCatalog(await readCatalog(pool, { schemas: ["public"], extraSearchPath: [] })),
    1,
  );
  const options = {
    catalog: pool,
    anonymousRole: "anon",
    schemas: ["public"],
    maxPageSize: 100,
    plugins,
    nodeIds: false,
  };
  return findLeftOut({
    ...options,
    relations: () => catalog,
    readRelations: async () => {},
    unindexedFilters: "all",
  });
}

test("the fixes of columns whose names conflict with one another lead to names that are free", async () => {
  await dba(
    'create table spelled (id int primary key, a_b int, "aB" int, "a_B" int, a_b2 int); grant select on spelled to anon;',
  );
  const found = await findFaults();
  expect(found).toHaveLength(2);
  for (const { fix } of found) await dba(fix!);
  expect(await findFaults()).toEqual([]);
  await dba("drop table spelled");
});

test("a schema that cannot be built names the object, and the statement that takes it out of GraphQL", async () => {
  const plugin: GraphileConfig.Plugin = {
    name: "FaultyPlugin",
    version: "1.0.0",
    schema: {
      hooks: {
        finalize() {
          throw new Error("Expected an output type named 'Article'");
        },
      },
    },
  };
  const found = await findFaults([plugin]);
  expect(found).toMatchObject([
    {
      rule: "graphql-schema",
      level: "error",
      object: "table public.articles",
      fix: expect.stringContaining("comment on table public.articles is '@behavior -*"),
    },
  ]);
});

test("the start fails if the database does not respond", async () => {
  const lost = () => Promise.reject(new Error("the connection was lost"));
  const log = { onRebuilt: vi.fn(), onBuilt: vi.fn(), onFailed: vi.fn(), onOmission: vi.fn() };
  const reload = new SchemaReload({ omissions: [], readDatabase: lost, pingDatabase: lost } as never, log);
  await expect(reload.start()).rejects.toThrow("the connection was lost");
  expect(log.onFailed).not.toHaveBeenCalled();
});
