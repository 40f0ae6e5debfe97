import type { ServerResponse } from "node:http";
import { expect, onTestFinished, test, vi } from "vitest";
import { spreadOut } from "../../gate/limits/spread.ts";
import { HttpServer, urlOf } from "../../gate/process/server.ts";
import { openRaw, type RawSocket, upgrade } from "../support/raw-socket.ts";

test("a WebSocket upgrade before the service is ready is answered as a plain request", async () => {
  const server = new HttpServer((_request, response) => void response.writeHead(503).end());
  onTestFinished(() => server.close());
  await server.listen({ host: "127.0.0.1", port: 0 });
  const socket = await upgrade(urlOf({ host: "127.0.0.1", port: server.port }));
  expect((await socket.head()).status).toBe(503);
});

test.each([
  ["PORT", "HOST", "192.0.2.1"],
  ["ADMIN_PORT", "ADMIN_HOST", "nowhere.invalid"],
] as const)("an address for %s that this machine does not have names %s", async (setting, ofHost, host) => {
  const server = new HttpServer(() => {});
  await expect(server.listen({ host, port: 0, setting })).rejects.toThrow(
    `${host} is not an address of this machine: set ${ofHost} to one, or to 0.0.0.0 for all`,
  );
});

test("a connection without a request since the last check is closed, even if its client sends empty lines", async () => {
  const server = new HttpServer((_request, response) => void response.end());
  onTestFinished(() => server.close());
  await server.listen({ host: "127.0.0.1", port: 0 });
  const url = urlOf({ host: "127.0.0.1", port: server.port });
  const [idle, busy] = [await openRaw(url), await openRaw(url)];
  const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  const answers = (raw: RawSocket) => raw.text.split("HTTP/1.1 200").length - 1;
  for (const raw of [idle, busy]) raw.write(request);
  await expect.poll(() => [answers(idle), answers(busy)]).toEqual([1, 1]);
  server.closeIdle();
  idle.write("\r\n");
  busy.write(request);
  await expect.poll(() => answers(busy)).toBe(2);
  server.closeIdle();
  await expect.poll(() => idle.ended).toBe(true);
  busy.write(request);
  await expect.poll(() => answers(busy)).toBe(3);
});

test("a stop closes idle connections at once, and others after the responses to all that they have sent", async () => {
  const responses: ServerResponse[] = [];
  const server = new HttpServer((_request, response) => void responses.push(response));
  onTestFinished(() => server.close());
  await server.listen({ host: "127.0.0.1", port: 0 });
  const url = urlOf({ host: "127.0.0.1", port: server.port });
  const [idle, busy] = [await openRaw(url), await openRaw(url)];
  busy.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2));
  await expect.poll(() => responses.length).toBe(2);
  const stopped = server.drain(60_000);
  await expect.poll(() => idle.ended).toBe(true);
  responses[0]!.end("first");
  await expect.poll(() => busy.text).toContain("first");
  expect(busy.ended).toBe(false);
  responses[1]!.end("second");
  await stopped;
  await expect.poll(() => busy.ended).toBe(true);
  expect(busy.text).toContain("second");
});

test.each([
  [3, 5000, [3]],
  [10, 5000, [4, 8, 10]],
  [1000, 100, [200, 400, 600, 800, 1000]],
  [50, 0, [50]],
])("%i clients are sent away within %i ms, and few of them sooner", async (count, spread, expected) => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const away: number[] = [];
  const numbers: number[] = [];
  void spreadOut(
    Array.from({ length: count }, (_, i) => i),
    spread,
    (client) => away.push(client),
  );
  for (const _ of expected) {
    numbers.push(away.length);
    await vi.advanceTimersByTimeAsync(20);
  }
  expect(numbers).toEqual(expected);
});
