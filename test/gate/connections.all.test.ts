import type { Socket } from "node:net";
import pino from "pino";
import { beforeAll, describe, expect, test } from "vitest";
import { Clients } from "../../gate/limits/clients.ts";
import { ConnectionLimit, SendTimeout } from "../../gate/limits/connection-limits.ts";
import { createTestDatabase } from "../support/database.ts";
import { openGraphQL, openRaw, type RawSocket } from "../support/raw-socket.ts";
import { startTestService, type TestService } from "../support/service.ts";
import { POLL } from "../support/until.ts";

/** The lines of the log. */
function recordedLog() {
  const lines: any[] = [];
  return { lines, log: pino({ level: "info" }, { write: (line: string) => lines.push(JSON.parse(line)) }) };
}

const { lines, log } = recordedLog();
const closed = () => lines.filter(({ msg }) => msg.includes("read nothing of the response"));

/** More than the system buffers for a connection. */
const LARGE = 12_000_000;
let service: TestService;
beforeAll(async () => {
  const database = await createTestDatabase();
  await database.owner.query(`
    create function public.large() returns text language sql stable return repeat('x', ${LARGE});
    create function public.rows() returns setof text language sql stable as
      'select repeat(''x'', 1000000) from generate_series(1, ${LARGE / 1_000_000})';
    grant execute on function public.large(), public.rows() to anon`);
  service = await startTestService({ sendTimeout: 1500, API_KEY_REQUIRED: "off" }, database, log);
  // A client of a WebSocket has three seconds for its first message, and on a busy machine the schema takes longer.
  expect((await service.gql("{ __typename }")).status).toBe(200);
  return () => service.stop();
});

const request = (method: string, path: string) => `${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
const LARGE_REQUEST = request("GET", "/rest/v1/rpc/large");
const STREAM_REQUEST = "GET /rest/v1/rpc/rows HTTP/1.1\r\nHost: a\r\nAccept: application/x-ndjson\r\n\r\n";

/** A connection whose client does not read. */
async function deaf(): Promise<RawSocket> {
  const raw = await openRaw(service.url);
  raw.socket.pause();
  return raw;
}

describe("a connection without write progress for sendTimeout is closed", () => {
  test.each([
    ["a large response", [LARGE_REQUEST]],
    ["a stream of rows", [STREAM_REQUEST]],
    ["pipelined requests", [LARGE_REQUEST + LARGE_REQUEST + LARGE_REQUEST]],
    ["a request on a connection that was used before", [request("HEAD", "/live"), LARGE_REQUEST]],
  ])("for %s, and logged with its address and bytes", async (_what, requests) => {
    const before = closed().length;
    const raw = await deaf();
    for (const text of requests) raw.write(text);
    await expect.poll(() => closed().length, POLL).toBe(before + 1);
    expect(closed().at(-1)).toMatchObject({ level: 30, address: "127.0.0.1", unsent: expect.any(Number) });
    expect(closed().at(-1).unsent).toBeGreaterThan(0);
    // What the system has buffered arrives, and then the end.
    raw.socket.resume();
    await expect.poll(() => raw.ended, POLL).toBe(true);
    expect(raw.text.length).toBeLessThan(LARGE);
  });

  test("for a WebSocket", async () => {
    const before = closed().length;
    const raw = await openGraphQL(service.url);
    raw.socket.pause();
    const query = "{ large }";
    raw.send({ id: "1", type: "subscribe", payload: { query } });
    await expect.poll(() => closed().length, POLL).toBe(before + 1);
  });

  test("but not an idle connection", async () => {
    const before = closed().length;
    const idle = await openRaw(service.url);
    idle.write(request("HEAD", "/live"));
    const slow = await deaf();
    slow.write(LARGE_REQUEST);
    await expect.poll(() => closed().length, POLL).toBe(before + 1);
    expect(idle.ended).toBe(false);
  });

  // A busy system may hold up a transfer for longer than the short sendTimeout of this file.
  test("but not one whose client reads", { retry: 4 }, async () => {
    const response = await fetch(`${service.url}/rest/v1/rpc/large`);
    expect((await response.text()).length).toBeGreaterThan(LARGE);
  });
});

/** A socket whose system has accepted all but `queue` of `written` bytes. */
function fakeSocket(written: number, queue: number) {
  const handle = { bytesWritten: written, writeQueueSize: queue };
  const socket = { _handle: handle, once() {}, destroyed: false, destroy: () => (socket.destroyed = true) };
  return { handle, socket: socket as unknown as Socket };
}

test("partial progress restarts sendTimeout, and so does an empty queue", () => {
  const timeout = new SendTimeout({ timeout: 3_600_000, log });
  const { handle, socket } = fakeSocket(500, 400);
  timeout.watch(socket);
  const check = (times: number) => {
    for (let i = 0; i < times; i++) timeout.check();
    return socket.destroyed;
  };
  expect(check(4)).toBe(false);
  handle.writeQueueSize = 300;
  expect(check(2)).toBe(false);
  // Another response is not progress.
  handle.bytesWritten += 100;
  handle.writeQueueSize += 100;
  expect(check(2)).toBe(false);
  handle.writeQueueSize = 0;
  expect(check(1)).toBe(false);
  handle.bytesWritten += 50;
  handle.writeQueueSize = 50;
  expect(check(4)).toBe(false);
  expect(check(1)).toBe(true);
});

describe("with limits on connections,", () => {
  let small: TestService;
  const small_log = recordedLog();
  beforeAll(async () => {
    const limits = {
      ...{ MAX_CONNECTIONS: "4", maxConnectionsPerAddress: 2 },
      ...{ wsMaxConnectionsPerAddress: 4, wsMessageRatePerAddress: 4 },
    };
    small = await startTestService({ ...limits, TRUST_PROXY: "127.0.0.9" }, undefined, small_log.log);
    return () => small.stop();
  });

  /** A connection that has received the response of /live, or that was rejected. */
  async function connect(localAddress: string): Promise<{ raw: RawSocket; status: number; headers: string }> {
    const raw = await openRaw(small.url, localAddress);
    raw.write(request("GET", "/live"));
    return { raw, ...(await raw.head()) };
  }
  const statusOf = async (localAddress: string) => {
    const { raw, status } = await connect(localAddress);
    if (status === 200) raw.socket.destroy();
    return status;
  };

  test("more from one IP address than maxConnectionsPerAddress are 429, and accepted after a close", async () => {
    const [first] = [await connect("127.0.0.1"), await connect("127.0.0.1")];
    const { status, headers, raw } = await connect("127.0.0.1");
    expect(status).toBe(429);
    expect(headers).toMatch(/\r\nConnection: close\r\nRetry-After: \d/);
    await expect.poll(() => raw.ended, POLL).toBe(true);
    expect(raw.text).toContain('"code":"RATE_LIMITED"');
    expect(await statusOf("127.0.0.2")).toBe(200);
    first!.raw.socket.destroy();
    await expect.poll(() => statusOf("127.0.0.1"), POLL).toBe(200);
  });

  test("those of a proxy in TRUST_PROXY count only for MAX_CONNECTIONS, which is 503", async () => {
    await expect.poll(async () => [await statusOf("127.0.0.1"), await statusOf("127.0.0.9")], POLL).toEqual([200, 200]);
    const all = [];
    for (const _ of [1, 2, 3, 4]) all.push(await connect("127.0.0.9"));
    expect(all.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const { status, headers, raw } = await connect("127.0.0.9");
    expect(status).toBe(503);
    expect(headers).toMatch(/\r\nConnection: close\r\nRetry-After: \d/);
    await expect.poll(() => raw.ended, POLL).toBe(true);
    expect(raw.text).toContain('"code":"INTERNAL_ERROR"');
    // A rejected request reaches no interface.
    expect(raw.text.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });

  test("WebSockets count too", async () => {
    await expect.poll(() => statusOf("127.0.0.3"), POLL).toBe(200);
    const sockets = await Promise.all([1, 2].map(() => openGraphQL(small.url, { localAddress: "127.0.0.3" })));
    expect(await statusOf("127.0.0.3")).toBe(429);
    for (const { socket } of sockets) socket.destroy();
    await expect.poll(() => statusOf("127.0.0.3"), POLL).toBe(200);
  });

  test("rejections are logged once a minute for each limit, with the client", async () => {
    const rejections = small_log.lines.filter(({ msg }) => /connections was reached/i.test(msg));
    expect(rejections).toMatchObject([
      { level: 40, limit: "address_connections", client: "127.0.0.1", connections: 2, rejected: 1 },
      { level: 40, limit: "MAX_CONNECTIONS", client: "127.0.0.9", connections: 4, rejected: 1 },
    ]);
  });
});

test("connections from one IPv6 network count together", () => {
  const limit = new ConnectionLimit({
    limits: () => ({ maxConnections: 10, maxConnectionsPerAddress: 1 }),
    isProxy: () => false,
    clients: new Clients(),
  });
  const from = (remoteAddress: string) => {
    const socket = { remoteAddress, on() {}, once() {}, resume: () => socket, end() {}, destroy() {} };
    return limit.admits(socket as unknown as Socket);
  };
  expect([from("2001:db8::1"), from("2001:db8::2"), from("2001:db8:0:1::1"), from("::ffff:203.0.113.7")]).toEqual([
    true,
    false,
    true,
    true,
  ]);
});
