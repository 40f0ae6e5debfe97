import { ApolloClient, ApolloLink, CombinedGraphQLErrors, HttpLink, InMemoryCache, split } from "@apollo/client";
import { ErrorLink } from "@apollo/client/link/error";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { getMainDefinition } from "@apollo/client/utilities";
import { createClient } from "graphql-ws";
import { tap, throwError } from "rxjs";
import { API, ended, request, session, signOut, token } from "../session.js";

/** The access token of the socket, and the last one that the service has closed a socket for as expired. */
let used = null;
let expired = null;

/** Each connection of the socket has a token that is valid then. */
async function connectionParams() {
  used = await token(expired);
  return used ? { authorization: `Bearer ${used}` } : {};
}

/** Resolves when the next attempt to connect may begin: after 1, 2, 4, … up to 30 seconds, and not at the same time in all pages. */
const retryWait = (retries) =>
  new Promise((resolve) => setTimeout(resolve, Math.min(1000 * 2 ** retries, 30_000) * (0.5 + Math.random())));

// While the service restarts, connections are refused. By default, graphql-ws would give up then.
const socket = createClient({
  url: `${API.replace(/^http/, "ws")}/graphql`,
  connectionParams,
  shouldRetry: () => true,
  retryAttempts: Number.POSITIVE_INFINITY,
  retryWait,
});

/** Whatever operation finds that the session has ended, the page shows it. */
const endOfSession = new ErrorLink(({ error }) => {
  const code = CombinedGraphQLErrors.is(error) ? error.errors[0].extensions?.code : undefined;
  return throwError(() => ended(error, code));
});

// 4403 without "expired": the session was ended elsewhere. After an expiry, the socket connects again with a new token.
socket.on("closed", ({ code, reason }) => {
  if (code !== 4403) return;
  if (reason.includes("expired")) expired = used;
  else signOut();
});

// A socket is that of the user who has opened it: with another user, or none, it connects again.
let user = session()?.user.id;
addEventListener("session", () => {
  const before = user;
  user = session()?.user.id;
  if (user !== before) socket.terminate();
});

// What was written while the socket was closed. Lists with a subscription are not read again: the subscription continues.
socket.on("connected", (_socket, _payload, wasRetry) => {
  if (wasRetry) client.refetchQueries({ include: ["Articles"] });
});

const isSubscription = ({ query }) => getMainDefinition(query).operation === "subscription";

/** Up to which change each list has been read, by the name that its query and its subscription have in `context.list`. */
const positions = new Map();

/** A subscription begins after the changes that its list has seen. After a lost connection, it continues after the last event. */
const continued = new ApolloLink((operation, forward) => {
  const { list } = operation.getContext();
  if (!list) return forward(operation);
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

/** Whether changes are missing before those that a subscription could continue with: its list must be read again. */
export const hasMissed = (error) =>
  CombinedGraphQLErrors.is(error) && error.errors[0].extensions?.code === "CHANGES_MISSED";

export const client = new ApolloClient({
  link: ApolloLink.from([
    endOfSession,
    continued,
    split(isSubscription, new GraphQLWsLink(socket), new HttpLink({ uri: `${API}/graphql`, fetch: request })),
  ]),
  cache: new InMemoryCache(),
});
