import { WebSocket } from "ws";
import { ANON_KEY, bearer } from "../credentials.ts";

/** Joins of channels that wait for their reply at the same time. */
const AT_ONCE = 50;
const RECORD = '"record":{"id":';
const NO_COMPRESSION = { perMessageDeflate: false };

/** What the subscribers have received. */
export type Arrivals = {
  /** Called for each change that arrives. `id` is that of the row. */
  onArrival(id: number): void;
};

/**
 * Opens a WebSocket with a channel for each user, and subscribes to the table, as supabase-js does. Resolves when all are subscribed,
 * and rejects if one is refused.
 */
export async function openSubscribers(
  address: string,
  table: string,
  users: readonly number[],
  arrivals: Arrivals,
): Promise<Disposable> {
  const sockets: WebSocket[] = [];
  const url = `${address.replace("http", "ws")}/realtime/v1/websocket?apikey=${ANON_KEY}&vsn=2.0.0`;
  const waiting = users.values();
  const openAll = async () => {
    for (const user of waiting) sockets.push(await openOne(url, table, user, arrivals));
  };
  const close = () => {
    for (const socket of sockets) socket.terminate();
  };
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, openAll));
  } catch (error) {
    close();
    throw error;
  }
  return { [Symbol.dispose]: close };
}

function openOne(url: string, table: string, user: number, arrivals: Arrivals): Promise<WebSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<WebSocket>();
  const socket = new WebSocket(url, NO_COMPRESSION);
  socket.once("open", () => socket.send(joinOf(table, user)));
  socket.once("error", reject);
  socket.once("close", (code, reason) => reject(new Error(`a subscriber was closed with ${code} ${reason}`)));
  socket.on("message", (data: Buffer) => {
    const at = data.indexOf(RECORD);
    if (at >= 0)
      arrivals.onArrival(Number.parseInt(data.toString("latin1", at + RECORD.length, at + RECORD.length + 16), 10));
    else if (data.indexOf('"phx_reply"') >= 0) {
      const text = data.toString();
      if (text.includes('"status":"ok"')) resolve(socket);
      else reject(new Error(`a subscriber was refused: ${text}`));
    }
  });
  return promise;
}

const joinOf = (table: string, user: number): string =>
  JSON.stringify([
    "1",
    "1",
    "realtime:bench",
    "phx_join",
    {
      config: {
        broadcast: { ack: false, self: false },
        presence: { key: "", enabled: false },
        postgres_changes: [{ event: "*", schema: "public", table }],
        private: false,
      },
      access_token: bearer(user).replace("Bearer ", ""),
    },
  ]);
