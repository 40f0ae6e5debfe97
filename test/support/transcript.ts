import { subscribe } from "node:diagnostics_channel";
import type { ClientRequest, IncomingMessage } from "node:http";
import { constants, unzipSync } from "node:zlib";

/** What is printed of a test that fails. */
const EXCHANGES = 5;
const FRAMES = 20;
const CHARACTERS = 1000;
/** A body may be compressed, and is kept in part. */
const BYTES = 4096;

type Head = { readonly line: string; readonly headers: readonly string[] };

/** One request of the test, or of the service that it has started. */
type Exchange = {
  readonly at: number;
  request(): Head;
  readonly sent: Part;
  response: (() => Head) | null;
  readonly received: Part;
};

/** The begin of a body. */
class Part {
  readonly #chunks: Buffer[] = [];
  #kept = 0;
  #size = 0;

  add(chunk: string | Uint8Array): void {
    this.#size += chunk.length;
    if (this.#kept >= BYTES) return;
    const begin = chunk.slice(0, BYTES - this.#kept);
    this.#kept += begin.length;
    // A copy, because the sender may use its memory again.
    this.#chunks.push(Buffer.from(begin as string));
  }

  get text(): string {
    const text = unzipped(Buffer.concat(this.#chunks)).toString();
    return text.length <= CHARACTERS && this.#kept === this.#size
      ? text
      : `${text.slice(0, CHARACTERS)}… (${this.#size})`;
  }
}

function unzipped(bytes: Buffer): Buffer {
  try {
    return bytes.readUInt16BE() === 0x1f8b ? unzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH }) : bytes;
  } catch {
    return bytes;
  }
}

// Tests replace the clock.
const clock = performance.now.bind(performance);
let begin = clock();
let exchanges: Exchange[] = [];
let frames: { readonly at: number; readonly source: string; readonly part: Part }[] = [];
let sockets = 0;
const running = new WeakMap<object, Exchange>();

/** Forgets what the test before has sent and received. */
export function beginTranscript(): void {
  begin = clock();
  exchanges = [];
  frames = [];
  sockets = 0;
}

/** The last requests with their responses, and the last frames and events. Credentials are shortened. Empty without any. */
export function transcript(): string {
  const requests = exchanges.map(({ at, request, sent, response, received }) =>
    [
      `${timeOf(at)} ${messageOf(request(), sent)}`,
      response ? messageOf(response(), received) : "(no response, or an upgrade)",
    ].join("\n"),
  );
  const lines = frames.map(
    ({ at, source, part }) => `${timeOf(at)} ${source} ${withoutTokens(part.text.replaceAll("\n", " | "))}`,
  );
  return [
    ...(requests.length > 0 ? [`The last requests of the test:\n${requests.join("\n\n")}`] : []),
    ...(lines.length > 0 ? [`The last frames and events of the test:\n${lines.join("\n")}`] : []),
  ].join("\n\n");
}

const timeOf = (at: number) => `[${Math.round(at - begin)} ms]`;
const messageOf = ({ line, headers }: Head, { text }: Part) =>
  withoutTokens([line, ...headers.map((header) => `  ${header}`), ...(text === "" ? [] : [`  ${text}`])].join("\n"));

/** `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.s5a…` → `eyJhbGci…` */
const withoutTokens = (text: string) => text.replace(/\b(eyJ[\w-]{5})[\w-]*\.[\w-]+(\.[\w-]*)?/g, "$1…");

/** Adds a frame of a WebSocket, or an event of a stream: `recordFrame("socket 1 received", "{}")` */
export function recordFrame(source: string, text: string): void {
  const part = new Part();
  part.add(text);
  frames.push({ at: clock(), source, part });
  if (frames.length > FRAMES) frames.shift();
}

type Socket = new (
  ...parameters: any[]
) => {
  send(data: any, ...more: any[]): void;
  addEventListener(type: any, listener: (event: any) => void): void;
};

/** The same class, for sockets whose frames are recorded. */
export function recorded<Base extends Socket>(base: Base): Base {
  return class extends base {
    readonly #name: string;

    constructor(...parameters: any[]) {
      super(...parameters);
      this.#name = `socket ${++sockets}`;
      const test = begin;
      this.addEventListener("message", ({ data }) => recordFrame(`${this.#name} received`, textOf(data)));
      this.addEventListener("close", ({ code, reason }) => {
        // Most are closed at the end of their test.
        if (test === begin) recordFrame(`${this.#name} closed`, `${code} ${reason}`);
      });
    }

    override send(data: any, ...more: any[]): void {
      recordFrame(`${this.#name} sent`, textOf(data));
      super.send(data, ...more);
    }
  };
}

const textOf = (data: unknown) => (typeof data === "string" ? data : "(binary)");

/** Adds the body of a request over `node:http`, which is not on its channels. */
export function recordSent(request: object, body: string | Uint8Array | undefined): void {
  if (body !== undefined) running.get(request)?.sent.add(body);
}

/** Adds the body of its response. */
export function recordReceived(request: object, body: string): void {
  running.get(request)?.received.add(body);
}

function add(key: object, request: () => Head): void {
  const exchange = { at: clock(), request, sent: new Part(), response: null, received: new Part() };
  running.set(key, exchange);
  exchanges.push(exchange);
  if (exchanges.length > EXCHANGES) exchanges.shift();
}

/** What says nothing about a failure. */
const PLAIN =
  /^(accept-encoding|accept-language|access-control-expose-headers|connection|content-length|date|host|keep-alive|sec-fetch-mode|sec-websocket-(extensions|key|version)|user-agent|vary)$/;
const SECURITY =
  /^(content-security-policy|cross-origin-.*|origin-agent-cluster|permissions-policy|referrer-policy|strict-transport-security|x-(content|dns|download|frame|permitted|xss)-.*)$/;
const CREDENTIALS = /^(authorization|proxy-authorization|apikey|cookie|set-cookie)$/;

function linesOf(headers: readonly (readonly [name: string, value: string])[]): string[] {
  return headers.flatMap(([given, value]) => {
    const name = given.toLowerCase();
    if (PLAIN.test(name) || SECURITY.test(name) || `${name}: ${value}` === "accept: */*") return [];
    return `${name}: ${CREDENTIALS.test(name) ? value.replace(/([\w.%+/-]{8})[\w.%+/=-]{8,}/g, "$1…") : value}`;
  });
}

/** `["a", "1", "b", "2"]` → `[["a", "1"], ["b", "2"]]` */
const pairsOf = (flat: readonly unknown[]): [string, string][] =>
  flat.flatMap((name, i) => (i % 2 === 0 ? [[String(name), String(flat[i + 1])]] : []));

type Message = {
  readonly request: any;
  readonly response?: any;
  readonly chunk?: string | Uint8Array;
  readonly error?: unknown;
};
const follow = (channel: string, listener: (message: Message) => void) =>
  subscribe(channel, (message) => listener(message as Message));

// Those of `fetch`. Source: undici, "Diagnostics Channel Support".
follow("undici:request:create", ({ request }) =>
  add(request, () => ({
    line: `${request.method} ${request.origin}${request.path}`,
    headers: linesOf(pairsOf(request.headers)),
  })),
);
follow("undici:request:bodyChunkSent", ({ request, chunk }) => running.get(request)?.sent.add(chunk!));
follow("undici:request:headers", ({ request, response }) =>
  respond(request, () => ({ line: `${response.statusCode}`, headers: linesOf(pairsOf(response.headers)) })),
);
follow("undici:request:bodyChunkReceived", ({ request, chunk }) => running.get(request)?.received.add(chunk!));
follow("undici:request:error", ({ request, error }) => respond(request, () => ({ line: String(error), headers: [] })));

// Source: Node, "Diagnostics Channel", HTTP.
follow("http.client.request.created", ({ request }: { readonly request: ClientRequest }) =>
  add(request, () => ({
    line: `${request.method} ${request.protocol}//${request.getHeader("host")}${request.path}`,
    headers: linesOf(Object.entries(request.getHeaders()).map(([name, value]) => [name, String(value)])),
  })),
);
follow("http.client.response.finish", ({ request, response }: { request: object; response?: IncomingMessage }) =>
  respond(request, () => ({ line: `${response!.statusCode}`, headers: linesOf(pairsOf(response!.rawHeaders)) })),
);
follow("http.client.request.error", ({ request, error }) =>
  respond(request, () => ({ line: String(error), headers: [] })),
);

/** An error after the head of the response does not replace it. */
function respond(request: object, response: () => Head): void {
  const exchange = running.get(request);
  if (exchange) exchange.response ??= response;
}
