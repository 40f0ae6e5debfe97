import { Problem } from "../../../../problems/problem.ts";
import { BASE, parseRequest } from "../../../../rest-gateway/table/parse/request.ts";
import { type TableProblem, tableAnswer } from "../../../../rest-gateway/table/problem.ts";
import type { TableRequest } from "../../../../rest-gateway/table/request.ts";

type Rest = {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
};

export const LIMITS = {
  jsonMaxDepth: 5,
  restMaxEmbedDepth: 3,
  restMaxConditionDepth: 3,
  restMaxConditions: 50,
  restMaxPatterns: 5,
  restMaxPatternLength: 50,
};

/** `parse("users?id=eq.1", { method: "PATCH", body: "{}" })` */
export function parse(url: string, { method = "GET", headers = {}, body }: Rest = {}): TableRequest {
  const [path = "", ...search] = url.split("?");
  const bytes = body === undefined ? null : Buffer.from(body as string);
  const text = {
    method,
    url: { path: `${BASE}/${path}`, search: search.join("?"), apiKey: null },
    headers,
    body: bytes,
  };
  return parseRequest(text, LIMITS);
}

/** The problem with which the call is refused. Throws if the call succeeds or fails in another way. */
export function problemOf(act: () => unknown): TableProblem {
  try {
    act();
  } catch (error) {
    if (error instanceof Problem) return tableAnswer(error);
    throw error;
  }
  throw new Error("it was not refused");
}
