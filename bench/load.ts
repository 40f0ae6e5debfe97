import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { type Expected, type HttpRequest, isGood } from "./case.ts";
import { AnswerReader, bytesOf, type HttpAnswer, numbered } from "./http-messages.ts";

export type LoadOptions = Expected & {
  /** What the paths of the requests follow. */
  readonly address: string;
  /** Sent in turn. */
  readonly requests: readonly HttpRequest[];
  readonly connections: number;
  readonly seconds: number;
};

export type LoadResult = {
  readonly requests: number;
  readonly requestsPerSecond: number;
  /** Milliseconds, without those in the background; null where they are not known. */
  readonly p50: number | null;
  readonly p99: number | null;
};

/** What the worker reports. */
type Outcome = LoadResult & {
  /** Answers that were not good. */
  readonly failures: number;
  /** The first of them. */
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
  throw new Error(`${failures} of ${result.requests} answers of ${options.address} were not good: ${failure}`);
}

/** A request as it goes over the wire. */
type Shot = { readonly bytes: Buffer; readonly isBackground: boolean };

/**
 * Keeps `connections` busy for `seconds`, each asking again as soon as it was answered. On bare sockets with requests
 * that are bytes already: a load tool that takes as much of the cores as the server does would hide differences.
 */
async function generate(options: LoadOptions): Promise<Outcome> {
  const { address, requests, connections, seconds } = options;
  const shots = requests.map((request) => ({
    bytes: bytesOf(request, address),
    isBackground: request.isBackground === true,
  }));
  const times: number[] = [];
  const failures: string[] = [];
  const start = performance.now();
  const end = start + seconds * 1000;
  let [asked, answered] = [0, 0];
  const ask = () => (performance.now() < end ? shots[asked++ % shots.length]! : null);
  const hear = (milliseconds: number, { isBackground }: Shot, answer: HttpAnswer) => {
    answered++;
    if (!isBackground) times.push(milliseconds);
    if (!isGood(answer, options)) failures.push(`${answer.status} ${answer.body.slice(0, 500)}`);
  };
  const keep = options.refused.length > 0 ? SEARCHED_BYTES : SHOWN_BYTES;
  const target = new URL(address);
  await Promise.all(Array.from({ length: connections }, () => converse(target, keep, ask, hear)));
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

/** What is kept of a body in which `refused` is looked for, and of another, which only its failure shows. */
const SEARCHED_BYTES = 1_000_000;
const SHOWN_BYTES = 500;

type Ask = () => Shot | null;
type Hear = (milliseconds: number, shot: Shot, answer: HttpAnswer) => void;

/** One connection, from its first request until `ask` has no more; rejects when the server hangs up before. */
function converse({ hostname, port }: URL, keep: number, ask: Ask, hear: Hear): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    const reader = new AnswerReader(keep);
    let shot: Shot | null = null;
    let asked = 0;
    const proceed = () => {
      shot = ask();
      if (shot === null) return leave(socket, resolve);
      asked = performance.now();
      socket.write(numbered(shot.bytes));
    };
    socket.on("connect", proceed);
    socket.on("data", (chunk: Buffer) => {
      const answer = reader.read(chunk);
      if (answer === null) return;
      hear(performance.now() - asked, shot!, answer);
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

if (import.meta.main) {
  process.once("message", async (options) => {
    process.send!(await generate(options as LoadOptions));
    process.disconnect();
  });
}
