import { maxHeaderSize, type Server, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";

type Refusal = { readonly status: number; readonly message: string };

/** What Node makes of requests that it can't read, by the code of its error. */
const REFUSALS: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: {
    status: 431,
    message: `the address and the headers of a request have ${maxHeaderSize} bytes at most: send long lists in a body`,
  },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { status: 413, message: "the extensions of a chunk are too large" },
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, message: "the request did not come in time" },
};
const UNREADABLE: Refusal = { status: 400, message: "the request is not readable as HTTP/1.1" };

/** Says why to those whose request Node can't read; Node itself gives them a status alone. */
export function answerUnreadable(server: Server): void {
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const refusal = REFUSALS[error.code ?? ""] ?? UNREADABLE;
    if (!socket.writable || error.code === "ECONNRESET" || isBeingAnswered(socket)) socket.destroy(error);
    else socket.end(answerTo(refusal), () => socket.destroy(error));
  });
}

/** Another answer in the middle of the one that is under way would be read as part of it. */
const isBeingAnswered = (socket: Duplex) =>
  (socket as { _httpMessage?: ServerResponse | null })._httpMessage?.headersSent === true;

function answerTo({ status, message }: Refusal): string {
  const body = JSON.stringify({ error: { code: "VALIDATION_ERROR", message } });
  const headers = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${body.length}`,
    "Connection: close",
  ];
  return `${headers.join("\r\n")}\r\n\r\n${body}`;
}
