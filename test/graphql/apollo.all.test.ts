import { readFileSync } from "node:fs";
import { createClient } from "graphql-ws";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { useService } from "../support/http-client.ts";
import { ofPages } from "../support/packages.ts";
import { Relay } from "../support/relay.ts";
import { POLL } from "../support/until.ts";

const { ApolloClient, ApolloLink, gql, InMemoryCache } = ofPages("@apollo/client");
const { GraphQLWsLink } = ofPages("@apollo/client/link/subscriptions");
const { tap } = ofPages("rxjs");

const { service, sql } = useService();
const CREATED = "subscription { onArticleCreated { title } }";
const write = (title: string) =>
  sql("insert into articles (author_id, title, content, status) values (1, $1, 'Some text.', 'PUBLISHED')", title);

test("docs/graphql.md: with the documented keyFields, Apollo caches translations by article and language", () => {
  const [, policies] = /`typePolicies: (\{ ArticleTranslation: .*? \} \})`/.exec(
    readFileSync("docs/graphql.md", "utf8"),
  )!;
  const cache = new InMemoryCache({ typePolicies: new Function(`return ${policies}`)() });
  const article = { __typename: "Article", id: "1" };
  const row = { __typename: "ArticleTranslation", article, language: "de", title: "Webstühle" };
  expect(cache.identify(row)).toBe('ArticleTranslation:{"article":{"id":"1"},"language":"de"}');
});

test("Apollo Client misses nothing with a link that keeps the position of the last event", async () => {
  await using relay = await Relay.open(service().url);
  const socket = createClient({
    url: `${relay.url.replace(/^http/, "ws")}/graphql`,
    webSocketImpl: WebSocket,
    shouldRetry: () => true,
    retryAttempts: Number.POSITIVE_INFINITY,
    retryWait: () => new Promise((resolve) => setTimeout(resolve, 30)),
  });
  onTestFinished(() => void socket.dispose());
  const resume = new ApolloLink((operation: any, forward: any) =>
    forward(operation).pipe(
      tap(({ extensions }: any) => {
        operation.extensions.after = extensions?.changePosition;
      }),
    ),
  );
  const client = new ApolloClient({ link: resume.concat(new GraphQLWsLink(socket)), cache: new InMemoryCache() });
  const events: unknown[] = [];
  client.subscribe({ query: gql(CREATED) }).subscribe(({ data }: any) => events.push(data?.onArticleCreated.title));
  await expect.poll(() => service().service.open().subscriptions, POLL).toBe(1);
  await write("Before the cut");
  await expect.poll(() => events, POLL).toEqual(["Before the cut"]);
  relay.cut();
  await write("During the cut");
  await expect.poll(() => events, POLL).toEqual(["Before the cut", "During the cut"]);
});
