import type { ServerResponse } from "node:http";
import { Socket } from "node:net";
import type { CancelSignal } from "../../db/wire/connection.ts";
import { headersOf, type Problem } from "../../problems/problem.ts";

const { STATUS_CODES } = process.getBuiltinModule("node:http");

/** Maximum bytes of a body that is sent as text, in one write with the head: copying it costs less than a second write. */
const ONE_WRITE = 16_384;

/** Ends a response with its body, which is sent unchanged. */
export function endWith(response: ServerResponse, body: Buffer): void {
  if (body.length > ONE_WRITE) response.end(body);
  else response.end(body.toString("latin1"), "latin1");
}

/** Of a larger text, Node would keep a copy until the client has read it. In UTF-16 code units. */
const LARGE = 65_536;

/** The response that a connection sends, or will send next; null without a request. Node has no public name for it. */
export const responseOn = (socket: object): ServerResponse | null =>
  (socket as { readonly _httpMessage?: ServerResponse | null })._httpMessage ?? null;

/** Whether responses with this status have neither a body nor a length. Source: RFC 9110, 8.6. */
export const hasNoContent = (status: number): boolean => status === 204 || status === 304;

/** Sends a response whose body is text. In `headers`, names and values alternate; the length is added. */
export function sendText(response: ServerResponse, status: number, headers: readonly string[], text: string): void {
  if (hasNoContent(status)) return void response.writeHead(status, [...headers]).end();
  const bytes = text.length > LARGE ? Buffer.from(text) : null;
  const length = bytes?.length ?? Buffer.byteLength(text);
  response.writeHead(status, [...headers, "Content-Length", String(length)]);
  if (bytes !== null) response.end(bytes);
  else response.end(text, length === text.length ? "latin1" : "utf8");
}

/** The memory of larger bodies is freed when they are sent. V8 would collect the whole heap for every 64 MB of them. */
const FREED_BYTES = 262_144;

/** As `endWith`, for a body that nothing else uses: a large one is empty afterwards. */
export function endAndFree(response: ServerResponse, body: Buffer): void {
  // When a response is finished, its socket no longer needs the bytes: they are sent, or it is closed. Other streams may pass on the
  // buffer itself.
  const isSocket = response.socket instanceof Socket;
  if (isSocket && body.length > FREED_BYTES) response.once("finish", () => (body.buffer as ArrayBuffer).transfer(0));
  endWith(response, body);
}

/**
 * The text of an error response that is written to the socket itself, which is closed afterwards. In `headers`, names and values
 * alternate.
 */
export function closingResponse(problem: Problem, headers: readonly string[] = []): string {
  const { status, code, message } = problem;
  const all = Object.entries(headersOf(problem)).flat();
  return closingText(status, [...headers, ...all], JSON.stringify({ error: { code, message } }));
}

/** The same with any body, which is JSON or empty. */
export function closingText(status: number, headers: readonly string[], body: string): string {
  const type = body === "" ? [] : ["Content-Type", "application/json; charset=utf-8"];
  const all = [...type, "Content-Length", String(Buffer.byteLength(body)), "Connection", "close", ...headers];
  const lines = all.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`));
  return `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join("")}\r\n${body}`;
}

/**
 * Aborted when the client closes the connection before it has received its response. Every request creates one, and an
 * AbortController costs more.
 */
export class ClientGone implements CancelSignal {
  reason: Error | undefined;
  readonly #listeners = new Set<() => void>();

  constructor(response: ServerResponse) {
    if (response.destroyed) this.#abort();
    response.once("close", () => {
      if (!response.writableFinished) this.#abort();
    });
  }

  get aborted(): boolean {
    return this.reason !== undefined;
  }

  addEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }

  /** Settles as `work` does, or rejects when the client has gone. */
  async unless<Result>(work: Promise<Result>): Promise<Result> {
    if (this.reason) throw this.reason;
    const { promise, reject } = Promise.withResolvers<never>();
    const listener = () => reject(this.reason);
    this.addEventListener("abort", listener);
    return Promise.race([work, promise]).finally(() => this.removeEventListener("abort", listener));
  }

  #abort(): void {
    this.reason = new Error("the client has closed the connection");
    for (const listener of this.#listeners) listener();
  }
}

/** Text for an element or an attribute of HTML or XML. */
export const escapeMarkup = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
