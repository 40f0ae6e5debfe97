import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { type Expected, type HttpRequest, isGood } from "./case.ts";
import { AnswerReader, bytesOf, type HttpAnswer, numbered } from "./http-messages.ts";
import { applyWrk, fitsWrk } from "./wrk.ts";

export type LoadOptions = Expected & {
  /** The base URL of the requests. */
  readonly address: string;
  /** Sent in turn. */
  readonly requests: readonly HttpRequest[];
  readonly connections: number;
  readonly seconds: number;
  /** Whether requests that are under way at the end are awaited, which wrk does not do. */
  readonly isSlow?: boolean | undefined;
};

export type LoadResult = {
  readonly requests: number;
  readonly requestsPerSecond: number;
  /** Milliseconds, without background requests; null if unknown. */
  readonly p50: number | null;
  readonly p99: number | null;
};

/** The report of the worker process. */
type Outcome = LoadResult & {
  /** The number of unexpected responses. */
  readonly failures: number;
  /** The first of them. */
  readonly failure: string | null;
};

/**
 * Applies load from a child process, so that the work of the tool does not count for the server: with wrk where it is
 * installed and fits, otherwise with a tool of our own. Throws after an unexpected response, because the numbers would be
 * meaningless.
 */
export const applyLoad = (options: LoadOptions, signal?: AbortSignal): Promise<LoadResult> =>
  fitsWrk(options) ? applyWrk(options, signal) : applyOwnTool(options, signal);

/** Resolves after the process of the tool has ended, so that its CPU time can be read. */
async function applyOwnTool(options: LoadOptions, signal?: AbortSignal): Promise<LoadResult> {
  const worker = fork(fileURLToPath(import.meta.url), { ...(signal && { signal }) });
  const ended = once(worker, "exit");
  worker.send(options);
  const [answer] = await Promise.race([once(worker, "message"), ended.then(() => [null])]);
  if (answer === null) throw new Error("the load tool ended without a result");
  await ended;
  const { failures, failure, ...result } = answer as Outcome;
  if (failures === 0) return result;
  throw new Error(`${failures} of ${result.requests} responses of ${options.address} were not as expected: ${failure}`);
}

/** A request as bytes. */
type WireRequest = { readonly bytes: Buffer; readonly isBackground: boolean; readonly expected: Expected };

/**
 * Keeps `connections` busy for `seconds`; each sends the next request after a response. It uses bare sockets and
 * requests that are already bytes: a load tool that uses as much CPU as the server would hide differences.
 */
async function generate(options: LoadOptions): Promise<Outcome> {
  const { address, requests, connections, seconds } = options;
  const wireRequests = requests.map((request) => ({
    bytes: bytesOf(request, address),
    isBackground: request.isBackground === true,
    expected: { refused: options.refused, status: request.status ?? options.status },
  }));
  const times: number[] = [];
  const failures: string[] = [];
  const start = performance.now();
  const end = start + seconds * 1000;
  let [asked, answered] = [0, 0];
  const ask = () => (performance.now() < end ? wireRequests[asked++ % wireRequests.length]! : null);
  const hear = (milliseconds: number, { isBackground, expected }: WireRequest, answer: HttpAnswer) => {
    answered++;
    if (!isBackground) times.push(milliseconds);
    if (!isGood(answer, expected)) failures.push(`${answer.status} ${answer.body.slice(0, 500)}`);
  };
  const keep = options.refused.length > 0 ? SEARCHED_BYTES : SHOWN_BYTES;
  const target = new URL(address);
  await Promise.all(Array.from({ length: connections }, () => loadConnection(target, keep, ask, hear)));
  const took = performance.now() - start;
  times.sort((a, b) => a - b);
  return {
    requests: answered,
    requestsPerSecond: (answered / took) * 1000,
    p50: times[Math.floor(times.length * 0.5)] ?? null,
    p99: times[Math.floor(times.length * 0.99)] ?? null,
    failures: failures.length,
    failure: failures[0] ?? null,
  };
}

/** Bytes to keep of a body that is searched for `refused`, and of a body that is only shown in an error. */
const SEARCHED_BYTES = 1_000_000;
const SHOWN_BYTES = 500;

type Ask = () => WireRequest | null;
type Hear = (milliseconds: number, request: WireRequest, answer: HttpAnswer) => void;

/** Sends requests on one connection until `ask` returns null. Rejects if the server closes it before. */
function loadConnection({ hostname, port }: URL, keep: number, ask: Ask, hear: Hear): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    const reader = new AnswerReader(keep);
    let request: WireRequest | null = null;
    let asked = 0;
    const proceed = () => {
      request = ask();
      if (request === null) return leave(socket, resolve);
      asked = performance.now();
      socket.write(numbered(request.bytes));
    };
    socket.on("connect", proceed);
    socket.on("data", (chunk: Buffer) => {
      const answer = reader.read(chunk);
      if (answer === null) return;
      hear(performance.now() - asked, request!, answer);
      proceed();
    });
    socket.on("error", reject);
    socket.on("close", () => reject(new Error("the server closed the connection")));
  });
}

function leave(socket: Socket, resolve: () => void): void {
  socket.removeAllListeners("close");
  socket.destroy();
  resolve();
}

if (import.meta.main) {
  process.once("message", async (options) => {
    process.send!(await generate(options as LoadOptions));
    process.disconnect();
  });
}
