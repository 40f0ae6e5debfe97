import { fork } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { HttpRequest } from "../case.ts";
import { AnswerReader, bytesOf, type HttpAnswer } from "../http-messages.ts";

export type OpenLoadOptions = {
  readonly address: string;
  /** Sent in turn. */
  readonly requests: readonly HttpRequest[];
  /** Requests per second, whether earlier ones have been answered or not. */
  readonly rate: number;
  /** At most so many requests are open at a time; those beyond are not sent. */
  readonly connections: number;
  readonly seconds: number;
  /** Responses of so many seconds before are not counted: the service may take a burst. */
  readonly settleSeconds?: number;
};

/** Of the responses after the first seconds. Times in milliseconds, from when a request was due. */
export type OpenLoadResult = {
  readonly sentPerSecond: number;
  readonly admittedPerSecond: number;
  readonly admittedP50: number;
  readonly admittedP99: number;
  /** The 99th percentile; 0 if none was refused. */
  readonly refusedP99: number;
  /** The share of the responses that are refusals, from 0 to 1. */
  readonly refused: number;
  /** The first response that is neither 200 nor a refusal with Retry-After; null if there is none. */
  readonly unexpected: string | null;
};

const SETTLE_SECONDS = 5;

/** Sends requests at a fixed rate from a child process. */
export async function applyOpenLoad(options: OpenLoadOptions, signal: AbortSignal): Promise<OpenLoadResult> {
  const worker = fork(fileURLToPath(import.meta.url), { signal });
  const ended = once(worker, "exit");
  worker.send(options);
  const [result] = await Promise.race([once(worker, "message"), ended.then(() => [null])]);
  if (result === null) throw new Error("the load tool ended without a result");
  await ended;
  return result as OpenLoadResult;
}

type Response = { readonly isAdmitted: boolean; readonly milliseconds: number };

async function generate(options: OpenLoadOptions): Promise<OpenLoadResult> {
  const { address, requests, rate, connections, seconds, settleSeconds = SETTLE_SECONDS } = options;
  const all = requests.map((request) => bytesOf(request, address));
  const pool = new SocketPool(new URL(address), connections);
  const responses: Response[] = [];
  let unexpected: string | null = null;
  const start = performance.now();
  const [from, end] = [start + settleSeconds * 1000, start + (settleSeconds + seconds) * 1000];
  let [due, sent] = [0, 0];
  for (let now = start; now < end; now = performance.now()) {
    for (; start + (due / rate) * 1000 <= now; due++) {
      const dueAt = start + (due / rate) * 1000;
      const isSent = pool.send(all[due % all.length]!, (answer) => {
        if (dueAt < from) return;
        const isAdmitted = answer.status === 200;
        if (!isAdmitted && !isRefusal(answer)) unexpected ??= `${answer.status} ${answer.body}`;
        responses.push({ isAdmitted, milliseconds: performance.now() - dueAt });
      });
      if (isSent && dueAt >= from) sent++;
    }
    // Not in a loop without a pause, which would take a core from the service.
    await sleep(1);
  }
  pool.close();
  const times = (isAdmitted: boolean) =>
    responses.filter((each) => each.isAdmitted === isAdmitted).map(({ milliseconds }) => milliseconds);
  const [admitted, refused] = [times(true), times(false)];
  return {
    sentPerSecond: sent / seconds,
    admittedPerSecond: admitted.length / seconds,
    admittedP50: quantileOf(admitted, 0.5),
    admittedP99: quantileOf(admitted, 0.99),
    refusedP99: quantileOf(refused, 0.99),
    refused: refused.length / responses.length,
    unexpected,
  };
}

const isRefusal = ({ status, head }: HttpAnswer) =>
  (status === 503 || status === 429) && /\r\nretry-after: \d/i.test(head);

const quantileOf = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? 0;

type OnAnswer = (answer: HttpAnswer) => void;

/** Connections with at most one request each. */
class SocketPool {
  readonly #target: URL;
  readonly #max: number;
  readonly #free: Socket[] = [];
  readonly #waiting = new Map<Socket, OnAnswer>();
  #open = 0;

  constructor(target: URL, max: number) {
    this.#target = target;
    this.#max = max;
  }

  /** Whether there was a connection for the request. */
  send(bytes: Buffer, onAnswer: OnAnswer): boolean {
    const socket = this.#free.pop() ?? (this.#open < this.#max ? this.#connect() : null);
    if (socket === null) return false;
    this.#waiting.set(socket, onAnswer);
    socket.write(bytes);
    return true;
  }

  close(): void {
    for (const socket of [...this.#free, ...this.#waiting.keys()]) socket.destroy();
  }

  #connect(): Socket {
    this.#open++;
    const socket = connect({ host: this.#target.hostname, port: Number(this.#target.port), noDelay: true });
    const reader = new AnswerReader(KEPT_BYTES);
    socket.on("data", (chunk: Buffer) => {
      const answer = reader.read(chunk);
      if (answer === null) return;
      this.#waiting.get(socket)!(answer);
      this.#waiting.delete(socket);
      this.#free.push(socket);
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      this.#open--;
      this.#waiting.delete(socket);
      const at = this.#free.indexOf(socket);
      if (at >= 0) this.#free.splice(at, 1);
    });
    return socket;
  }
}

/** Of the body of a response that is not expected. */
const KEPT_BYTES = 500;

if (import.meta.main) {
  process.once("message", async (options) => {
    process.send!(await generate(options as OpenLoadOptions));
    process.disconnect();
  });
}
