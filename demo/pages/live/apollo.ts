import {
  ApolloClient,
  ApolloLink,
  CombinedGraphQLErrors,
  gql,
  HttpLink,
  InMemoryCache,
  type TypedDocumentNode,
} from "@apollo/client";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { relayStylePagination } from "@apollo/client/utilities";
import { OperationTypeNode } from "graphql";
import { tap } from "rxjs";
import {
  ADDED,
  COMMENT,
  type Comment,
  newComment,
  READ,
  type Read,
  withComment,
  withEarlier,
  withoutComment,
} from "./comments.ts";
import { keepFollowing } from "./following.ts";
import { API, onUser, request, session } from "./session.ts";
import { socket } from "./socket.ts";

type Id = { readonly id: string; readonly before?: string | null | undefined };
export const READ_DOCUMENT: TypedDocumentNode<Read, Id> = gql(READ);
const ADDED_DOCUMENT: TypedDocumentNode<{ readonly onCommentAdded: Comment }, Id> = gql(ADDED);
const COMMENT_DOCUMENT: TypedDocumentNode<{ readonly createComment: Comment }, Id & { readonly content: string }> =
  gql(COMMENT);

const isSubscription = ({ operationType }: ApolloLink.Operation): boolean =>
  operationType === OperationTypeNode.SUBSCRIPTION;

/** Up to which change each article has been read, by its id. */
const positions = new Map<unknown, unknown>();

/** A subscription begins where its article has been read. After a lost connection, it continues after the last event. */
const resume = new ApolloLink((operation, forward) => {
  const { extensions, variables } = operation;
  const isFirst = variables.id !== undefined && !variables.before;
  if (isSubscription(operation)) extensions.after = positions.get(variables.id);
  else if (operation.operationType === OperationTypeNode.QUERY) extensions.changePosition = true;
  return forward(operation).pipe(
    tap((result) => {
      const position = result.extensions?.changePosition;
      if (isSubscription(operation)) extensions.after = position;
      if (isFirst && operation.operationType !== OperationTypeNode.MUTATION) positions.set(variables.id, position);
    }),
  );
});

export const client = new ApolloClient({
  link: resume.split(
    isSubscription,
    new GraphQLWsLink(socket),
    new HttpLink({ uri: `${API}/graphql`, fetch: request }),
  ),
  cache: new InMemoryCache({
    typePolicies: {
      Query: { fields: { articles: relayStylePagination(["status", "filter", "orderBy"]) } },
    },
  }),
});

/** Own comments, with their articles, which the response of a read that is on its way may not have. */
const own = new Map<Comment, string>();
/** The last of these reads. */
let reading: Promise<unknown> = Promise.resolve();

/** Until then, a read would be ended by `resetStore`. */
let isReset: Promise<unknown> = Promise.resolve();
onUser(() => {
  positions.clear();
  own.clear();
  isReset = new Promise<void>((resolve) => {
    const forget = client.onResetStore(async () => {
      forget();
      resolve();
    });
  });
  // Reads the lists again.
  client.resetStore().catch(() => {});
});

const change = (id: string, changed: (read: Read) => Read): unknown =>
  client.cache.updateQuery({ query: READ_DOCUMENT, variables: { id } }, (read) => read && changed(read));

/** Reads an article, and follows its comments. Returns a function that ends this. */
export function follow(id: string, onError: (error: unknown) => void): () => void {
  async function read(): Promise<unknown> {
    await isReset;
    const response = client.query({ query: READ_DOCUMENT, variables: { id }, fetchPolicy: "network-only" });
    reading = response.catch(() => {});
    const { data } = await response;
    for (const [comment, article] of own) if (article === id) change(id, (read) => withComment(read, comment));
    return data?.article ? positions.get(id) : null;
  }
  function listen(onEnd: (error: unknown, code: unknown) => void): () => void {
    const events = client.subscribe({ query: ADDED_DOCUMENT, variables: { id } }).subscribe(({ data, error }) => {
      if (data) change(id, (read) => withComment(read, data.onCommentAdded));
      if (error) onEnd(error, CombinedGraphQLErrors.is(error) ? error.errors[0]?.extensions?.code : undefined);
    });
    return () => events.unsubscribe();
  }
  // The only one that reads: a response that arrives later would hide what the subscription has added.
  return keepFollowing({ read, listen, onError });
}

/** Puts the comments before this cursor in front. */
export async function readEarlier(id: string, before: string): Promise<void> {
  const { data } = await client.query({
    query: READ_DOCUMENT,
    variables: { id, before },
    fetchPolicy: "no-cache",
  });
  change(id, (read) => withEarlier(read, before, data!));
}

export async function comment(id: string, content: string): Promise<void> {
  const sending = newComment(content, session()!.user);
  own.set(sending, id);
  change(id, (read) => withComment(read, sending));
  let sent: Comment | undefined;
  try {
    const { data } = await client.mutate({ mutation: COMMENT_DOCUMENT, variables: { id, content } });
    sent = data!.createComment;
  } finally {
    // Unless another user has signed in.
    if (own.delete(sending)) replace(id, sending, sent);
  }
}

/** Shows what the service has, if it has it, in place of the row that was shown until then. */
function replace(id: string, sending: Comment, sent: Comment | undefined): void {
  change(id, (read) => withoutComment(read, sending));
  if (sent === undefined) return;
  change(id, (read) => withComment(read, sent));
  own.set(sent, id);
  reading.then(() => own.delete(sent));
}
