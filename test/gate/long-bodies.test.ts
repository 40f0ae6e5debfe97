import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { readBytes } from "../../gate/pipeline/body.ts";
import { POLL } from "../support/until.ts";

/** As much as the kernel keeps for a server that does not read yet. */
const BYTES = 2_000_000;

/** What a server reads of a body in each turn of the event loop, if all of it was sent before. */
async function readingOf(maxBytes: number) {
  const turns: number[] = [];
  const received: Promise<Buffer>[] = [];
  const listener = (request: IncomingMessage) => {
    const { socket } = request;
    let before = socket.bytesRead;
    const note = () => {
      turns.push(socket.bytesRead - before);
      before = socket.bytesRead;
      if (!socket.destroyed) setImmediate(note);
    };
    note();
    received.push(readBytes(request, maxBytes));
    received.at(-1)!.catch(() => {});
  };
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(socket, "connect");
  socket.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  await expect.poll(() => received.length, POLL).toBe(1);
  socket.write(`${BYTES.toString(16)}\r\n`);
  socket.write(Buffer.alloc(BYTES, "a"));
  socket.end("\r\n0\r\n\r\n");
  return { turns, body: received[0]! };
}

const sum = (numbers: readonly number[]) => numbers.reduce((all, each) => all + each, 0);

test("a long body is read in parts, so that other work is done between them", async () => {
  const { turns, body } = await readingOf(BYTES);
  expect((await body).equals(Buffer.alloc(BYTES, "a"))).toBe(true);
  await turn();
  expect(sum(turns)).toBeGreaterThanOrEqual(BYTES);
  expect(Math.max(...turns)).toBeLessThanOrEqual(262_144);
});

test("and so is the rest of one that is too long", async () => {
  const { turns, body } = await readingOf(100_000);
  await expect(body).rejects.toMatchObject({ reason: "body too large" });
  await expect.poll(() => sum(turns), POLL).toBeGreaterThanOrEqual(BYTES);
  expect(Math.max(...turns)).toBeLessThanOrEqual(262_144);
});

/** Sends a part of a body; `end` does the rest. Resolves to what has arrived, when it has. */
async function chunksOf(maxBytes: number, end: (socket: Socket) => void) {
  const chunks: Buffer[] = [];
  const body = Promise.withResolvers<Buffer>();
  body.promise.catch(() => {});
  const server = createServer((request) => {
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    readBytes(request, maxBytes).then(body.resolve, body.reject);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${BYTES + 1}\r\n\r\n`);
  socket.write(Buffer.alloc(BYTES, "a"));
  await expect.poll(() => chunks.length, POLL).toBeGreaterThan(1);
  end(socket);
  return { chunks, body: body.promise };
}

const areFree = (chunks: readonly Buffer[]) => chunks.every(({ length }) => length === 0);

describe("the chunks of a long body are freed", () => {
  test("when it is complete", async () => {
    const { chunks, body } = await chunksOf(BYTES + 1, (socket) => socket.write("b"));
    expect((await body).equals(Buffer.from(`${"a".repeat(BYTES)}b`))).toBe(true);
    expect(areFree(chunks)).toBe(true);
  });

  test("when its client disconnects", async () => {
    const { chunks, body } = await chunksOf(BYTES + 1, (socket) => socket.destroy());
    await expect(body).rejects.toThrow();
    await expect.poll(() => areFree(chunks), POLL).toBe(true);
  });
});

test("a body takes only the memory of what has arrived, and becomes one text in several turns", async () => {
  const size = 16_000_000;
  const sent = Buffer.from(Array.from({ length: size / 8 }, (_, i) => String(i).padStart(8, "0")).join(""));
  const { promise: received, resolve } = Promise.withResolvers<[IncomingMessage, Promise<Buffer>]>();
  const server = createServer((request) => resolve([request, readBytes(request, size)])).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  const before = process.memoryUsage().arrayBuffers;
  socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${size}\r\n\r\n`);
  socket.write(sent.subarray(0, 100_000));
  const [request, body] = await received;
  await expect.poll(() => socket.bytesWritten, POLL).toBeGreaterThan(100_000);
  for (let i = 0; i < 50; i++) await turn();
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);

  socket.write(sent.subarray(100_000));
  await once(request, "end");
  let turns = 0;
  let isWhole = false;
  const whole = body.finally(() => {
    isWhole = true;
  });
  for (; !isWhole; turns++) await turn();
  expect((await whole).equals(sent)).toBe(true);
  expect(turns).toBeGreaterThan(20);
});

test("a body in parts of few bytes keeps its order, and takes little more memory than its text", async () => {
  const texts = Array.from({ length: 40_000 }, (_, i) =>
    i % 7000 === 0 ? `${i} long `.repeat(i === 0 ? 1000 : 4000) : String(i % 10),
  );
  const { promise, resolve } = Promise.withResolvers<[Promise<Buffer>]>();
  const server = createServer((request) => resolve([readBytes(request, 10_000_000)])).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  const [body] = await promise;
  const copied = vi.spyOn(Buffer, "allocUnsafeSlow");
  onTestFinished(() => copied.mockRestore());
  socket.write(`${texts.map((text) => `${text.length.toString(16)}\r\n${text}\r\n`).join("")}0\r\n\r\n`);
  expect((await body).toString()).toBe(texts.join(""));
  // One for each 16 kB, and the whole.
  expect(copied.mock.calls.length).toBeLessThan(25);
  expect(copied.mock.calls.length).toBeGreaterThan(2);
});
