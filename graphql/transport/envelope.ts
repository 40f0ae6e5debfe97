import { codingOf, compress } from "../../gate/pipeline/compression.ts";
import type { Destination } from "../../gate/pipeline/exchange.ts";
import type { HttpEnvelope } from "../../gate/pipeline/pipeline.ts";
import { sendText } from "../../gate/pipeline/response.ts";
import { headersOf, type Problem } from "../../problems/problem.ts";
import { codeOf } from "../execute/error-codes.ts";

export type MediaType = "application/json" | "application/graphql-response+json";

/** In `headers`, names and values alternate. */
export type Answer = { readonly status: number; readonly body: string; readonly headers?: readonly string[] };

/** The form of the errors of GraphQL. */
export const GRAPHQL: HttpEnvelope = {
  reject(destination, problem) {
    const { request, head } = destination;
    head.notes.route = "/graphql";
    void sendAnswer(destination, mediaTypeOf(request.headers.accept), refusalOf(problem, destination));
  },
};

/** Sends an answer of GraphQL. */
export function sendAnswer(
  { request, response, head }: Destination,
  mediaType: MediaType,
  { status, body, headers = [] }: Answer,
): Promise<void> | void {
  const all = [
    ...[...head.headers, ...headers, "Vary", "Origin, Accept, Accept-Encoding"],
    ...["Content-Type", TYPES[mediaType], "Cache-Control", "no-store"],
  ];
  const coding = status === 200 ? codingOf(request, mediaType, body.length) : null;
  if (coding === null) return sendText(response, status, all, body);
  all.push("Content-Encoding", coding);
  return compress(Buffer.from(body), coding).then((bytes) => {
    response.writeHead(status, [...all, "Content-Length", String(bytes.length)]);
    response.end(bytes);
  });
}

const TYPES: Readonly<Record<MediaType, string>> = {
  "application/json": "application/json; charset=utf-8",
  "application/graphql-response+json": "application/graphql-response+json; charset=utf-8",
};

/** Writes a result whose `data` is JSON text, or null. */
export function writeResult(data: string | null, errors: readonly unknown[] | undefined, extensions: object): string {
  const before = errors ? `{"errors":${JSON.stringify(errors)},"data":` : '{"data":';
  const after = Object.keys(extensions).length === 0 ? "}" : `,"extensions":${JSON.stringify(extensions)}}`;
  return before + (data ?? "null") + after;
}

/** The answer to a request that is refused. */
export function refusalOf(problem: Problem, { response, head }: Destination): Answer {
  const { status, message } = problem;
  const code = codeOf(problem);
  head.notes.code = code;
  const headers = Object.entries(headersOf(problem)).filter(([name]) => !response.hasHeader(name));
  return { ...refusal(status, code, message), headers: headers.flat() };
}

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
