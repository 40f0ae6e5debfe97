import { once } from "node:events";
import type { IncomingHttpHeaders, IncomingMessage, RequestListener } from "node:http";
import { duplexPair } from "node:stream";
import { within } from "../../db/repeat.ts";

const { createServer, request } = process.getBuiltinModule("node:http");

export type InProcessRequest = {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The IP address of the client for whom it is sent. */
  readonly address?: string;
};

export type InProcessResponse = {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** Whether the body was longer. */
  readonly isCut: boolean;
};

export type InProcessLimits = {
  /** Bytes of the body. */
  readonly size: number;
  /** Milliseconds. */
  readonly timeout: number;
};

/** Sends a request to a listener over HTTP, without a port. Null if the response takes longer than the timeout. */
export async function sendInProcess(
  listener: RequestListener,
  { method, path, headers, body, address }: InProcessRequest,
  { size, timeout }: InProcessLimits,
): Promise<InProcessResponse | null> {
  const server = createServer(listener);
  const [ofClient, ofServer] = duplexPair();
  if (address !== undefined) Object.assign(ofServer, { remoteAddress: address });
  server.emit("connection", ofServer);
  const length = body === "" ? {} : { "content-length": Buffer.byteLength(body) };
  const sent = request({
    method,
    path,
    headers: { host: "localhost", ...headers, ...length },
    createConnection: () => ofClient as never,
  });
  const response = once(sent, "response").then(([incoming]) => received(incoming, size));
  sent.end(body);
  try {
    return await within(timeout, response);
  } finally {
    sent.destroy();
    ofServer.destroy();
    response.catch(() => {});
  }
}

async function received(incoming: IncomingMessage, size: number): Promise<InProcessResponse> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of incoming) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > size) break;
  }
  const body = Buffer.concat(chunks).subarray(0, size);
  return { status: incoming.statusCode!, headers: incoming.headers, body, isCut: length > size };
}
