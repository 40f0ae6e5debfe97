import { ApolloClient, CombinedGraphQLErrors, HttpLink, InMemoryCache, split } from "@apollo/client";
import { SetContextLink } from "@apollo/client/link/context";
import { ErrorLink } from "@apollo/client/link/error";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { getMainDefinition } from "@apollo/client/utilities";
import { createClient } from "graphql-ws";
import { throwError } from "rxjs";
import { API, ended, signOut, token } from "../session.js";

/** Each request and each connection of the socket has a token that is valid then. */
async function credentials() {
  const accessToken = await token();
  return accessToken ? { authorization: `Bearer ${accessToken}` } : {};
}

const withToken = new SetContextLink(async ({ headers }) => ({ headers: { ...headers, ...(await credentials()) } }));

const socket = createClient({ url: `${API.replace(/^http/, "ws")}/graphql`, connectionParams: credentials });

/** Whatever operation finds that the session has ended, the page shows it. */
const endOfSession = new ErrorLink(({ error }) => {
  const code = CombinedGraphQLErrors.is(error) ? error.errors[0].extensions?.code : undefined;
  return throwError(() => ended(error, code));
});

// 4403 without "expired": the session was ended elsewhere. After an expiry, the socket connects again with a new token.
socket.on("closed", ({ code, reason }) => {
  if (code === 4403 && !reason.includes("expired")) signOut();
});

const isSubscription = ({ query }) => getMainDefinition(query).operation === "subscription";

export const client = new ApolloClient({
  link: endOfSession.concat(
    split(isSubscription, new GraphQLWsLink(socket), withToken.concat(new HttpLink({ uri: `${API}/graphql` }))),
  ),
  cache: new InMemoryCache(),
});
