import { type Client, createClient } from "graphql-ws";
import { accessToken, onUser } from "./session.ts";

/** The token of the socket, and the last one that the service has refused. */
let used: string | undefined;
let refused: string | undefined;

/** Milliseconds after which the socket is tested, and within which the service must answer. */
const [PAUSE, LIMIT] = [10_000, 10_000];
/** Milliseconds after which the socket connects again at the latest, give or take a half. */
const LONGEST = 30_000;

/** Codes of a close that passes, but not at once: a fault of the service, an exception in this page, too many messages. */
const PASSES_LATER: readonly number[] = [1011, 4500, 4004, 4005, 4429];
let passesLater = false;
/** Ends the pause before the next attempt. */
let hurry = (): void => {};

export const socket: Client = createClient({
  url: `${location.origin.replace(/^http/, "ws")}/graphql`,
  async connectionParams() {
    used = undefined;
    try {
      used = await accessToken(refused);
    } catch {
      // Not thrown: graphql-ws would close the socket with 4005, and the next attempt would be much later.
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
    new Promise((resolve) => {
      const pause = passesLater ? LONGEST : Math.min(1000 * 2 ** retries, LONGEST);
      passesLater = false;
      hurry = resolve;
      setTimeout(resolve, pause * (0.5 + Math.random()));
    }),
  on: {
    closed(event) {
      const { code } = event as CloseEvent;
      // The token has expired, or the session has been ended elsewhere: a refresh finds out which.
      if (code === 4403) refused = used;
      if (!PASSES_LATER.includes(code)) return;
      passesLater = true;
      // After these codes graphql-ws gives up, but not after `terminate`.
      socket.terminate();
    },
  },
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

// The network is back, perhaps another one: the pause ends, also one that `terminate` begins.
addEventListener("online", () => {
  socket.terminate();
  setTimeout(() => hurry());
});

// A socket is that of the user who has opened it: with another user, or none, it connects again.
onUser(() => socket.terminate());
