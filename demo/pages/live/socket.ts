import { type Client, createClient } from "graphql-ws";
import { accessToken, onUser } from "./session.ts";

/** The token of the socket, and the last one that the service has refused. */
let used: string | undefined;
let refused: string | undefined;

/** Milliseconds after which the socket is tested, and within which the service must answer. */
const [PAUSE, LIMIT] = [10_000, 10_000];

export const socket: Client = createClient({
  url: `${location.origin.replace(/^http/, "ws")}/graphql`,
  async connectionParams() {
    used = undefined;
    try {
      used = await accessToken(refused);
    } catch {
      // Not thrown: graphql-ws would close the socket with 4500, and give up when that arrives during the next attempt.
      socket.terminate();
    }
    return used === undefined ? {} : { Authorization: `Bearer ${used}` };
  },
  // Open for as long as the page is: "closed" is a lost connection, and lists learn when it is back.
  lazy: false,
  keepAlive: PAUSE,
  shouldRetry: () => true,
  retryAttempts: Number.POSITIVE_INFINITY,
  retryWait: (retries) =>
    new Promise((resolve) => setTimeout(resolve, Math.min(1000 * 2 ** retries, 30_000) * (0.5 + Math.random()))),
});

// A network may fail without closing the connection: then the socket is opened anew.
let timer: ReturnType<typeof setTimeout> | undefined;
function wait(): void {
  clearTimeout(timer);
  timer = setTimeout(() => socket.terminate(), LIMIT);
}
socket.on("connecting", wait);
socket.on("ping", (isReceived) => isReceived || wait());
for (const event of ["connected", "pong", "closed"] as const) socket.on(event, () => clearTimeout(timer));

socket.on("closed", (event) => {
  // The token has expired, or the session has been ended elsewhere: a refresh finds out which.
  if ((event as CloseEvent).code === 4403) refused = used;
});

// A socket is that of the user who has opened it: with another user, or none, it connects again.
onUser(() => socket.terminate());
