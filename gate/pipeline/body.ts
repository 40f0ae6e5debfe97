import type { IncomingMessage, ServerResponse } from "node:http";
import type { z } from "zod";
import type { Config } from "../../config/config.ts";
import { describeFault } from "../../config/config-error.ts";
import type { Holding } from "../../db/admission/byte-budget.ts";
import { parseNoting } from "../../db/exact-numbers.ts";
import { type Problem, problem } from "../../problems/problem.ts";
import { Bulk, discard, free } from "../limits/bulk.ts";
import type { HttpLimits } from "../limits.ts";
import { type Exchange, exchangeOf } from "./exchange.ts";
import { InvalidJson, parseJsonText } from "./json-text.ts";

export type BodyLimits = Pick<Config, "bodyLimit"> & Pick<HttpLimits, "jsonMaxDepth">;

/**
 * Reads the body of a request as JSON. Throws Problem: 413 above the size, 415 for anything but application/json in UTF-8,
 * 400 for invalid JSON and for brackets that are nested too deeply.
 */
export async function readJson(request: IncomingMessage, limits: BodyLimits): Promise<unknown> {
  refuseMediaType(request);
  return parseJson(await readBytes(request, limits.bodyLimit), limits.jsonMaxDepth);
}

export function parseJson(bytes: Buffer, maxDepth: number): unknown {
  try {
    return parseJsonText(bytes, maxDepth, parseNoting);
  } catch (error) {
    if (error instanceof InvalidJson) throw problem("invalid request", { message: error.message });
    throw error;
  }
}

/**
 * Parses a value whose shape is fixed, `whole` for messages. Throws what `refuse` makes of the first fault, such as
 * `extensions.after must be a string` or `the body must be an object`.
 */
export function parseShape<T>(shape: z.ZodType<T>, value: unknown, whole: string, refuse: (fault: string) => Error): T {
  const { data, error } = shape.safeParse(value);
  if (error) throw refuse(describeFault(error, whole));
  return data;
}

function refuseMediaType(request: IncomingMessage): void {
  const type = request.headers["content-type"];
  const isJson = type !== undefined && /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type.trim());
  if (!isJson) throw problem("unsupported body", { message: wrongMediaType(type) });
}

/** The message for a media type other than JSON. */
export const wrongMediaType = (type: string | undefined): string =>
  type === undefined
    ? "the request has no Content-Type: send Content-Type: application/json"
    : "the body must be sent as Content-Type: application/json";

/** A body of so many bytes is not refused: an ordinary request waits for its turn at the database instead. */
const SMALL = 16_384;

/** Undefined if the body is not counted, also because the request has not passed the pipeline. */
const countingOf = (request: IncomingMessage) => (exchangeOf(request) as Exchange | undefined)?.counting;

/** What the body of this request holds; null if it is not counted. */
function holdingOf(request: IncomingMessage): Holding | null {
  const counting = countingOf(request);
  if (!counting) return null;
  const { budget, identity, response } = counting;
  const holding = budget.hold(identity.network, "bodies", response);
  if (response.destroyed) holding.close();
  response.once("close", () => holding.close());
  return holding;
}

/**
 * Throws Problem: 413 above `maxSize` bytes, 415 for a compressed body, 429 if the clients of the network make the service hold too
 * much, 401 if the credentials of the request were revoked before its body was complete.
 */
export async function readBytes(request: IncomingMessage, mostBytes: number): Promise<Buffer> {
  const bytes = await receive(request, mostBytes);
  await countingOf(request)?.identity.recheck();
  return bytes;
}

function receive(request: IncomingMessage, mostBytes: number): Promise<Buffer> {
  const maxSize = Math.min(mostBytes, countingOf(request)?.budget.share ?? mostBytes);
  if (request.headers["content-encoding"] !== undefined)
    return Promise.reject(problem("unsupported body", { message: "the body must be sent without Content-Encoding" }));
  if (Number(request.headers["content-length"] ?? 0) > maxSize) {
    discardRest(request);
    return Promise.reject(problem("body too large", { size: maxSize }));
  }
  return new Promise((resolve, reject) => {
    const parts = new BodyParts();
    const chunks = parts.all;
    let size = 0;
    /** Whether the body is complete or refused: its memory is no longer freed here. */
    let isOver = false;
    const holding = holdingOf(request);
    const giveUp = (error: Error) => {
      if (isOver) return;
      isOver = true;
      for (const chunk of chunks) free(chunk);
      reject(error);
    };
    const refuse = (error: Problem) => {
      request.removeAllListeners("data");
      giveUp(error);
      holding?.close();
      discardRest(request);
    };
    request.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > maxSize) refuse(problem("body too large", { size: maxSize }));
      else if (size > SMALL && holding?.take(chunk.length) === false)
        refuse(problem("address holds too much", { retryAfter: 1 }));
      else {
        if (size <= SMALL) holding?.add(chunk.length);
        parts.add(chunk);
        if (size > SMALL) readLater(request, chunk.length);
      }
    });
    request.on("end", async () => {
      if (isOver) return;
      isOver = true;
      const whole = chunks.length === 1 ? chunks[0]! : await joined(request, chunks, size);
      const counting = countingOf(request);
      const run = () => resolve(whole);
      if (counting) counting.turns.add({ client: () => counting.identity.client, run });
      else run();
    });
    request.on("error", giveUp);
  });
}

/** Parts of fewer bytes than BLOCK are copied to blocks, from the one after FEW on. */
const [FEW, BLOCK] = [16, 16_384];

/** What has arrived of a body. A client may send it in millions of parts, and each that is kept takes some hundred bytes besides its own. */
class BodyParts {
  /** In order. */
  readonly all: Buffer[] = [];
  /** What is left of the block at the end. */
  #room = Buffer.alloc(0);

  add(part: Buffer): void {
    if (part.length >= BLOCK || this.all.length < FEW) {
      this.#closeBlock();
      this.all.push(part);
      return;
    }
    for (let at = 0; at < part.length; ) {
      if (this.#room.length === 0) {
        this.#room = Buffer.allocUnsafeSlow(BLOCK);
        this.all.push(this.#room);
      }
      const copied = part.copy(this.#room, 0, at);
      this.#room = this.#room.subarray(copied);
      at += copied;
    }
    // Not at once: the parser is still in it.
    setImmediate(free, part);
  }

  #closeBlock(): void {
    if (this.#room.length === 0) return;
    this.all.push(this.all.pop()!.subarray(0, BLOCK - this.#room.length));
    this.#room = this.#room.subarray(this.#room.length);
  }
}

/** Copies the parts of a body to one place, those of a long body in several turns: each page of new memory takes some microseconds. */
async function joined(request: IncomingMessage, chunks: readonly Buffer[], size: number): Promise<Buffer> {
  const whole = Buffer.allocUnsafeSlow(size);
  const { network, bulk } = readingOf(request);
  let at = 0;
  for (const chunk of chunks) {
    if (size > LONG) await new Promise<void>((resolve) => bulk.next(network, 0, resolve));
    at += chunk.copy(whole, at);
    free(chunk);
  }
  return whole;
}

/** Bytes of a body that is copied in several turns of the event loop. */
const LONG = 262_144;

/** Of requests whose bodies are not counted. */
const UNCOUNTED = { network: "", bulk: new Bulk() };

/** Where the parts of a body wait for their turn. */
const readingOf = (request: IncomingMessage): { readonly network: string; readonly bulk: Bulk } => {
  const counting = countingOf(request);
  return counting ? { network: counting.identity.network, bulk: counting.turns.bulk } : UNCOUNTED;
};

/** Reads on after other work. Otherwise all that a fast client has sent, some megabytes, would be read in one turn of the event loop. */
function readLater(request: IncomingMessage, bytes: number): void {
  const { network, bulk } = readingOf(request);
  request.pause();
  bulk.next(network, bytes, () => request.resume());
}

/** Connections whose last request has its response before its whole body has arrived. */
const answered = new WeakSet<object>();

/** Whether a response that is sent now would answer no request. */
export const isAnswered = (socket: object): boolean => answered.has(socket);

/**
 * Reads what a client still sends of a body whose response has ended. Many clients read the response only when they have sent everything,
 * and see an error of the connection instead (ECONNRESET or EPIPE) if it is closed before. How long that takes is limited as for every
 * request.
 */
export function readToEnd(request: IncomingMessage, response: ServerResponse): void {
  response.once("prefinish", () => {
    if (request.complete || request.destroyed) return;
    const { socket } = request;
    answered.add(socket);
    // Node calls it after a response with `Connection: close`. A connection inside the process has none.
    const { destroySoon } = socket as Partial<typeof socket>;
    socket.destroySoon = () => socket.end();
    request.once("end", () => {
      answered.delete(socket);
      Reflect.deleteProperty(socket, "destroySoon");
      if (socket.writableEnded) destroySoon?.call(socket);
    });
    if (request.listenerCount("data") === 0) discardRest(request);
    // Otherwise Node would read the rest itself, without a limit.
    request.read();
  });
}

/** Reads what is left of a body, and forgets it. */
export function discardRest(request: IncomingMessage): void {
  const { network, bulk } = readingOf(request);
  discard(request, network, bulk);
  request.resume();
}
