import { type Cache, cacheExchange, type DataFields, type Resolver } from "@urql/exchange-graphcache";
import {
  Client,
  fetchExchange,
  gql,
  makeOperation,
  mapExchange,
  subscriptionExchange,
  type TypedDocumentNode,
} from "urql";
import { ADDED, COMMENT, type Comment, newComment, READ, type Read, withComment, withoutComment } from "./comments.ts";
import { keepFollowing } from "./following.ts";
import { API, onUser, request, session } from "./session.ts";
import { socket } from "./socket.ts";

type Id = { readonly id: string; readonly before?: string | null | undefined };
export const READ_DOCUMENT: TypedDocumentNode<Read, Id> = gql(READ);

/** Up to which change each article has been read, by its id. */
const positions = new Map<unknown, unknown>();
/** Writes a row that is being sent into the cache, as an event would; by the id of the article. */
const writers = new Map<unknown, (comment: Comment) => void>();
/** The rows that have been sent, or were refused. */
const sent = new Set<Comment["id"]>();

const add = (cache: Cache, id: unknown, added: unknown): void => {
  const comment = added as Comment;
  const change = sent.has(comment.id) ? withoutComment : withComment;
  cache.updateQuery({ query: READ_DOCUMENT, variables: { id: String(id) } }, (read) => read && change(read, comment));
};

/** The newest comments, with each earlier page that ends where they begin: after another read, there may be comments in between. */
const withEarlier: Resolver = (_article, { before }, cache, { parentKey }) => {
  const pages = new Map<unknown, unknown>();
  for (const { fieldName, fieldKey, arguments: args } of cache.inspectFields(parentKey))
    if (fieldName === "commentsConnection") pages.set(args?.before ?? undefined, cache.resolve(parentKey, fieldKey));
  const asked = pages.get(before ?? undefined);
  if (!asked) return undefined;
  const edges: unknown[] = [];
  let page: unknown = pages.get(undefined) ?? asked;
  let pageInfo: unknown;
  while (page) {
    edges.unshift(...(cache.resolve(page as string, "edges") as string[]));
    pageInfo = cache.resolve(page as string, "pageInfo");
    page = pages.get(cache.resolve(pageInfo as string, "startCursor"));
  }
  return { __typename: "CommentConnection", edges, pageInfo } as DataFields;
};

const newClient = (): Client =>
  new Client({
    url: `${API}/graphql`,
    // Signs each request, and refreshes the token: this takes the place of `authExchange`.
    fetch: request,
    preferGetMethod: false,
    exchanges: [
      cacheExchange({
        // Types without an id.
        keys: {
          ArticleConnection: () => null,
          CommentConnection: () => null,
          MutationResult: () => null,
          FieldError: () => null,
        },
        resolvers: {
          Article: { commentsConnection: withEarlier },
        },
        optimistic: {
          publishArticle: ({ id }) => ({ __typename: "Article", id: String(id), status: "PUBLISHED" }),
        },
        updates: {
          Mutation: {
            createComment: ({ createComment }, { articleId }, cache) => add(cache, articleId, createComment),
          },
          Subscription: {
            onCommentAdded: ({ onCommentAdded }, { articleId }, cache) => add(cache, articleId, onCommentAdded),
          },
        },
      }),
      // Behind the cache: what comes from it has no position.
      mapExchange({
        onOperation: (operation) =>
          operation.kind === "query"
            ? makeOperation("query", { ...operation, extensions: { ...operation.extensions, changePosition: true } })
            : operation,
        onResult({ operation: { kind, variables = {} }, extensions }) {
          if (kind === "query" && variables.id && !variables.before)
            positions.set(variables.id, extensions?.changePosition);
        },
      }),
      fetchExchange,
      subscriptionExchange({
        // A subscription begins where its article has been read. After a lost connection, it continues after the last event.
        forwardSubscription: ({ query = "" }, { variables = {} }) => ({
          subscribe(sink) {
            const payload = { query, variables, extensions: { after: positions.get(variables.id) } };
            const write = (onCommentAdded: Comment): void =>
              sink.next({ data: { __typename: "Subscription", onCommentAdded } });
            writers.set(variables.id, write);
            const unsubscribe = socket.subscribe<never, { changePosition?: string }>(payload, {
              next(result) {
                payload.extensions.after = result.extensions?.changePosition;
                positions.set(variables.id, payload.extensions.after);
                sink.next(result as never);
              },
              error: (error) => sink.error(error),
              complete: () => sink.complete(),
            });
            return { unsubscribe };
          },
        }),
      }),
    ],
  });

/** That of the user, with a cache of its own. */
export let client = newClient();
onUser(() => {
  positions.clear();
  reads.clear();
  client = newClient();
});

/** The reads that are on their way, by article: of two responses, the older one could arrive later. */
const reads = new Map<string, Promise<unknown>>();

/** Returns the position of the read; null if there is no such article. */
async function readArticle(id: string): Promise<unknown> {
  const { data, error } = await client.query(READ_DOCUMENT, { id }, { requestPolicy: "network-only" });
  if (error) throw error;
  return data?.article ? positions.get(id) : null;
}

/** Reads an article, and follows its comments. Returns a function that ends this. */
export function follow(id: string, onError: (error: unknown) => void): () => void {
  function read(): Promise<unknown> {
    const started = reads.get(id) ?? readArticle(id);
    reads.set(id, started);
    return started.finally(() => reads.get(id) === started && reads.delete(id));
  }
  const listen = (onEnd: (error: unknown, code: unknown) => void): (() => void) =>
    client
      .subscription(gql(ADDED), { id })
      .subscribe(({ error }) => error && onEnd(error, error.graphQLErrors[0]?.extensions.code)).unsubscribe;
  // The only one that reads: a response that arrives later would hide what the subscription has added.
  return keepFollowing({ read, listen, onError });
}

/** Puts the comments before this cursor in front. */
export const readEarlier = (id: string, before: string) => client.query(READ_DOCUMENT, { id, before }).toPromise();

export async function comment(id: string, content: string) {
  const sending = newComment(content, session()!.user);
  writers.get(id)?.(sending);
  const result = await client.mutation(gql(COMMENT), { id, content }).toPromise();
  sent.add(sending.id);
  writers.get(id)?.(sending);
  return result;
}
