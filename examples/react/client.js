import { ApolloClient, HttpLink, InMemoryCache, split } from "@apollo/client";
import { SetContextLink } from "@apollo/client/link/context";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { getMainDefinition } from "@apollo/client/utilities";
import { createClient } from "graphql-ws";
import { API, token } from "../session.js";

/** Each request and each connection of the socket has a token that is valid then. */
async function credentials() {
  const accessToken = await token();
  return accessToken ? { authorization: `Bearer ${accessToken}` } : {};
}

const withToken = new SetContextLink(async ({ headers }) => ({ headers: { ...headers, ...(await credentials()) } }));

const socket = createClient({ url: `${API.replace(/^http/, "ws")}/graphql`, connectionParams: credentials });

const isSubscription = ({ query }) => getMainDefinition(query).operation === "subscription";

export const client = new ApolloClient({
  link: split(isSubscription, new GraphQLWsLink(socket), withToken.concat(new HttpLink({ uri: `${API}/graphql` }))),
  cache: new InMemoryCache(),
});
