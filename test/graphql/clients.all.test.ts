import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { buildClientSchema, getIntrospectionQuery, OperationTypeNode, parse, printSchema } from "graphql";
import { createClient } from "graphql-ws";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { outcomeOf } from "../../cli/command.ts";
import { documents } from "../../cli/documents.ts";
import { useService } from "../support/http-client.ts";
import { ofPages } from "../support/packages.ts";
import { JWT_SECRET } from "../support/service.ts";

const { ApolloClient, ApolloLink, gql: apollo, HttpLink, InMemoryCache } = ofPages("@apollo/client");
const { PersistedQueryLink } = ofPages("@apollo/client/link/persisted-queries");
const { GraphQLWsLink } = ofPages("@apollo/client/link/subscriptions");
const { relayStylePagination } = ofPages("@apollo/client/utilities");
const { preset } = ofPages("@graphql-codegen/client-preset");
const { codegen } = ofPages("@graphql-codegen/core");
const urql = ofPages("@urql/core");

const { article, data, gql, service, sql, token } = useService({
  GRAPHQL_EXTRAS: "aggregates, bulk, changes, node",
  GRAPHQL_DOCUMENTS: "allow",
});
/** Where the clients are generated, with the packages of the example pages. */
const folder = mkdtempSync(join(tmpdir(), "clients-"));
symlinkSync(resolve("demo/pages/node_modules"), join(folder, "node_modules"));
writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
afterAll(() => rmSync(folder, { recursive: true }));

let sdl: string;
beforeAll(async () => {
  sdl = printSchema(buildClientSchema(await data(getIntrospectionQuery())));
});

const graphqlUrl = () => `${service().url}/graphql`;
const file = (name: string, content: string) => {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
  return path;
};

function socketClient() {
  const client = createClient({ url: graphqlUrl().replace("http", "ws"), webSocketImpl: WebSocket, retryAttempts: 0 });
  onTestFinished(() => void client.dispose());
  return client;
}

describe("node ids", () => {
  const NODE = "query ($id: ID!) { node(id: $id) { __typename nodeId ... on Article { title author { name } } } }";

  test("find the row of any type, in one round trip", async () => {
    const { articles } = await data(
      "{ articles(first: 1, orderBy: ID_ASC) { edges { node { nodeId title author { name } } } } }",
    );
    const [{ node }] = articles.edges;
    const before = service().service.databaseWaits();
    const found = await data(NODE, { variables: { id: node.nodeId } });
    expect(service().service.databaseWaits() - before).toBe(1);
    expect(found).toEqual({ node: { __typename: "Article", ...node } });
  });

  test.each([
    "",
    "no id",
    "null",
    "1",
    '["Article"]',
    '["Article","abc"]',
    '["Article","9999"]',
    '["Article",null]',
    '["Article",{"toString":1}]',
    '["Unknown","1"]',
    '["Query"]',
  ])("%s finds nothing", async (text) => {
    for (const id of [text, Buffer.from(text).toString("base64")])
      expect(await data(NODE, { variables: { id } })).toEqual({ node: null });
  });
});

describe("Apollo Client", () => {
  /** Requests of one client, as it sends them. */
  function connectApollo(as?: "ada") {
    const sent: any[] = [];
    const http = new HttpLink({
      uri: graphqlUrl(),
      headers: as ? { authorization: `Bearer ${token(as)}` } : {},
      fetch: (url: string, init: RequestInit) => {
        sent.push(JSON.parse(String(init!.body)));
        return fetch(url, init);
      },
    });
    const persisted = new PersistedQueryLink({
      sha256: (text: string) => createHash("sha256").update(text).digest("hex"),
    });
    const client = new ApolloClient({
      cache: new InMemoryCache({
        typePolicies: { Query: { fields: { articles: relayStylePagination(["filter", "orderBy"]) } } },
      }),
      link: ApolloLink.split(
        ({ operationType }: any) => operationType === OperationTypeNode.SUBSCRIPTION,
        new GraphQLWsLink(socketClient()),
        persisted.concat(http),
      ),
    });
    return { client, sent };
  }

  const PAGE = apollo`query Page($after: String) {
    articles(first: 2, after: $after, orderBy: [ID_ASC], filter: { title: { isNull: false } }) {
      edges { cursor node { id title } } pageInfo { hasNextPage endCursor }
    } }`;

  test("pages with its helper, caches rows by id and sends hashes of known queries", async () => {
    const { client, sent } = connectApollo("ada");
    const titles = () => (client.readQuery({ query: PAGE }) as any).articles.edges.map(({ node }: any) => node.title);
    const query = client.watchQuery({ query: PAGE });
    const subscription = query.subscribe({});
    onTestFinished(() => subscription.unsubscribe());
    await expect.poll(() => query.getCurrentResult().dataState).toBe("complete");
    let page = query.getCurrentResult().data as any;
    while (page.articles.pageInfo.hasNextPage) {
      page = (await query.fetchMore({ variables: { after: page.articles.pageInfo.endCursor } })).data;
    }
    const all = (await sql("select id, title from articles order by id")).map(({ title }) => title);
    expect(titles()).toEqual(all);
    // The first request of a query registers it; later ones send its hash alone.
    expect(sent.filter(({ query: text }) => text).length).toBe(1);

    const TITLE = apollo`mutation ($id: ID!) { updateArticle(id: $id, input: { title: "Another title" }) { id title } }`;
    await client.mutate({ mutation: TITLE, variables: { id: "1" } });
    expect(titles()).toEqual(["Another title", ...all.slice(1)]);
  });

  test("receives subscriptions", async () => {
    const { client } = connectApollo();
    const received: any[] = [];
    const started = client
      .subscribe({ query: apollo`subscription { onArticleCreated { title author { name } } }` })
      .subscribe(({ data: event }: any) => received.push(event));
    onTestFinished(() => started.unsubscribe());
    await expect
      .poll(async () => {
        await article({ title: "For Apollo" });
        return received.length;
      })
      .toBeGreaterThan(0);
    expect(received[0]).toMatchObject({ onArticleCreated: { title: "For Apollo", author: { name: "Ada Lovelace" } } });
  });
});

test("urql queries, writes, invalidates its cache and receives subscriptions", async () => {
  const socket = socketClient();
  const client = new urql.Client({
    url: graphqlUrl(),
    preferGetMethod: false,
    fetchOptions: { headers: { authorization: `Bearer ${token("ada")}` } },
    exchanges: [
      urql.cacheExchange,
      urql.fetchExchange,
      urql.subscriptionExchange({
        forwardSubscription: ({ query = "", variables }: any) => ({
          subscribe: (sink: any) => ({ unsubscribe: socket.subscribe({ query, variables }, sink) }),
        }),
      }),
    ],
  });
  const COMMENTS = "query ($id: ID!) { article(id: $id) { id comments { id content } } }";
  const results: any[] = [];
  const query = client.query(COMMENTS, { id: "2" }).subscribe(({ data: found }: any) => results.push(found));
  onTestFinished(query.unsubscribe);
  const events: any[] = [];
  const comments = client
    .subscription("subscription { onCommentAdded(articleId: 2) { content } }", {})
    .subscribe(({ data: event }: any) => events.push(event));
  onTestFinished(comments.unsubscribe);
  await expect.poll(() => results.length).toBe(1);
  const ADD = 'mutation { createComment(articleId: 2, content: "From urql") { id content article { id } } }';
  await expect
    .poll(async () => {
      await client.mutation(ADD, {}).toPromise();
      return events.length;
    })
    .toBeGreaterThan(0);
  expect(events[0]).toEqual({ onCommentAdded: { content: "From urql" } });
  await expect.poll(() => results.at(-1).article.comments.map(({ content }: any) => content)).toContain("From urql");
});

describe("graphql-codegen", () => {
  const guide = readFileSync("docs/graphql.md", "utf8");
  /** The configuration in docs/graphql.md. */
  const [, json] = /^```json\n(\{\n {2}"schema".*?)^```/ms.exec(guide)!;
  const documented = JSON.parse(json!).generates["src/gql/"];
  const [, persistedDocuments] = /`"persistedDocuments": (.*?)`/.exec(guide)!;
  /** Its client, and the query of that. */
  const [, example] = /^```ts\n(import \{ ApolloClient.*?)^```/ms.exec(guide)!;
  const [, QUERY] = /graphql\(`(.*?)`\)/s.exec(example!)!;
  const client = () =>
    `${example}export { Titles, titles };`
      .replace("http://127.0.0.1:3000/graphql", graphqlUrl())
      .replace('"./gql"', '"./gql/gql.ts"');

  beforeAll(async () => {
    const schema = parse(sdl);
    const outputs = await preset.buildGeneratesSection({
      baseOutputDir: join(folder, "gql/"),
      schema,
      documents: [{ location: "client.ts", document: parse(QUERY!), rawSDL: QUERY }],
      // The test compiles and runs the sources as they are.
      config: { ...documented.config, emitLegacyCommonJSImports: false, importExtension: ".ts" },
      presetConfig: { ...documented.presetConfig, persistedDocuments: JSON.parse(persistedDocuments!) },
      plugins: [],
      pluginMap: {},
    } as never);
    for (const output of outputs) file(join("gql", output.filename.split("/gql/")[1]!), await codegen(output));
    file(
      "tsconfig.json",
      JSON.stringify({
        compilerOptions: {
          strict: true,
          noEmit: true,
          module: "nodenext",
          target: "esnext",
          allowImportingTsExtensions: true,
          skipLibCheck: true,
          types: ["node"],
        },
        files: ["client.ts"],
      }),
    );
  });

  const compile = () => execFileSync(resolve("node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });

  test("generates typed documents for Apollo Client, and a manifest of trusted documents", async () => {
    const source = file("client.ts", client());
    compile();
    const { Titles, titles } = await import(pathToFileURL(source).href);
    const published = await sql(
      "select a.title || ' by ' || u.name as text from articles as a join users as u on u.id = author_id where status = 'PUBLISHED' order by title collate \"C\"",
    );
    expect(titles).toEqual(published.map(({ text }) => text));
    const path = join(folder, "gql/persisted-documents.json");
    expect(Object.keys(JSON.parse(readFileSync(path, "utf8")))).toEqual([Titles.__meta__.hash]);
    const check = documents(["check", path], {
      APPLICATION: "demo",
      DATABASE_URL: service().database.url,
      JWT_SECRET,
    });
    expect(await outcomeOf(check)).toMatchObject({ exitCode: 0, stdout: "1 document is valid\n" });
  });

  test("gives every scalar the type of its values", async () => {
    await sql(`create table public.kinds (
      id integer primary key, big bigint, exact numeric, data jsonb, key uuid, day date, time time, at timestamptz, address inet, bytes bytea
    )`);
    await sql("alter table public.kinds enable row level security");
    await sql('create policy "everyone reads" on public.kinds using (true)');
    await sql("grant select on public.kinds to anon");
    await sql(
      `insert into public.kinds values (1, 9007199254740993, 0.1, '{"a": [1]}', gen_random_uuid(), now(), now(), now(), '::1', 'x')`,
    );
    const query = "query Kinds { kinds { edges { node { big exact data key day time at address bytes } } } }";
    await expect.poll(async () => (await gql(query)).errors).toBeUndefined();
    const schema = parse(printSchema(buildClientSchema(await data(getIntrospectionQuery()))));
    const outputs = await preset.buildGeneratesSection({
      ...{ baseOutputDir: join(folder, "kinds/"), schema, plugins: [], pluginMap: {} },
      documents: [{ location: "kinds.ts", document: parse(query), rawSDL: query }],
      ...{ config: documented.config, presetConfig: documented.presetConfig },
    } as never);
    const types = (await codegen(outputs.find(({ filename }: any) => filename.endsWith("graphql.ts")))).split(
      "KindsQuery =",
    )[1]!;
    const [{ node }] = (await data(query)).kinds.edges;
    const typeOf = (name: string) => new RegExp(`\\b${name}\\??: (\\w+)`).exec(types)?.[1];
    for (const [name, value] of Object.entries(node))
      expect([name, typeOf(name)]).toEqual([name, typeof value === "object" ? "unknown" : typeof value]);
  });

  test("a field that the schema does not have is an error of TypeScript", () => {
    file("client.ts", client().replace("node.title", "node.subtitle"));
    expect(() => compile()).toThrow(
      expect.objectContaining({ stdout: expect.stringContaining("Property 'subtitle' does not exist") }),
    );
  });
});

describe("Relay", () => {
  const { Environment, Network, RecordSource, Store, fetchQuery } = ofPages("relay-runtime");
  const SOURCES = {
    "Newest.js": `graphql\`query NewestQuery { ...Newest_list }\`;
      graphql\`fragment Newest_list on Query @refetchable(queryName: "NewestPageQuery") @argumentDefinitions(count: { type: "Int", defaultValue: 2 }, cursor: { type: "String" }) {
        articles(first: $count, after: $cursor, filter: { status: PUBLISHED }) @connection(key: "Newest_articles") { edges { node { id ...Card_article } } } }\`;`,
    "Card.js": `graphql\`fragment Card_article on Article @refetchable(queryName: "CardRefetchQuery") { title author { name } }\`;`,
    "TitleMutation.js": `graphql\`mutation TitleMutation($id: ID!, $title: String!) { updateArticle(id: $id, input: { title: $title }) { ...Card_article } }\`;`,
  };

  beforeAll(() => {
    for (const [name, source] of Object.entries(SOURCES)) file(`relay/${name}`, source);
    file("relay/schema.graphql", sdl);
    mkdirSync(join(folder, "relay/__generated__"));
    file("relay/persisted.json", "{}");
    file("relay/package.json", '{ "type": "module" }');
    const config = {
      src: ".",
      schema: "schema.graphql",
      language: "javascript",
      artifactDirectory: "__generated__",
      excludes: ["**/__generated__/**"],
      eagerEsModules: true,
      schemaConfig: { nodeInterfaceIdField: "nodeId" },
      persistConfig: { file: "persisted.json", algorithm: "SHA256" },
    };
    execFileSync(
      resolve("demo/pages/node_modules/.bin/relay-compiler"),
      [file("relay/relay.config.json", JSON.stringify(config))],
      {
        cwd: join(folder, "relay"),
        stdio: "pipe",
      },
    );
  });

  test("compiles connections, refetchable fragments and mutations, and its runtime reads and refetches", async () => {
    const artifact = async (name: string) =>
      (await import(pathToFileURL(join(folder, `relay/__generated__/${name}.graphql.js`)).href)).default;
    const store = new Store(new RecordSource());
    const environment = new Environment({
      store,
      getDataID: (row: any) => row.nodeId ?? row.id,
      network: Network.create(async ({ text, id }: any, variables: object) => {
        const query = text ?? manifest()[id];
        const response = await fetch(graphqlUrl(), {
          method: "POST",
          headers: { "content-type": "application/json", authorization: `Bearer ${token("ada")}` },
          body: JSON.stringify({ query, variables }),
        });
        return response.json();
      }),
    });
    await fetchQuery(environment, await artifact("NewestQuery"), {}).toPromise();
    const rows = () =>
      Object.values<any>(store.getSource().toJSON()).filter(
        ({ __typename, title }) => __typename === "Article" && title,
      );
    const [row] = rows();
    expect(rows()).toHaveLength(2);
    await sql("update articles set title = 'Changed by the DBA' where id = $1", row.id);
    await fetchQuery(environment, await artifact("CardRefetchQuery"), { nodeId: row.nodeId }).toPromise();
    expect(rows().find(({ id }) => id === row.id).title).toBe("Changed by the DBA");
  });

  const manifest = () => JSON.parse(readFileSync(join(folder, "relay/persisted.json"), "utf8"));

  test("its manifest is trusted documents", async () => {
    expect(Object.keys(manifest())).toHaveLength(4);
    const check = documents(["check", join(folder, "relay/persisted.json")], {
      APPLICATION: "demo",
      DATABASE_URL: service().database.url,
      GRAPHQL_EXTRAS: "aggregates, bulk, changes, node",
      JWT_SECRET,
    });
    const { exitCode, stderr } = await outcomeOf(check);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  });
});
