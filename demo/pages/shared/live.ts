import { type Client, createClient } from "graphql-ws";
import { API, onSession, session, signOutHere, token } from "./session.ts";

/** Resolves when the next attempt to connect may begin: after 1, 2, 4, … up to 30 seconds, and not at the same time in all pages. */
const retryWait = (retries: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, Math.min(1000 * 2 ** retries, 30_000) * (0.5 + Math.random())));

/** The WebSocket of the page: it has a valid token at each connection, and connects again for as long as the page is open. */
export function connectLive(): Client {
  /** The access token of the socket, and the last one with which the service has closed a socket as expired. */
  let used: string | undefined;
  let expired: string | undefined;
  const client = createClient({
    url: `${API.replace(/^http/, "ws")}/graphql`,
    async connectionParams() {
      used = await token(expired);
      return used ? { authorization: `Bearer ${used}` } : {};
    },
    // While the service restarts, connections are refused. By default, graphql-ws would give up then.
    shouldRetry: () => true,
    retryAttempts: Number.POSITIVE_INFINITY,
    retryWait,
  });
  // 4403 without "expired": the session was ended elsewhere. After an expiry, the socket connects again with a new token.
  client.on("closed", (event) => {
    const { code, reason } = event as CloseEvent;
    if (code !== 4403) return;
    if (reason.includes("expired")) expired = used;
    else signOutHere();
  });
  // A socket is that of the user who has opened it: with another user, or none, it connects again.
  let user = session()?.user.id;
  onSession(() => {
    const before = user;
    user = session()?.user.id;
    if (user !== before) client.terminate();
  });
  return client;
}
