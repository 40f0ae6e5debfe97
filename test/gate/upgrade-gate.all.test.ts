import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import jwt from "jsonwebtoken";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { Clients, RateLimit } from "../../gate/limits/clients.ts";
import { Turns } from "../../gate/limits/turns.ts";
import { UpgradeGate } from "../../gate/limits/upgrade-gate.ts";
import { Routes } from "../../gate/pipeline/pipeline.ts";
import { anonymousCallers } from "../support/callers.ts";
import { connect as connectClient } from "../support/graphql-client.ts";
import { BINARY, CLOSE, frame, openGraphQL, openRaw, PING, RawSocket, TEXT, upgrade } from "../support/raw-socket.ts";
import { JWT_SECRET, startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

let service: TestService;
/** Low limits, so that each is reached soon. */
let small: TestService;
/** Requests that never end. They start with the file because they time out after ten seconds. */
let endless: readonly SlowRequest[];
/** A request that ends after a second, long before it would time out. */
let slow: SlowRequest;

beforeAll(async () => {
  [service, small] = await Promise.all([
    startTestService({
      wsMaxConnectionsPerAddress: 1000,
      wsMessageRate: 10_000,
      wsMessageRatePerAddress: 100_000,
      CORS_ORIGINS: "https://app.example, https://admin.example:8443",
    }),
    startTestService({
      wsMaxConnectionsPerAddress: 3,
      wsMaxSubscriptions: 2,
      wsMessageRate: 20,
      wsMessageRatePerAddress: 30,
      wsMaxMessageBytes: 2000,
      TRUST_PROXY: "127.0.0.3",
    }),
  ]);
  // The first operation would wait for the schema.
  for (const each of [service, small]) expect((await each.gql("{ __typename }")).status).toBe(200);
  const beginning = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Slow: ";
  endless = ["", beginning].map(askSlowly);
  slow = askSlowly(beginning);
  setTimeout(() => slow.raw.write("yes\r\n\r\n"), 1000);
});
afterAll(async () => {
  for (const { raw } of [...endless, slow]) raw.socket.destroy();
  await Promise.all([service.stop(), small.stop()]);
});
beforeEach(async () => {
  await expect.poll(() => service.service.open().sockets, POLL).toBe(0);
  await expect.poll(() => small.service.open().sockets, POLL).toBe(0);
});

type SlowRequest = {
  readonly raw: RawSocket;
  /** Resolves when the service closes the connection. */
  readonly closed: Promise<void>;
};

function askSlowly(text: string): SlowRequest {
  const socket = connect({ host: "127.0.0.1", port: Number(new URL(service.url).port), allowHalfOpen: true });
  socket.on("error", () => {});
  socket.write(text);
  const closed = new Promise<void>((resolve) => {
    for (const event of ["end", "close"]) socket.once(event, () => resolve());
  });
  return { raw: new RawSocket(socket), closed };
}

const statusOf = async (raw: Promise<RawSocket>) => (await (await raw).head()).status;

/** Asserts that the service still responds, over HTTP and on a socket that was open before. */
async function assertServing(bystander: RawSocket): Promise<void> {
  const before = bystander.messages().length;
  bystander.send({ id: `later-${before}`, type: "subscribe", payload: { query: "{ __typename }" } });
  await expect
    .poll(() => bystander.messages().slice(before), POLL)
    .toMatchObject([{ type: "next", payload: { data: { __typename: "Query" } } }, { type: "complete" }]);
  expect((await service.gql("{ __typename }")).data).toEqual({ __typename: "Query" });
}

describe("the upgrade", () => {
  test("is accepted at /graphql with the sub-protocol graphql-transport-ws", async () => {
    const raw = await upgrade(service.url);
    expect((await raw.head()).headers).toMatch(/^HTTP\/1.1 101 [\s\S]*^Sec-WebSocket-Protocol: graphql-transport-ws$/m);
    expect(await statusOf(upgrade(service.url, { path: "/graphql?token=1" }))).toBe(101);
    expect(await statusOf(upgrade(service.url, { protocol: "graphql-ws, graphql-transport-ws" }))).toBe(101);
  });

  test.each(["/", "/graphql/", "/graphqlx", "/graphiql", "/health", "//graphql", "/%67raphql", "/realtime"])(
    "at %s is 404",
    async (path) => {
      expect(await statusOf(upgrade(service.url, { path }))).toBe(404);
    },
  );

  test.each([
    ["an origin that is not in CORS_ORIGINS", "https://evil.example", 403],
    ["an allowed name over another scheme", "http://app.example", 403],
    ["an allowed name with another port", "https://app.example:444", 403],
    ["a name that begins like an allowed one", "https://app.example.evil.example", 403],
    ["the origin null of a sandboxed page", "null", 403],
    ["an empty origin", "", 403],
    ["an allowed origin", "https://app.example", 101],
    ["an allowed origin with its port", "https://admin.example:8443", 101],
  ])("from %s is %s", async (_what, origin, status) => {
    expect(await statusOf(upgrade(service.url, { headers: { Origin: origin } }))).toBe(status);
  });

  test("is accepted without an origin, as programs send it, and with CORS_ORIGINS=* from every origin", async () => {
    expect(await statusOf(upgrade(service.url))).toBe(101);
    expect(await statusOf(upgrade(small.url, { headers: { Origin: "https://evil.example" } }))).toBe(101);
  });

  test.each([
    ["no sub-protocol", { protocol: null }, 400, "the socket must offer the sub-protocol graphql-transport-ws"],
    ["an empty sub-protocol", { protocol: "" }, 400],
    ["the older sub-protocol", { protocol: "graphql-ws" }, 400],
    ["a sub-protocol in capitals", { protocol: "GRAPHQL-TRANSPORT-WS" }, 400],
    ["a malformed list of sub-protocols", { protocol: "graphql-transport-ws," }, 400],
    ["no key", { headers: { "Sec-WebSocket-Key": "" } }, 400],
    ["an invalid key", { headers: { "Sec-WebSocket-Key": "abc" } }, 400],
    ["another version", { headers: { "Sec-WebSocket-Version": "99" } }, 426],
    ["two Host headers", { headers: { "X: y\r\nHost": "elsewhere" } }, 400, "the header host must not be sent twice"],
    ["two Authorization headers", { headers: { Authorization: "Bearer a", AUTHORIZATION: "Bearer b" } }, 400],
  ])("with %s is %s", async (_what, options, status, reason = "") => {
    const raw = await upgrade(service.url, options);
    expect((await raw.head()).status).toBeOneOf([status, ...(status === 426 ? [400] : [])]);
    await expect.poll(() => raw.text).toContain(reason);
  });

  test("to another protocol is ignored, and the request is served over HTTP/1.1", async () => {
    const raw = await openRaw(service.url);
    raw.write(
      `GET /health HTTP/1.1\r\nHost: ${new URL(service.url).host}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n`,
    );
    expect((await raw.head()).status).toBe(200);
  });

  test("that is rejected leaves no connection, even if the client keeps its side open", async () => {
    const raw = await upgrade(service.url, { path: "/nothing" });
    await expect.poll(() => raw.ended, POLL).toBe(true);
    // Only a connection that is closed on both sides responds to a write with a reset.
    await expect
      .poll(() => {
        raw.write("more");
        return raw.socket.destroyed;
      }, POLL)
      .toBe(true);
  });
});

describe("only its own socket is closed by", () => {
  const init = JSON.stringify({ type: "connection_init" });
  test.each([
    ["a reserved bit", frame(TEXT, init, { reserved: 0b100 }), 1002],
    ["all reserved bits", frame(TEXT, init, { reserved: 0b111 }), 1002],
    ["an unknown opcode", frame(0x3, init), 1002],
    ["an unknown control opcode", frame(0xb, ""), 1002],
    ["no mask", frame(TEXT, init, { masked: false }), 1002],
    ["a continuation without a beginning", frame(0x0, init), 1002],
    ["a ping in fragments", frame(PING, "", { final: false }), 1002],
    ["a ping that is too long", frame(PING, "x".repeat(126)), 1002],
    ["a close frame of one byte", frame(CLOSE, "x"), 1002],
    ["an invalid close code", frame(CLOSE, Buffer.from([0x03, 0xec])), 1002],
    ["text that is not UTF-8", frame(TEXT, Buffer.from([0x22, 0xc3, 0x28, 0x22])), 1007],
    ["a close reason that is not UTF-8", frame(CLOSE, Buffer.from([0x03, 0xe8, 0xc3, 0x28])), 1007],
    ["more bytes than wsMaxMessageBytes", frame(TEXT, "x".repeat(65_537)), 1009],
    ["a length of many gigabytes", frame(TEXT, "x", { length: 2 ** 40 }), 1009],
    [
      "a length of 64 set bits",
      Buffer.concat([Buffer.from([0x81, 0xff]), Buffer.alloc(8, 0xff), Buffer.alloc(4)]),
      1009,
    ],
  ])("a frame with %s", async (_what, bytes, code) => {
    const bystander = await openGraphQL(service.url);
    const raw = await upgrade(service.url);
    raw.write(bytes);
    expect(await raw.closed()).toMatchObject({ code });
    await expect.poll(() => service.service.open().sockets, POLL).toBe(1);
    await assertServing(bystander);
  });

  test("a message whose fragments are too large together", async () => {
    const bystander = await openGraphQL(service.url);
    const raw = await upgrade(service.url);
    raw.write(frame(TEXT, "x".repeat(60_000), { final: false }));
    raw.write(frame(0x0, "x".repeat(60_000), { final: false }));
    expect(await raw.closed()).toMatchObject({ code: 1009 });
    await assertServing(bystander);
  });

  test("a connection that is reset in the middle of a frame", async () => {
    const bystander = await openGraphQL(service.url);
    const raw = await upgrade(service.url);
    raw.write(frame(TEXT, init, { length: 1000 }));
    raw.socket.resetAndDestroy();
    await expect.poll(() => service.service.open().sockets, POLL).toBe(1);
    await assertServing(bystander);
  });
});

test("a message of wsMaxMessageBytes passes, in fragments and as binary too", async () => {
  const raw = await upgrade(service.url);
  const message = (length: number) =>
    JSON.stringify({ type: "ping", payload: { text: "" } }).replace('""', `"${"x".repeat(length)}"`);
  const text = message(65_536 - message(0).length);
  expect(Buffer.byteLength(text)).toBe(65_536);
  raw.write(frame(TEXT, text));
  raw.write(frame(TEXT, text.slice(0, 100), { final: false }));
  raw.write(frame(PING, "in between"));
  raw.write(frame(0x0, text.slice(100)));
  raw.write(frame(BINARY, text));
  await expect.poll(() => raw.messages().map(({ type }) => type), POLL).toEqual(["pong", "pong", "pong"]);
});

describe("a message", () => {
  const subscribe = { id: "1", type: "subscribe", payload: { query: "{ __typename }" } };
  test.each([
    ["invalid JSON", "nonsense", 4400],
    ["empty", "", 4400],
    ["a number", "42", 4400],
    ["null", "null", 4400],
    ["an array", "[]", 4400],
    ["an object without a type", "{}", 4400],
    ["of an unknown type", { type: "start" }, 4400],
    ["of a type that only servers send", { type: "connection_ack" }, 4400],
    ["a subscribe without an id", { ...subscribe, id: undefined }, 4400],
    ["a subscribe with an empty id", { ...subscribe, id: "" }, 4400],
    ["a subscribe without a payload", { ...subscribe, payload: undefined }, 4400],
    ["a subscribe without a query", { ...subscribe, payload: {} }, 4400],
    ["a subscribe with a query that is not a string", { ...subscribe, payload: { query: 42 } }, 4400],
    [
      "a subscribe with variables that are not an object",
      { ...subscribe, payload: { query: "{ __typename }", variables: 1 } },
      4400,
    ],
    [
      "a subscribe with an operationName that is not a string",
      { ...subscribe, payload: { query: "{ __typename }", operationName: 1 } },
      4400,
    ],
    ["5,000 levels of brackets", `{"type":"ping","payload":{"a":${"[".repeat(5000)}${"]".repeat(5000)}}}`, 4400],
    ["5,000 unclosed brackets", "[".repeat(5000), 4400],
    ["a second connection_init", { type: "connection_init" }, 4429],
  ])("closes the socket if it is %s", async (_what, message, code) => {
    const bystander = await openGraphQL(service.url);
    const raw = await openGraphQL(service.url);
    raw.send(message);
    expect(await raw.closed()).toMatchObject({ code });
    await assertServing(bystander);
  });

  test("of the type subscribe before connection_init closes the socket with 4401", async () => {
    const raw = await upgrade(service.url);
    raw.send(subscribe);
    expect(await raw.closed()).toEqual({ code: 4401, reason: "Unauthorized" });
  });

  test("with an id that is in use closes the socket with 4409", async () => {
    const raw = await openGraphQL(service.url);
    for (let i = 0; i < 2; i++)
      raw.send({ id: "1", type: "subscribe", payload: { query: "subscription { onArticleCreated { id } }" } });
    expect(await raw.closed()).toEqual({ code: 4409, reason: "Subscriber for 1 already exists" });
    await expect.poll(() => service.service.open().subscriptions, POLL).toBe(0);
  });

  test("may have an id such as __proto__, and a ping or an unknown complete does no harm", async () => {
    const raw = await openGraphQL(service.url);
    for (const id of ["__proto__", "constructor", "toString"]) raw.send({ ...subscribe, id });
    raw.send({ id: "unknown", type: "complete" });
    raw.send({ type: "pong" });
    raw.send({ type: "ping" });
    await expect
      .poll(
        () =>
          raw
            .messages()
            .filter(({ type }) => type === "next")
            .map(({ id }) => id)
            .sort(),
        POLL,
      )
      .toEqual(["__proto__", "constructor", "toString"]);
    await expect
      .poll(() => raw.messages().at(-1) && raw.messages().some(({ type }) => type === "pong"), POLL)
      .toBe(true);
  });
});

/** Milliseconds between two pings. */
const HEARTBEAT = 60_000;

/** A server without a service. */
async function openGate(accept: (socket: WebSocket) => void = () => {}) {
  const server = createServer();
  const clients = new Clients();
  const gate = new UpgradeGate(server, {
    routes: new Routes([["/graphql", { protocol: "graphql-transport-ws", accept }]], null),
    limits: () => ({
      wsMaxConnectionsPerAddress: 10,
      wsMaxMessageBytes: 1000,
      wsMessageRate: 100,
      wsMessageRatePerAddress: 1000,
    }),
    heartbeat: HEARTBEAT,
    callers: anonymousCallers(),
    isAllowedOrigin: () => true,
    clients,
    turns: new Turns({ time: 0, running: 2 }),
    rateLimit: new RateLimit({ limit: 0, clients }),
    onSocketError: () => {},
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    void gate.close(0);
    await gate.terminate();
    server.close();
  });
  return { server, gate, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

describe("with limits,", () => {
  // The floods come from networks of their own: their messages would count for the next test.
  test("more messages per second than wsMessageRate close the socket with 4429, and later messages are ignored", async () => {
    const raw = await openGraphQL(small.url, { localAddress: "127.0.0.3" });
    const subscribe = (id: number) =>
      frame(TEXT, JSON.stringify({ id: String(id), type: "subscribe", payload: { query: "{ __typename }" } }));
    raw.write(Buffer.concat(Array.from({ length: 200 }, (_, i) => subscribe(i))));
    expect(await raw.closed()).toEqual({ code: 4429, reason: "too many messages" });
    expect(raw.messages().filter(({ type }) => type === "next").length).toBeLessThanOrEqual(40);
  });

  test("pings count as messages for wsMessageRate", async () => {
    const raw = await openGraphQL(small.url, { localAddress: "127.0.0.4" });
    for (let i = 0; i < 50; i++) raw.write(frame(PING, ""));
    expect(await raw.closed()).toMatchObject({ code: 4429 });
  });

  test("more messages per second from one IP address than wsMessageRatePerAddress close the socket that sends them", async () => {
    const [one, other, elsewhere] = [
      await openGraphQL(small.url, { localAddress: "127.0.0.5" }),
      await openGraphQL(small.url, { localAddress: "127.0.0.5" }),
      await openGraphQL(small.url, { localAddress: "127.0.0.2" }),
    ];
    const pings = Buffer.concat(Array.from({ length: 17 }, () => frame(PING, "")));
    // They are counted for each second of the clock that the service in this process reads, and here it stops.
    const clock = vi.spyOn(performance, "now").mockReturnValue(performance.now());
    onTestFinished(() => clock.mockRestore());
    one.write(pings);
    other.write(pings);
    const closed = await Promise.race([one, other].map((raw) => raw.closed()));
    expect(closed).toEqual({ code: 4429, reason: "too many messages" });
    elsewhere.send({ type: "ping" });
    await expect.poll(() => elsewhere.messages().at(-1), POLL).toMatchObject({ type: "pong" });
  });

  test("more sockets from one IP address than wsMaxConnectionsPerAddress are 429, and accepted after a close", async () => {
    const sockets = await Promise.all([1, 2, 3].map(() => openGraphQL(small.url)));
    const refused = await upgrade(small.url);
    expect((await refused.head()).headers).toMatch(/^HTTP\/1.1 429 [\s\S]*Retry-After: \d/);
    expect(await statusOf(upgrade(small.url, { localAddress: "127.0.0.2" }))).toBe(101);
    sockets[0]!.socket.destroy();
    await expect.poll(() => small.service.open().sockets, POLL).toBe(3);
    expect(await statusOf(upgrade(small.url))).toBe(101);
  });

  test("X-Forwarded-For counts if a trusted proxy sends it, and is ignored otherwise", async () => {
    const behind = (localAddress: string, client: string) =>
      upgrade(small.url, { localAddress, headers: { "X-Forwarded-For": client } });
    await Promise.all([
      behind("127.0.0.3", "203.0.113.1"),
      behind("127.0.0.3", "203.0.113.2"),
      behind("127.0.0.1", "203.0.113.3"),
    ]);
    expect(small.service.open()).toMatchObject({ sockets: 3, addresses: 3 });
    await behind("127.0.0.1", "203.0.113.4");
    expect(small.service.open()).toMatchObject({ sockets: 4, addresses: 3 });
  });

  test("more operations on one socket than wsMaxSubscriptions are RATE_LIMITED, until one ends", async () => {
    const client = connectClient(small);
    const [first] = [
      await client.subscribe("subscription { onArticleCreated { id } }"),
      await client.subscribe("subscription { onArticleUpdated { id } }"),
    ];
    const third = client.subscribeSoon("subscription { onArticleCreated { id } }");
    await expect
      .poll(() => third.error, POLL)
      .toEqual([
        { message: "too many operations on this socket: the maximum is 2", extensions: { code: "RATE_LIMITED" } },
      ]);
    first.unsubscribe();
    await expect.poll(() => small.service.open(), POLL).toMatchObject({ sockets: 1, subscriptions: 1 });
    await client.subscribe("subscription { onArticleCreated { id } }");
  });

  test("a message larger than wsMaxMessageBytes closes the socket with 1009", async () => {
    const raw = await openGraphQL(small.url);
    raw.send({ type: "ping", payload: { text: "x".repeat(2000) } });
    expect(await raw.closed()).toMatchObject({ code: 1009 });
  });

  test("100 sockets that are opened and destroyed leave the counters at zero", async () => {
    const sockets = await Promise.all(
      Array.from({ length: 100 }, (_, i) => upgrade(service.url, { localAddress: `127.0.0.${1 + (i % 5)}` })),
    );
    expect(service.service.open()).toMatchObject({ sockets: 100, addresses: 5 });
    for (const [i, raw] of sockets.entries()) {
      if (i % 4 === 0) raw.send({ type: "connection_init" });
      if (i % 4 === 1) raw.write(frame(TEXT, "{", { length: 100 }));
      if (i % 2 === 0) raw.socket.resetAndDestroy();
      else raw.socket.destroy();
    }
    await expect.poll(() => service.service.open(), POLL).toEqual({ sockets: 0, addresses: 0, subscriptions: 0 });
  });

  test("sockets that are reset during the upgrade leave the counters at zero too", async () => {
    const { host } = new URL(service.url);
    for (let i = 0; i < 50; i++) {
      const raw = await openRaw(service.url);
      raw.write(
        `GET /graphql HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n`,
      );
      raw.write("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n");
      raw.socket.resetAndDestroy();
    }
    expect((await service.gql("{ __typename }")).status).toBe(200);
    await expect.poll(() => service.service.open(), POLL).toEqual({ sockets: 0, addresses: 0, subscriptions: 0 });
  });

  test("what follows a message that is too large is read in parts, so that other work is done between them", async () => {
    const { server, url } = await openGate();
    const turns: number[] = [];
    let isClosed = false;
    server.once("connection", (socket) => {
      socket.once("close", () => {
        isClosed = true;
      });
      let before = 0;
      const note = () => {
        turns.push(socket.bytesRead - before);
        before = socket.bytesRead;
        if (!socket.destroyed) setImmediate(note);
      };
      note();
    });
    const raw = await upgrade(url);
    raw.write(frame(TEXT, "x".repeat(4_000_000)));
    expect(await raw.closed()).toMatchObject({ code: 1009 });
    // All of it, unless the client needs longer to send it than the service waits for its close frame.
    await expect.poll(() => isClosed || turns.reduce((sum, each) => sum + each, 0) > 4_000_000, POLL).toBe(true);
    expect(Math.max(...turns)).toBeLessThanOrEqual(262_144);
  });

  test("messages that arrive together are read in turns, so that other work is done between them", async () => {
    const inTurns: number[] = [0];
    const { url } = await openGate((socket) => {
      socket.on("message", () => inTurns[inTurns.length - 1]!++);
      const note = () => {
        inTurns.push(0);
        if (socket.readyState === socket.OPEN) setImmediate(note);
      };
      note();
    });
    const raw = await upgrade(url);
    raw.write(Buffer.concat(Array.from({ length: 50 }, (_, i) => frame(TEXT, String(i)))));
    await expect.poll(() => inTurns.reduce((sum, each) => sum + each, 0), POLL).toBe(50);
    expect(Math.max(...inTurns)).toBeLessThanOrEqual(2);
  });

  test("a client that does not answer a ping before the next one is disconnected, and one that does stays", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    let pongs = 0;
    const { gate, url } = await openGate((socket) => socket.on("pong", () => pongs++));
    const living = new WebSocket(`${url.replace("http", "ws")}/graphql`, "graphql-transport-ws");
    await once(living, "open");
    const dead = await upgrade(url);
    for (const beats of [1, 2, 3]) {
      vi.advanceTimersByTime(HEARTBEAT);
      await expect.poll(() => pongs, POLL).toBe(beats);
    }
    await expect.poll(() => dead.ended, POLL).toBe(true);
    expect(gate.open.sockets).toBe(1);
    expect(living.readyState).toBe(WebSocket.OPEN);
  });
});

describe("at the same time, because each of these takes seconds,", () => {
  const closesSilent = async (raw: RawSocket) => {
    expect(await raw.closed()).toEqual({ code: 4408, reason: "Connection initialisation timeout" });
  };
  const keepsSteady = async (raw: RawSocket) => {
    for (let i = 0; i < 30; i++) {
      raw.send({ type: "ping" });
      await new Promise((resolve) => setTimeout(resolve, 60));
    }
    await expect.poll(() => raw.messages().filter(({ type }) => type === "pong").length, POLL).toBe(30);
  };
  const disconnectsUnresponsive = async (raw: RawSocket) => {
    raw.send("nonsense");
    await expect.poll(() => small.service.open().sockets, POLL).toBe(1);
  };

  test("no connection_init within 3 s is 4408, a slow but steady client stays, and a client that ignores a close frame is disconnected after 2 s", async () => {
    const [silent, steady, unresponsive] = await Promise.all([
      upgrade(service.url),
      openGraphQL(small.url),
      openGraphQL(small.url),
    ]);
    expect(small.service.open().sockets).toBe(2);
    await Promise.all([closesSilent(silent), keepsSteady(steady), disconnectsUnresponsive(unresponsive)]);
    expect(steady.ended).toBe(false);
  });

  test("a connection_init that arrives while the process is busy for longer is in time", async () => {
    const raw = await upgrade(service.url);
    raw.send({ type: "connection_init" });
    // The service is in this process, which reads and does nothing meanwhile.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3500);
    await expect.poll(() => raw.messages()[0] ?? raw.text, POLL).toEqual({ type: "connection_ack" });
  });
});

describe("a token that expires", () => {
  const sign = (seconds: number) => {
    const exp = Math.floor(Date.now() / 1000) + seconds;
    return jwt.sign({ sub: "1", role: "authenticated", type: "access", iss: "content-service", exp }, JWT_SECRET);
  };

  test("closes the socket with 4403, whether it was in connection_init or in a header of the upgrade", async () => {
    const expiring = { Authorization: `Bearer ${sign(10)}` };
    const sockets = await Promise.all([
      openGraphQL(service.url, { payload: expiring }),
      openGraphQL(service.url, { headers: expiring }),
    ]);
    for (const raw of sockets) {
      raw.send({ id: "1", type: "subscribe", payload: { query: "subscription { onArticleCreated { id } }" } });
      raw.send({ id: "2", type: "subscribe", payload: { query: "{ me { id } }" } });
      await expect
        .poll(() => raw.messages()[1], POLL)
        .toMatchObject({ type: "next", payload: { data: { me: { id: "1" } } } });
    }
    const closed = { code: 4403, reason: "the access token has expired: refresh it, or sign in again" };
    expect(await Promise.all(sockets.map((raw) => raw.closed()))).toEqual([closed, closed]);
    await expect.poll(() => service.service.open(), POLL).toEqual({ sockets: 0, addresses: 0, subscriptions: 0 });
  });

  test("does not close the socket if a later one in connection_init replaces it", async () => {
    const raw = await openGraphQL(service.url, {
      headers: { Authorization: `Bearer ${sign(8)}` },
      payload: { Authorization: `Bearer ${sign(60)}` },
    });
    await new Promise((resolve) => setTimeout(resolve, 8300));
    raw.send({ id: "1", type: "subscribe", payload: { query: "{ me { id } }" } });
    await expect
      .poll(() => raw.messages()[1], POLL)
      .toMatchObject({ type: "next", payload: { data: { me: { id: "1" } } } });
  });

  test("in ten years does not close the socket", async () => {
    const key = service.service.tokens.issueKey("anon");
    const raw = await openGraphQL(service.url, { payload: { Authorization: `Bearer ${key}` } });
    await new Promise((resolve) => setTimeout(resolve, 100));
    raw.send({ type: "ping" });
    await expect.poll(() => raw.messages()[1], POLL).toEqual({ type: "pong" });
  });
});

describe("a request that a proxy may read differently", () => {
  const body = '{"query":"{ __typename }"}';
  const post = (headers: string, text = body) =>
    `POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${headers}\r\n\r\n${text}`;
  const smuggled = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

  test.each([
    ["two lengths", post(`Content-Length: ${body.length}\r\nContent-Length: 5`), 400],
    ["two lengths in one header", post(`Content-Length: ${body.length}, 5`), 400],
    ["a length and chunks", post(`Content-Length: 5\r\nTransfer-Encoding: chunked`, `0\r\n\r\n${smuggled}`), 400],
    ["chunks and a length", post(`Transfer-Encoding: chunked\r\nContent-Length: 5`, `0\r\n\r\n${smuggled}`), 400],
    ["a transfer encoding that does not end with chunked", post("Transfer-Encoding: identity, chunked, gzip"), 400],
    ["a negative length", post("Content-Length: -1"), 400],
    ["a length in hexadecimal", post("Content-Length: 0x1a"), 400],
    ["a space before the colon", post(`Content-Length : ${body.length}`), 400],
    ["a folded header", post(`X-Folded: a\r\n b\r\nContent-Length: ${body.length}`), 400],
    ["a line feed without a carriage return", `GET /health HTTP/1.1\nHost: x\n\n`, 400],
    ["a NUL in a header", post(`X-Nul: a\0b\r\nContent-Length: ${body.length}`), 400],
    ["a chunk size that is not a number", post("Transfer-Encoding: chunked", "zz\r\n{}\r\n0\r\n\r\n"), 400],
    ["headers over 16 KB", post(`X-Large: ${"x".repeat(17_000)}\r\nContent-Length: ${body.length}`), 431],
    ["a URL over 16 KB", `GET /graphql?query=${"x".repeat(17_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 431],
    ["a missing Host header", "GET /health HTTP/1.1\r\n\r\n", 400],
    ["two Host headers", "GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400],
    [
      "two Authorization headers",
      post(`Authorization: Bearer a\r\nauthorization: Bearer b\r\nContent-Length: ${body.length}`),
      400,
    ],
    ["an absolute URL", "GET http://elsewhere/health HTTP/1.1\r\nHost: x\r\n\r\n", 400],
    ["an unknown method", "FETCH /health HTTP/1.1\r\nHost: x\r\n\r\n", 400],
    ["an unknown version", "GET /health HTTP/9.9\r\nHost: x\r\n\r\n", 400],
    ["bytes of another protocol", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400],
  ])("is refused because of %s", async (_what, text, status) => {
    const raw = await openRaw(service.url);
    raw.write(Buffer.from(text, "latin1"));
    expect((await raw.head()).status).toBe(status);
    // The bytes after the rejected request are not read as a request.
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(raw.text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect((await service.gql("{ __typename }")).status).toBe(200);
  });
});

test("a request that never ends is 408 after ten seconds, and a slow request is served", async () => {
  await Promise.all([...endless, slow].map(({ closed }) => closed));
  expect(endless[1]!.raw.text).toMatch(/^HTTP\/1.1 408 /);
  expect(slow.raw.text).toMatch(/^HTTP\/1.1 200 /);
});
