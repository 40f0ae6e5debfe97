import type { IncomingMessage, ServerResponse } from "node:http";
import { codingOf, compress } from "../../http/pipeline/compression.ts";
import { setHead } from "../../http/pipeline/exchange.ts";
import type { HttpEnvelope } from "../../http/pipeline/pipeline.ts";
import { RETRY_SECONDS } from "../../http/pipeline/response.ts";
import { codeOf } from "../execute/error-codes.ts";

export type MediaType = "application/json" | "application/graphql-response+json";

export type Answer = { readonly status: number; readonly body: string };

/** The form of the errors of GraphQL. */
export const GRAPHQL: HttpEnvelope = {
  reject({ request, response, head }, problem) {
    const { status, message, more } = problem;
    const code = codeOf(problem);
    head.notes.route = "/graphql";
    head.notes.code = code;
    setHead(response, head);
    if (status === 503 || status === 429) response.setHeader("Retry-After", more.retryAfter ?? RETRY_SECONDS);
    void sendAnswer(request, response, mediaTypeOf(request.headers.accept), refusal(status, code, message));
  },
};

/** Sends an answer of GraphQL; the head has been set. */
export async function sendAnswer(
  request: IncomingMessage,
  response: ServerResponse,
  mediaType: MediaType,
  { status, body }: Answer,
): Promise<void> {
  response.appendHeader("Vary", "Accept, Accept-Encoding");
  const coding = status === 200 ? codingOf(request, mediaType, body.length) : null;
  if (coding !== null) response.setHeader("Content-Encoding", coding);
  // Of a large text, Node would keep a copy until the client has read it.
  const bytes = coding !== null || body.length > LARGE ? Buffer.from(body) : body;
  const sent = coding === null ? bytes : await compress(bytes as Buffer, coding);
  response.writeHead(status, {
    "Content-Type": `${mediaType}; charset=utf-8`,
    "Content-Length": Buffer.byteLength(sent),
    "Cache-Control": "no-store",
  });
  response.end(sent);
}

/** Writes a result whose `data` is JSON text, or null. */
export function writeResult(data: string | null, errors: readonly unknown[] | undefined, extensions: object): string {
  const before = errors ? `{"errors":${JSON.stringify(errors)},"data":` : '{"data":';
  const after = Object.keys(extensions).length === 0 ? "}" : `,"extensions":${JSON.stringify(extensions)}}`;
  return before + (data ?? "null") + after;
}

/** In UTF-16 code units. */
const LARGE = 65_536;

/** The answer to a request that is not executed. */
export function refusal(status: number, code: string, message: string, more: { requestId?: string } = {}): Answer {
  return { status, body: JSON.stringify({ errors: [{ message, extensions: { code, ...more } }] }) };
}

const NEW_TYPE = "application/graphql-response+json";

/** `application/json` unless the client prefers the newer type, which it must name. */
export function mediaTypeOf(accept: string | undefined): MediaType {
  const ranges = new Map(accept?.split(",").map((range) => mediaRangeOf(range)));
  const wanted = ranges.get(NEW_TYPE) ?? 0;
  const json = ranges.get("application/json") ?? ranges.get("application/*") ?? ranges.get("*/*") ?? 0;
  return wanted > 0 && wanted >= json ? NEW_TYPE : "application/json";
}

/** ` Application/JSON;q=0.5` → `["application/json", 0.5]` */
function mediaRangeOf(range: string): [type: string, quality: number] {
  const [type = "", ...parameters] = range.toLowerCase().split(";");
  const quality = parameters
    .map((parameter) => /^\s*q=([\d.]+)\s*$/.exec(parameter)?.[1])
    .find((value) => value !== undefined);
  return [type.trim(), Number(quality ?? 1)];
}

/** Whether a client wants the results as events: it names the type first. Clients such as urql name it last, and prefer JSON. */
export const wantsEvents = (accept: string | undefined): boolean => /^\s*text\/event-stream\b/i.test(accept ?? "");
