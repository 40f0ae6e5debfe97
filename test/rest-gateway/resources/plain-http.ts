import http from "node:http";

/** A request that is sent unchanged: `fetch` would normalize the URL and add a Content-Type. */
export type PlainRequest = {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | null;
};

export type PlainReply = {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
};

export async function sendPlain(url: string, sent: PlainRequest, agent?: http.Agent): Promise<PlainReply> {
  const { method = "GET", path, headers = {}, body } = sent;
  const request = http.request(url, { agent, method, path, headers });
  request.end(body ?? undefined);
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request.on("response", resolve).on("error", reject);
  });
  const text = Buffer.concat(await response.toArray()).toString();
  return { status: response.statusCode!, headers: response.headers, text };
}
