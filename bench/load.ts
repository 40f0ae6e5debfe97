import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";

export type LoadOptions = {
  readonly url: string;
  readonly token: string;
  /** Sent in turn. */
  readonly bodies: readonly string[];
  readonly connections: number;
  readonly seconds: number;
};

export type LoadResult = {
  readonly requests: number;
  readonly requestsPerSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
};

/** What the worker reports. */
type Outcome = LoadResult & {
  /** What was not the answer one measures: a status other than 200, `errors` or null in the body. */
  readonly failures: number;
  /** The first answer that was not good. */
  readonly failure: string | null;
};

/**
 * Applies load from a process of its own, so that the tool's work is not in our numbers. Throws when an answer was not
 * good: such numbers would be worth nothing.
 */
export async function applyLoad(options: LoadOptions, signal?: AbortSignal): Promise<LoadResult> {
  const worker = fork(fileURLToPath(import.meta.url), { ...(signal && { signal }) });
  worker.send(options);
  const [answer] = await Promise.race([once(worker, "message"), once(worker, "exit").then(() => [null])]);
  if (answer === null) throw new Error("the load tool has ended without a result");
  const { failures, failure, ...result } = answer as Outcome;
  if (failures === 0) return result;
  throw new Error(`${failures} of ${result.requests} answers of ${options.url} were not good: ${failure}`);
}

/**
 * Keeps `connections` busy for `seconds`, each asking again as soon as it was answered. On bare sockets with requests
 * that are bytes already: a load tool that takes as much of the cores as the server does would hide differences.
 */
async function generate({ url, token, bodies, connections, seconds }: LoadOptions): Promise<Outcome> {
  const requests = bodies.map((body) => requestOf(new URL(url), token, body));
  const times: number[] = [];
  const failures: string[] = [];
  const start = performance.now();
  const end = start + seconds * 1000;
  let next = 0;
  const ask = () => (performance.now() < end ? requests[next++ % requests.length]! : null);
  const hear = (milliseconds: number, failure: string | null) => {
    times.push(milliseconds);
    if (failure !== null) failures.push(failure);
  };
  await Promise.all(Array.from({ length: connections }, () => converse(new URL(url), ask, hear)));
  const took = performance.now() - start;
  times.sort((a, b) => a - b);
  return {
    requests: times.length,
    requestsPerSecond: (times.length / took) * 1000,
    p50: times[Math.floor(times.length * 0.5)] ?? Number.NaN,
    p99: times[Math.floor(times.length * 0.99)] ?? Number.NaN,
    failures: failures.length,
    failure: failures[0] ?? null,
  };
}

function requestOf({ host, pathname }: URL, token: string, body: string): Buffer {
  const head = [
    `POST ${pathname} HTTP/1.1`,
    `Host: ${host}`,
    "Content-Type: application/json",
    "Accept: application/json",
    `Authorization: Bearer ${token}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`);
}

type Ask = () => Buffer | null;
type Hear = (milliseconds: number, failure: string | null) => void;

/** One connection, from its first request until `ask` has no more; rejects when the server hangs up before. */
function converse({ hostname, port }: URL, ask: Ask, hear: Hear): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    let asked = 0;
    let received: Buffer = Buffer.alloc(0);
    const proceed = () => {
      const request = ask();
      if (request === null) return leave(socket, resolve);
      asked = performance.now();
      socket.write(request);
    };
    socket.on("connect", proceed);
    socket.on("data", (chunk: Buffer) => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      const answer = answerIn(received);
      if (answer === null) return;
      received = Buffer.alloc(0);
      hear(performance.now() - asked, isGood(answer) ? null : answer.slice(0, 500));
      proceed();
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the server has hung up")));
  });
}

function leave(socket: Socket, resolve: () => void): void {
  socket.removeAllListeners("close");
  socket.destroy();
  resolve();
}

/** The status line and the body, once the whole answer is there. */
function answerIn(bytes: Buffer): string | null {
  const end = bytes.indexOf("\r\n\r\n");
  if (end === -1) return null;
  const head = bytes.toString("latin1", 0, end);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined) throw new Error(`an answer without Content-Length: ${head}`);
  if (bytes.length < end + 4 + Number(length)) return null;
  return `${head.slice(0, head.indexOf("\r\n"))}\n${bytes.toString("utf8", end + 4)}`;
}

/** No operation of the bench answers null anywhere. */
const isGood = (answer: string) =>
  answer.startsWith('HTTP/1.1 200 OK\n{"data":') && !answer.includes('"errors"') && !answer.includes(":null");

if (import.meta.main) {
  process.once("message", async (options) => {
    process.send!(await generate(options as LoadOptions));
    process.disconnect();
  });
}
