import { type Cache, cacheExchange } from "@urql/exchange-graphcache";
import { relayPagination } from "@urql/exchange-graphcache/extras";
import { Client, type CombinedError, fetchExchange, makeOperation, mapExchange, subscriptionExchange } from "urql";
import { connectLive } from "../shared/live.ts";
import { type Comment, newComment, withComment, withoutComment } from "../shared/model.ts";
import { API, ended, request, session } from "../shared/session.ts";
import { ADDED, ARTICLE, COMMENT } from "./documents.ts";

const codeOf = (error: CombinedError | undefined): unknown => error?.graphQLErrors[0]?.extensions.code;

/** The error to show. If the session has ended, the page shows that too. */
export function faultOf(error: CombinedError | undefined): Error | undefined {
  if (error === undefined) return undefined;
  const { networkError, graphQLErrors } = error;
  const fault = networkError ?? Object.assign(new Error(graphQLErrors[0]!.message), { errors: graphQLErrors });
  return ended(fault, String(codeOf(error)));
}

const cache = cacheExchange({
  keys: {
    ArticleConnection: () => null,
    CommentConnection: () => null,
    MutationResult: () => null,
    FieldError: () => null,
  },
  resolvers: {
    Query: { articles: relayPagination() },
    Article: { commentsConnection: relayPagination({ mergeMode: "inwards" }) },
  },
  optimistic: {
    publishArticle: ({ id }) => ({ __typename: "Article", id: String(id), status: "PUBLISHED" }),
  },
  updates: {
    Mutation: {
      createArticle: (_result, _args, written) => readListsAgain(written),
      publishArticle: (_result, _args, written, { optimistic }) => {
        if (!optimistic) readListsAgain(written);
      },
      createComment: ({ createComment }, { articleId }, written) => addComment(written, articleId, createComment),
    },
    Subscription: {
      onCommentAdded: ({ onCommentAdded }, { articleId }, written) => addComment(written, articleId, onCommentAdded),
    },
  },
});

function readListsAgain(written: Cache): void {
  for (const { fieldKey, fieldName } of written.inspectFields("Query"))
    if (fieldName === "articles") written.invalidate("Query", fieldKey);
}

/** Writes a comment that is being sent into the cache, as an event would; by the id of the article. */
const writers = new Map<unknown, (comment: Comment) => void>();
/** Those that have been sent, or were refused. */
const sent = new Set<Comment["id"]>();

function addComment(written: Cache, id: unknown, added: unknown): void {
  const comment = added as Comment;
  const change = sent.has(comment.id) ? withoutComment : withComment;
  written.updateQuery({ query: ARTICLE, variables: { id, before: null } }, (read) => read && change(read, comment));
}

/** An optimistic result would have its own copy of the list, which hides the comments of others until the response. */
export async function send(id: string, content: string) {
  const sending = newComment(content, session()!.user);
  writers.get(id)?.(sending);
  const result = await client.mutation(COMMENT, { id, content }).toPromise();
  sent.add(sending.id);
  writers.get(id)?.(sending);
  return result;
}

/** Up to which change each article has been read, by its id. */
const positions = new Map<unknown, unknown>();

type Positioned = { readonly changePosition?: unknown };

const live = connectLive();

/** Calls back when the socket is connected again: what was written meanwhile has not been read. */
export const onReconnect = (listener: () => void): (() => void) =>
  live.on("connected", (_socket, _payload, wasRetry) => wasRetry && listener());

export const client = new Client({
  url: `${API}/graphql`,
  fetch: request,
  preferGetMethod: false,
  exchanges: [
    cache,
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
          const unsubscribe = live.subscribe(payload, {
            next(result) {
              payload.extensions.after = (result.extensions as Positioned | undefined)?.changePosition;
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

/** Follows the comments on an article that has been read, and adds them to the cache. Returns a function that ends this. */
export function follow(id: string, onFault: (fault: Error | undefined) => void): () => void {
  let isOver = false;
  let stop = () => {};
  function subscribe(): void {
    const { unsubscribe } = client.subscription(ADDED, { id }).subscribe(({ error }) => {
      // The changes since the article was read are no longer kept.
      if (codeOf(error) === "CHANGES_MISSED") readAgain();
      else onFault(faultOf(error));
    });
    stop = unsubscribe;
  }
  async function readAgain(): Promise<void> {
    stop();
    const { error } = await client.query(ARTICLE, { id, before: null }, { requestPolicy: "network-only" });
    if (error) onFault(faultOf(error));
    else if (!isOver) subscribe();
  }
  subscribe();
  return () => {
    isOver = true;
    stop();
  };
}
