import { once } from "node:events";
import { Agent, type IncomingMessage, type RequestOptions, request, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { describe, expect, onTestFinished, test } from "vitest";
import { readToEnd } from "../../gate/pipeline/body.ts";
import { HttpServer, urlOf } from "../../gate/process/server.ts";
import { sendInProcess } from "../../parts/console/in-process.ts";
import { useService } from "../support/http-client.ts";
import { openRaw } from "../support/raw-socket.ts";
import { POLL } from "../support/until.ts";

const MB = 1_000_000;
const { service } = useService({ restBodyLimit: 1_000_000 });
const limited = useService({ restBodyLimit: 1_000_000, RATE_LIMIT: "1" });

type Sent = { readonly method: string; readonly path: string; readonly headers: Readonly<Record<string, string>> };
/** Sends a body of so many bytes, and reads the whole response. Rejects if the client sees any error. */
type Sender = (url: string, sent: Sent, bytes: number) => Promise<number>;

function* chunksOf(bytes: number): Generator<Buffer> {
  for (let sent = 0; sent < bytes; sent += 65_536) yield Buffer.alloc(Math.min(65_536, bytes - sent), " ");
}

const withFetch =
  (bodyOf: (bytes: number) => Uint8Array | ReadableStream): Sender =>
  async (url, { path, ...sent }, bytes) => {
    const response = await fetch(`${url}${path}`, { ...sent, body: bodyOf(bytes), duplex: "half" } as RequestInit);
    await response.text();
    return response.status;
  };

const withNode =
  (options: RequestOptions & { readonly isChunked?: boolean; readonly waits?: boolean } = {}): Sender =>
  async (url, { headers, ...sent }, bytes) => {
    const { isChunked = false, waits = false, ...rest } = options;
    const all = {
      ...headers,
      ...(!isChunked && { "Content-Length": bytes }),
      ...(waits && { Expect: "100-continue" }),
    };
    const sending = request(url, { ...rest, ...sent, headers: all });
    const errors: Error[] = [];
    sending.on("error", (error) => errors.push(error));
    const response = once(sending, "response") as Promise<[IncomingMessage]>;
    if (waits) await Promise.race([once(sending, "continue"), response]);
    const isSent = once(sending, "close");
    // Not with pipe: after the response, a ClientRequest of Node emits no `drain`.
    for (const chunk of isChunked ? chunksOf(bytes) : [Buffer.alloc(bytes, " ")]) sending.write(chunk);
    sending.end();
    const [received] = await response;
    await received.toArray();
    await isSent;
    expect(errors).toEqual([]);
    return received.statusCode!;
  };

const keepAlive = new Agent({ keepAlive: true });
const SENDERS: readonly (readonly [name: string, sender: Sender])[] = [
  ["fetch", withFetch((bytes) => new Uint8Array(bytes).fill(32))],
  ["fetch with a stream", withFetch((bytes) => Readable.toWeb(Readable.from(chunksOf(bytes))) as ReadableStream)],
  ["node:http", withNode({ agent: keepAlive })],
  ["node:http in chunks", withNode({ agent: keepAlive, isChunked: true })],
  ["node:http with Connection: close", withNode({ agent: false })],
  ["node:http in chunks with Connection: close", withNode({ agent: false, isChunked: true })],
  ["node:http with Expect: 100-continue", withNode({ agent: keepAlive, waits: true })],
  ["node:http with Expect: 100-continue and Connection: close", withNode({ agent: false, waits: true })],
];

const JSON_TYPE = { "Content-Type": "application/json" };
const key = () => ({ ...JSON_TYPE, apikey: service().service.tokens.issueKey("anon") });
const bad = () => ({ ...JSON_TYPE, apikey: "none", Authorization: "Bearer none" });

describe.each(SENDERS)("%s reads why a body of 10 MB is refused:", (_name, send) => {
  test.each<[number, string, () => Record<string, string>]>([
    [413, "POST /rest/v1/articles", key],
    [413, "POST /graphql", key],
    [413, "POST /users", key],
    [413, "POST /auth/login", key],
    [413, "POST /auth/v1/signup", key],
    [413, "POST /realtime/v1/api/broadcast", key],
    [401, "POST /rest/v1/articles", bad],
    [401, "POST /articles", () => ({ ...JSON_TYPE, Authorization: "Bearer none" })],
    [404, "POST /nothing", key],
    [405, "PUT /graphql", key],
    [415, "POST /graphql", () => ({ ...key(), "Content-Type": "text/plain" })],
    [415, "POST /rest/v1/articles", () => ({ ...key(), "Content-Encoding": "gzip" })],
  ])("%i to %s", async (status, route, headers) => {
    const [method = "", path = ""] = route.split(" ");
    expect(await send(service().url, { method, path, headers: headers() }, 10 * MB)).toBe(status);
  });

  test("429 to POST /rest/v1/articles", async () => {
    const sent = { method: "POST", path: "/rest/v1/articles", headers: key() };
    await send(limited.service().url, sent, 1);
    expect(await send(limited.service().url, sent, 10 * MB)).toBe(429);
  });
});

test.each(SENDERS)("%s reads why a body of 60 MB is refused", async (_name, send) => {
  expect(await send(service().url, { method: "POST", path: "/rest/v1/articles", headers: key() }, 60 * MB)).toBe(413);
});

test("a connection whose client sent more than the limit is used again", async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const ports = new Set<number | undefined>();
  agent.on("free", ({ localPort }) => ports.add(localPort));
  for (const _ of [1, 2]) {
    const sent = { method: "POST", path: "/rest/v1/articles", headers: key() };
    expect(await withNode({ agent })(service().url, sent, 20 * MB)).toBe(413);
  }
  await expect.poll(() => ports.size, POLL).toBe(1);
});

test.each(["keep-alive", "close"])("a client that never ends is cut off, with Connection: %s", async (connection) => {
  const raw = await openRaw(service().url);
  const head = ["POST /nothing HTTP/1.1", "Host: a", `Connection: ${connection}`, "Transfer-Encoding: chunked"];
  raw.write(`${head.join("\r\n")}\r\n\r\n`);
  const part = Buffer.concat([Buffer.from("100000\r\n"), Buffer.alloc(0x100000, " "), Buffer.from("\r\n")]);
  const closed = once(raw.socket, "close").catch(() => {});
  let sent = 0;
  while (!raw.socket.destroyed && sent < 500) {
    sent++;
    if (!raw.socket.write(part)) await Promise.race([once(raw.socket, "drain").catch(() => {}), closed]);
  }
  expect(raw.text).toMatch(/^HTTP\/1.1 404 /);
  expect(sent).toBeLessThan(200);
});

test("a client that sends nothing more is cut off, without a second response", async () => {
  const server = new HttpServer((incoming, response) => {
    readToEnd(incoming, response);
    response.writeHead(413, { "Content-Length": 0 }).end();
  });
  onTestFinished(() => server.close());
  Object.assign(server.node, { requestTimeout: 1 });
  await server.listen({ host: "127.0.0.1", port: 0 });
  const raw = await openRaw(urlOf({ host: "127.0.0.1", port: server.port }));
  raw.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nx");
  await expect.poll(() => raw.ended, POLL).toBe(true);
  expect(raw.text.match(/HTTP\/1.1 \d+/g)).toEqual(["HTTP/1.1 413"]);
});

test("a connection inside the process survives a body that arrives after the response", async () => {
  const read: Promise<unknown>[] = [];
  const listener = (incoming: IncomingMessage, response: ServerResponse) => {
    read.push(once(incoming, "end"));
    readToEnd(incoming, response);
    response.writeHead(413, { Connection: "close" }).end();
  };
  const sent = { method: "POST", path: "/", headers: {}, body: " ".repeat(MB) };
  expect(await sendInProcess(listener, sent, { size: MB, timeout: POLL.timeout })).toMatchObject({ status: 413 });
  await Promise.all(read);
});
