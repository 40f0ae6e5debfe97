import type { ServerResponse } from "node:http";

/** What the answer to a request begins with, whoever gives it. */
export type Head = {
  readonly requestId: string;
  /** Names and values of headers by turns, X-Request-Id among them, as `writeHead` takes them fastest. */
  readonly headers: readonly string[];
};

/** For those who answer by other means than `writeHead` with a list. */
export function setHead(response: ServerResponse, { headers }: Head): void {
  for (let i = 0; i < headers.length; i += 2) response.setHeader(headers[i]!, headers[i + 1]!);
}
