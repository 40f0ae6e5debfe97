import { ApolloClient, ApolloLink, HttpLink, InMemoryCache } from "@apollo/client";
import { SetContextLink } from "@apollo/client/link/context";
import { GraphQLWsLink } from "@apollo/client/link/subscriptions";
import { OperationTypeNode } from "graphql";
import { createClient } from "graphql-ws";
import { tap } from "rxjs";

// For a page of the same origin as the service. The browser keeps the session in a cookie that no script can read.

const JSON_HEADERS = { "Content-Type": "application/json" };

/** The token that shows that a request comes from this page, and not from one of another site. It is that of the session. */
let csrf: Promise<string | null> | null = null;

async function readToken(): Promise<string | null> {
  const response = await fetch("/csrf-token");
  return response.ok ? (await response.json()).csrfToken : null;
}

/** Every request with the cookie needs the token, also queries: they are POST requests. */
const withToken = new SetContextLink(async ({ headers }) => {
  csrf ??= readToken();
  const token = await csrf;
  return token === null ? { headers } : { headers: { ...headers, "X-CSRF-Token": token } };
});

const live = createClient({
  url: "/graphql",
  shouldRetry: () => true,
  retryAttempts: Number.POSITIVE_INFINITY,
  retryWait: (retries) =>
    new Promise((resolve) => setTimeout(resolve, Math.min(1000 * 2 ** retries, 30_000) * (0.5 + Math.random()))),
});

/** After a lost connection, a subscription continues after its last event. */
const continued = new ApolloLink((operation, forward) =>
  forward(operation).pipe(
    tap(({ extensions }) => {
      operation.extensions.after = extensions?.changePosition;
    }),
  ),
);

export const client = new ApolloClient({
  link: ApolloLink.split(
    ({ operationType }) => operationType === OperationTypeNode.SUBSCRIPTION,
    continued.concat(new GraphQLWsLink(live)),
    withToken.concat(new HttpLink({ uri: "/graphql" })),
  ),
  cache: new InMemoryCache(),
});

const listeners = new Set<() => unknown>();
/** Calls back when the user has signed in or out, in this tab or another one, and when the session was ended elsewhere. */
export const onUser = (listener: () => unknown): unknown => listeners.add(listener);

/** What was read, and the WebSocket, are those of the user before. */
async function changeUser(): Promise<void> {
  csrf = null;
  live.terminate();
  await client.resetStore();
  for (const listener of listeners) await listener();
}

/** The tabs of a browser have one cookie. */
const tabs = new BroadcastChannel("user");
tabs.addEventListener("message", changeUser);
live.on("closed", (event) => (event as CloseEvent).code === 4403 && changeUser());

/** Rejects with the message of the service. */
async function post(path: string, body?: object): Promise<void> {
  const options = body ? { headers: JSON_HEADERS, body: JSON.stringify(body) } : {};
  const response = await fetch(path, { method: "POST", ...options });
  if (!response.ok) throw new Error((await response.json()).error.message);
  tabs.postMessage(path);
  await changeUser();
}

export const signIn = (form: object): Promise<void> => post("/api/auth/login", form);
export const signOut = (): Promise<void> => post("/api/auth/logout");
