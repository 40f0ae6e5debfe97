import { constants, gunzipSync } from "node:zlib";
import type { HttpRequest } from "./case.ts";

/** Writes a request as bytes. `address` is the base URL: `http://127.0.0.1:3000/rest/v1`. */
export function bytesOf({ method, path, headers, body }: HttpRequest, address: string): Buffer {
  const { host, pathname, search } = new URL(address + path);
  const lines = [`${method} ${pathname}${search} HTTP/1.1`, `Host: ${host}`];
  for (const [name, value] of Object.entries(headers)) lines.push(`${name}: ${value}`);
  if (body !== null) lines.push("Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`);
  return Buffer.from(`${lines.join("\r\n")}\r\n\r\n${body ?? ""}`);
}

/** A placeholder in a body for a unique number: `{"email":"00000000000000000000@example.com"}`. */
export const SERIAL = "0".repeat(20);

/** Replaces SERIAL in the bytes of a request by a unique number. */
export function numbered(bytes: Buffer): Buffer {
  const at = bytes.indexOf(SERIAL);
  if (at < 0) return bytes;
  const own = Buffer.from(bytes);
  // All processes share this clock, so the number is unique among them.
  own.write(String(process.hrtime.bigint()).padStart(SERIAL.length, "0"), at);
  return own;
}

/** `body` may be cut: see AnswerReader. */
export type HttpAnswer = { readonly status: number; readonly head: string; readonly body: string };

const HEAD_END = "\r\n\r\n";
const NOTHING = Buffer.alloc(0);

/** Reads the responses of one connection without pipelining. */
export class AnswerReader {
  readonly #keep: number;
  /** The bytes of a head that is not complete yet. */
  #begun: Buffer = NOTHING;
  #head = "";
  #status = 0;
  #body: Body | null = null;

  /** `keep` is the maximum number of bytes of a body to keep: collecting megabytes would slow down the load tool. */
  constructor(keep: number) {
    this.#keep = keep;
  }

  /** Returns the response that ends with these bytes, or null if it is not complete. */
  read(bytes: Buffer): HttpAnswer | null {
    const rest = this.#body === null ? this.#readHead(bytes) : bytes;
    if (rest === null || !this.#body!.take(rest)) return null;
    const answer = { status: this.#status, head: this.#head, body: textOf(this.#body!.kept, this.#head) };
    this.#body = null;
    return answer;
  }

  /** Returns the bytes after the head, or null if the head is not complete. */
  #readHead(bytes: Buffer): Buffer | null {
    const received = this.#begun.length === 0 ? bytes : Buffer.concat([this.#begun, bytes]);
    const end = received.indexOf(HEAD_END);
    this.#begun = end === -1 ? received : NOTHING;
    if (end === -1) return null;
    this.#head = received.toString("latin1", 0, end);
    this.#status = Number(this.#head.slice("HTTP/1.1 ".length, "HTTP/1.1 200".length));
    this.#body = bodyAfter(this.#head, this.#status, this.#keep);
    return received.subarray(end + HEAD_END.length);
  }
}

/** The text of a body, or of its beginning. */
function textOf(bytes: Buffer, head: string): string {
  const isCompressed = bytes.length > 0 && /\r\ncontent-encoding: *gzip/i.test(head);
  return (isCompressed ? gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH }) : bytes).toString();
}

const BODILESS = new Set([204, 304]);

function bodyAfter(head: string, status: number, keep: number): Body {
  if (BODILESS.has(status)) return new MeasuredBody(0, keep);
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) return new ChunkedBody(keep);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) return new MeasuredBody(Number(length), keep);
  throw new Error(`a response without a length: ${head}`);
}

abstract class Body {
  #kept: Buffer[] = [];
  #room: number;

  constructor(keep: number) {
    this.#room = keep;
  }

  /** Whether the body ends with these bytes. */
  abstract take(bytes: Buffer): boolean;

  get kept(): Buffer {
    return Buffer.concat(this.#kept);
  }

  protected keep(bytes: Buffer): void {
    if (this.#room === 0) return;
    const part = bytes.subarray(0, this.#room);
    this.#room -= part.length;
    this.#kept.push(part);
  }
}

class MeasuredBody extends Body {
  #missing: number;

  constructor(length: number, keep: number) {
    super(keep);
    this.#missing = length;
  }

  take(bytes: Buffer): boolean {
    this.keep(bytes);
    this.#missing -= bytes.length;
    return this.#missing === 0;
  }
}

const LINE_END = 2;

/** Chunks without trailers. Source: RFC 9112, 7.1. */
class ChunkedBody extends Body {
  /** The part of the line with the size of the next chunk that was received. */
  #sizeLine = "";
  /** Missing bytes of the chunk and its line end. */
  #missing = 0;
  #isLast = false;

  take(bytes: Buffer): boolean {
    let rest = bytes;
    while (rest.length > 0) rest = this.#missing > 0 ? this.#takeData(rest) : this.#takeSize(rest);
    return this.#isLast && this.#missing === 0;
  }

  #takeData(bytes: Buffer): Buffer {
    const part = bytes.subarray(0, this.#missing);
    this.keep(part.subarray(0, Math.max(0, this.#missing - LINE_END)));
    this.#missing -= part.length;
    return bytes.subarray(part.length);
  }

  #takeSize(bytes: Buffer): Buffer {
    const end = bytes.indexOf("\n");
    this.#sizeLine += bytes.toString("latin1", 0, end === -1 ? bytes.length : end);
    if (end === -1) return NOTHING;
    const size = Number.parseInt(this.#sizeLine, 16);
    this.#sizeLine = "";
    this.#isLast = size === 0;
    this.#missing = size + LINE_END;
    return bytes.subarray(end + 1);
  }
}
