import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, onTestFinished } from "vitest";
import { POLL } from "./until.ts";

export type Frame = { readonly opcode: number; readonly payload: Buffer };
export type UpgradeOptions = {
  readonly path?: string;
  /** null sends no sub-protocol. */
  readonly protocol?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** The IP address of the client, such as 127.0.0.2. */
  readonly localAddress?: string;
};

/** A TCP connection to the service, on which a test can violate the protocol. It is destroyed at the end of the test. */
export async function openRaw(url: string, localAddress = "127.0.0.1"): Promise<RawSocket> {
  const { hostname, port } = new URL(url);
  // Half open: the socket does not end automatically when the server ends its side.
  const socket = connect({ host: hostname, port: Number(port), localAddress, allowHalfOpen: true });
  socket.on("error", () => {});
  onTestFinished(() => void socket.destroy());
  await once(socket, "connect");
  return new RawSocket(socket);
}

/** Requests a WebSocket upgrade; `raw.head` is the response. */
export async function upgrade(url: string, options: UpgradeOptions = {}): Promise<RawSocket> {
  const { path = "/graphql", protocol = "graphql-transport-ws", headers = {}, localAddress } = options;
  const raw = await openRaw(url, localAddress);
  const all = {
    Host: new URL(url).host,
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
    ...(protocol !== null && { "Sec-WebSocket-Protocol": protocol }),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  raw.write(`GET ${path} HTTP/1.1\r\n${lines.join("")}\r\n`);
  await raw.head();
  return raw;
}

/** Opens a WebSocket and sends `connection_init`; resolves when it is acknowledged. */
export async function openGraphQL(
  url: string,
  options: UpgradeOptions & { payload?: object } = {},
): Promise<RawSocket> {
  const raw = await upgrade(url, options);
  raw.send({ type: "connection_init", payload: options.payload });
  // What else it has received says why it is not acknowledged.
  await expect.poll(() => raw.messages()[0] ?? raw.text, POLL).toEqual({ type: "connection_ack" });
  return raw;
}

export class RawSocket {
  readonly socket: Socket;
  /** Bytes received so far. */
  size = 0;
  #chunks: Buffer[] = [];
  #ended = false;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk) => {
      this.#chunks.push(chunk);
      this.size += chunk.length;
    });
    for (const event of ["end", "close"] as const) {
      socket.on(event, () => {
        this.#ended = true;
      });
    }
  }

  write(bytes: string | Buffer): void {
    this.socket.write(bytes);
  }

  // Joined only when it is read: a response may have thousands of chunks.
  get #received(): Buffer {
    if (this.#chunks.length !== 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0]!;
  }

  /** Sends a text frame with this message. */
  send(message: unknown): void {
    this.write(frame(TEXT, typeof message === "string" ? message : JSON.stringify(message)));
  }

  /** Resolves to the status and the header lines of the first response. */
  async head(): Promise<{ status: number; headers: string }> {
    await expect.poll(() => this.#received.includes("\r\n\r\n") || this.#ended, POLL).toBe(true);
    const end = this.#received.indexOf("\r\n\r\n");
    const headers = this.#received.toString("latin1", 0, end < 0 ? this.size : end);
    return { status: Number(headers.split(" ")[1]), headers };
  }

  /** All received bytes as text. */
  get text(): string {
    return this.#received.toString("latin1");
  }

  /** Whether the server has ended its side. */
  get ended(): boolean {
    return this.#ended;
  }

  /** The frames that were received after the upgrade. */
  frames(): Frame[] {
    const frames: Frame[] = [];
    let at = this.#received.indexOf("\r\n\r\n") + 4;
    while (at + 2 <= this.#received.length) {
      const opcode = this.#received[at]! & 0x0f;
      let length = this.#received[at + 1]! & 0x7f;
      let header = 2;
      if (length === 126) {
        length = this.#received.readUInt16BE(at + 2);
        header = 4;
      } else if (length === 127) {
        length = Number(this.#received.readBigUInt64BE(at + 2));
        header = 10;
      }
      if (at + header + length > this.#received.length) break;
      frames.push({ opcode, payload: this.#received.subarray(at + header, at + header + length) });
      at += header + length;
    }
    return frames;
  }

  /** The GraphQL messages that were received so far. */
  messages(): any[] {
    return this.frames()
      .filter(({ opcode }) => opcode === TEXT)
      .map(({ payload }) => JSON.parse(payload.toString()));
  }

  /** Waits for the server's close frame and end: `{ code: 4400, reason: "…" }`. */
  async closed(timeout = POLL.timeout): Promise<{ code: number; reason: string }> {
    const close = () => this.frames().find(({ opcode }) => opcode === CLOSE);
    await expect.poll(() => close() !== undefined || this.#ended, { ...POLL, timeout }).toBe(true);
    const payload = close()?.payload;
    if (!payload) return { code: 1006, reason: "" };
    // Completes the closing handshake. After a malformed frame the server no longer reads it, but sees the end.
    this.socket.end(frame(CLOSE, payload));
    await expect.poll(() => this.#ended, POLL).toBe(true);
    return { code: payload.readUInt16BE(0), reason: payload.subarray(2).toString() };
  }
}

export const TEXT = 0x1;
export const BINARY = 0x2;
export const CLOSE = 0x8;
export const PING = 0x9;

export type FrameOptions = {
  readonly masked?: boolean;
  readonly final?: boolean;
  readonly reserved?: number;
  readonly length?: number;
};

/** The bytes of one frame; `length` may be wrong on purpose. */
export function frame(opcode: number, content: string | Buffer, options: FrameOptions = {}): Buffer {
  const { masked = true, final = true, reserved = 0 } = options;
  const payload = Buffer.from(content as string);
  const length = options.length ?? payload.length;
  const first = (final ? 0x80 : 0) | (reserved << 4) | opcode;
  const mark = masked ? 0x80 : 0;
  const head =
    length < 126
      ? Buffer.from([first, mark | length])
      : length < 65_536
        ? Buffer.from([first, mark | 126, length >> 8, length & 255])
        : Buffer.concat([Buffer.from([first, mark | 127]), bigEndian(length)]);
  if (!masked) return Buffer.concat([head, payload]);
  const mask = randomBytes(4);
  return Buffer.concat([head, mask, payload.map((byte, i) => byte ^ mask[i % 4]!)]);
}

function bigEndian(length: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(length));
  return bytes;
}
