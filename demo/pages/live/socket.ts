import { createClient } from "graphql-ws";
import { accessToken, onUser } from "./session.ts";

/** The token of the socket, and the last one that the service has refused. */
let used: string | undefined;
let refused: string | undefined;

export const socket = createClient({
  url: `${location.origin.replace(/^http/, "ws")}/graphql`,
  async connectionParams() {
    used = await accessToken(refused);
    return used === undefined ? {} : { Authorization: `Bearer ${used}` };
  },
  shouldRetry: () => true,
  retryAttempts: Number.POSITIVE_INFINITY,
  retryWait: (retries) =>
    new Promise((resolve) => setTimeout(resolve, Math.min(1000 * 2 ** retries, 30_000) * (0.5 + Math.random()))),
});

socket.on("closed", (event) => {
  // The token has expired, or the session has been ended elsewhere: a refresh finds out which.
  if ((event as CloseEvent).code === 4403) refused = used;
});

// A socket is that of the user who has opened it: with another user, or none, it connects again.
onUser(() => socket.terminate());
