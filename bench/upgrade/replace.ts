import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { ANON_KEY } from "../credentials.ts";
import { AnswerReader } from "../http-messages.ts";
import { ourCommand } from "../servers.ts";

/** What is replaced, and under which load. */
export type Plan = {
  readonly databaseUrl: string;
  readonly takeover: string;
  /** The settings of each version, which takes over from the one before it. */
  readonly versions: readonly Readonly<Record<string, string>>[];
  /** Requested with GET. */
  readonly path: string;
  /** Requests per second. Each fourth has a connection of its own; the others share connections that stay open. */
  readonly rate: number;
  /** Maximum number of requests at once: on a slow machine, further ones are sent later. */
  readonly concurrency: number;
  /** WebSockets that connect again when they are closed. */
  readonly sockets: number;
  /** Milliseconds of load before, between and after the replacements. */
  readonly pause: number;
};

export type Outcome = {
  readonly sent: number;
  /** Requests per second that were sent. */
  readonly rate: number;
  /** Number of requests by status, or by the code of the error. */
  readonly answers: Readonly<Record<string, number>>;
  /** Milliseconds from when a request was due to the end of its response. */
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** Number of closed WebSockets by code. */
  readonly closed: Readonly<Record<string, number>>;
  /** WebSockets that are open at the end. */
  readonly open: number;
  /** The most WebSockets that were closed within 100 ms. */
  readonly burst: number;
  /** How each service has ended: 0 is a clean end. */
  readonly exitCodes: readonly (number | string)[];
};

const PORT = 3000;
const TICK = 5;
const requestOf = (path: string, headers = "") =>
  Buffer.from(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${headers}\r\n`);

/** A connection on which one request runs at a time. */
class Connection {
  readonly #socket: Socket;
  readonly #reader = new AnswerReader(0);
  #answered: ((answer: string) => void) | null = null;
  isOpen = true;

  constructor() {
    this.#socket = connect({ host: "127.0.0.1", port: PORT, noDelay: true });
    this.#socket.on("data", (bytes) => this.#read(bytes));
    this.#socket.on("error", (error: NodeJS.ErrnoException) => this.#end(error.code ?? error.message));
    this.#socket.on("close", () => this.#end("closed"));
  }

  /** Resolves to the status, or to the code of the error. */
  send(bytes: Buffer): Promise<string> {
    return new Promise((resolve) => {
      this.#answered = resolve;
      this.#socket.write(bytes);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(bytes: Buffer): void {
    const answer = this.#reader.read(bytes);
    if (answer === null) return;
    // The client must not send another request.
    if (/\r\nconnection: close/i.test(answer.head)) {
      this.isOpen = false;
      this.#socket.end();
    }
    this.#answer(String(answer.status));
  }

  #end(reason: string): void {
    this.isOpen = false;
    this.#answer(reason);
  }

  #answer(answer: string): void {
    const answered = this.#answered;
    this.#answered = null;
    answered?.(answer);
  }
}

/** Counts answers to requests that are sent at a constant rate, however slow the answers are. */
class Load {
  sent = 0;
  readonly answers: Record<string, number> = {};
  readonly #times: number[] = [];
  /** Used in turn: one that stays idle keeps the previous version for as long as it was announced. */
  #idle: Connection[] = [];
  readonly #running = new Set<Promise<void>>();
  readonly #request: Buffer;
  readonly #lastRequest: Buffer;
  readonly #rate: number;
  readonly #concurrency: number;
  readonly #timer: NodeJS.Timeout;
  readonly #begin = performance.now();

  constructor({ path, rate, concurrency }: Pick<Plan, "path" | "rate" | "concurrency">) {
    this.#request = requestOf(path);
    this.#lastRequest = requestOf(path, "Connection: close\r\n");
    this.#rate = rate;
    this.#concurrency = concurrency;
    this.#timer = setInterval(() => this.#sendDue(), TICK);
  }

  async stop() {
    clearInterval(this.#timer);
    await Promise.all(this.#running);
    for (const connection of this.#idle) connection.close();
    const sorted = this.#times.sort((a, b) => a - b);
    const at = (share: number) => Math.round(sorted[Math.floor(share * (sorted.length - 1))]! * 10) / 10;
    const rate = Math.round((this.sent * 1000) / (performance.now() - this.#begin));
    return { sent: this.sent, rate, answers: this.answers, p50: at(0.5), p99: at(0.99), max: at(1) };
  }

  #sendDue(): void {
    const due = () => this.#begin + (this.sent * 1000) / this.#rate;
    for (const now = performance.now(); due() <= now && this.#running.size < this.#concurrency; ) {
      const answered: Promise<void> = this.#send(due()).finally(() => this.#running.delete(answered));
      this.#running.add(answered);
    }
  }

  async #send(due: number): Promise<void> {
    const isAlone = this.sent++ % 4 === 0;
    const connection = (isAlone ? null : this.#takeIdle()) ?? new Connection();
    const answer = await connection.send(isAlone ? this.#lastRequest : this.#request);
    this.answers[answer] = (this.answers[answer] ?? 0) + 1;
    this.#times.push(performance.now() - due);
    if (connection.isOpen) this.#idle.push(connection);
  }

  #takeIdle(): Connection | null {
    this.#idle = this.#idle.filter(({ isOpen }) => isOpen);
    return this.#idle.shift() ?? null;
  }
}

/** Clients that connect again when they are sent away. */
class Sockets {
  readonly closed: Record<string, number> = {};
  readonly #open = new Set<WebSocket>();
  readonly #times: number[] = [];
  #isStopped = false;

  constructor(count: number) {
    for (let i = 0; i < count; i++) this.#connect();
  }

  /** The clients are as many as at the beginning. */
  async untilOpen(count: number): Promise<void> {
    while (this.#open.size < count) await sleep(TICK);
  }

  stop() {
    this.#isStopped = true;
    const open = this.#open.size;
    for (const socket of this.#open) socket.terminate();
    const burst = Math.max(0, ...this.#times.map((t) => this.#times.filter((u) => u >= t && u < t + 100).length));
    return { closed: this.closed, open, burst };
  }

  #connect(): void {
    const socket = new WebSocket(`ws://127.0.0.1:${PORT}/realtime/v1/websocket?apikey=${ANON_KEY}`);
    socket.once("open", () => this.#open.add(socket));
    socket.on("error", () => {});
    socket.once("close", (code) => {
      this.#open.delete(socket);
      if (this.#isStopped) return;
      this.closed[code] = (this.closed[code] ?? 0) + 1;
      this.#times.push(performance.now());
      this.#connect();
    });
  }
}

type Version = { readonly child: ChildProcess; readonly ended: Promise<number | string> };

/** Resolves when the service has taken over. */
async function startVersion({ databaseUrl, takeover, versions }: Plan, index: number): Promise<Version> {
  const database = { ownerUrl: databaseUrl, dataUrl: databaseUrl };
  const { file, args, environment } = ourCommand(database, PORT, { TAKEOVER: takeover, ...versions[index] });
  const child = spawn(file, args, { env: environment, stdio: ["ignore", "pipe", "inherit"] });
  process.once("exit", () => child.kill("SIGKILL"));
  const ended = once(child, "exit").then(([code, signal]) => code ?? signal);
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text) => {
    output += text;
  });
  const hasEnded = ended.then(() => true);
  while (!output.includes("/health")) {
    if ((await Promise.race([hasEnded, once(child.stdout, "data")])) === true)
      throw new Error(`not started: ${output}`);
  }
  return { child, ended };
}

async function run(plan: Plan): Promise<Outcome> {
  const versions = [await startVersion(plan, 0)];
  const sockets = new Sockets(plan.sockets);
  await sockets.untilOpen(plan.sockets);
  const load = new Load(plan);
  for (let i = 1; i < plan.versions.length; i++) {
    await sleep(plan.pause);
    const previous = versions.at(-1)!;
    versions.push(await startVersion(plan, i));
    await previous.ended;
  }
  await sleep(plan.pause);
  const answers = await load.stop();
  await sockets.untilOpen(plan.sockets);
  const closed = sockets.stop();
  versions.at(-1)!.child.kill("SIGTERM");
  return { ...answers, ...closed, exitCodes: await Promise.all(versions.map(({ ended }) => ended)) };
}

/** Prints the outcome of the plan in its argument. */
process.once("SIGTERM", () => process.exit(1));
process.stdout.write(JSON.stringify(await run(JSON.parse(process.argv[2]!))));
