import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache, split } from "@apollo/client";
import { ErrorLink } from "@apollo/client/link/error";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { getMainDefinition, relayStylePagination } from "@apollo/client/utilities";
import { tap, throwError } from "rxjs";
import { connectLive } from "../shared/live.ts";
import { API, ended, request } from "../shared/session.ts";

const codeOf = (error: unknown): string | undefined =>
  CombinedGraphQLErrors.is(error) ? (error.errors[0]?.extensions?.code as string | undefined) : undefined;

/** Whether the changes after those that a subscription has seen are no longer kept: its list must be read again. */
export const hasMissed = (error: unknown): boolean => codeOf(error) === "CHANGES_MISSED";

/** Whatever operation finds that the session has ended, the page shows it. */
const endOfSession = new ErrorLink(({ error }) => throwError(() => ended(error as Error, codeOf(error))));

const isSubscription = ({ query }: ApolloLink.Operation): boolean => {
  const definition = getMainDefinition(query);
  return definition.kind === "OperationDefinition" && definition.operation === "subscription";
};

/** Up to which change each list has been read, by the name that its query and its subscription have in `context.list`. */
const positions = new Map<string, unknown>();

/** A subscription begins after the changes that its list has seen. After a lost connection, it continues after the last event. */
const continued = new ApolloLink((operation, forward) => {
  const { list } = operation.getContext() as { list?: string };
  if (list === undefined) return forward(operation);
  const { extensions } = operation;
  if (isSubscription(operation)) extensions.after = positions.get(list);
  else extensions.changePosition = true;
  return forward(operation).pipe(
    tap((result) => {
      const position = result.extensions?.changePosition;
      positions.set(list, position);
      if (isSubscription(operation)) extensions.after = position;
    }),
  );
});

const live = connectLive();

export const client = new ApolloClient({
  link: ApolloLink.from([
    endOfSession,
    continued,
    split(isSubscription, new GraphQLWsLink(live), new HttpLink({ uri: `${API}/graphql`, fetch: request })),
  ]),
  cache: new InMemoryCache({
    typePolicies: {
      // Every argument but those of the page names another list.
      Query: { fields: { articles: relayStylePagination(["status", "filter", "orderBy"]) } },
      Article: { fields: { commentsConnection: relayStylePagination(["filter", "orderBy"]) } },
    },
  }),
});

// What was written while the socket was closed. The comments are not read again: their subscription continues.
live.on("connected", (_socket, _payload, wasRetry) => {
  if (wasRetry) client.refetchQueries({ include: ["Articles"] });
});
