import type { HttpAnswer } from "./http-messages.ts";

/** An HTTP request. The path is relative to the base URL of the server. */
export type HttpRequest = {
  readonly method: "GET" | "POST" | "PATCH" | "PURGE";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** Sent only to compete with the other requests: its own latency is not measured. */
  readonly isBackground?: boolean;
  /** The expected status, if it is not that of the case. */
  readonly status?: number;
};

/** One kind of request that is measured. */
export type Case = {
  readonly name: string;
  readonly about: string;
  readonly writes: boolean;
  /** Fields of the response whose values differ by server: `["id"]`. */
  readonly ownFields: readonly string[];
  /** Texts that an expected response does not contain: `['"errors"']`. */
  readonly refused: readonly string[];
  /** The expected status, if it is not any 2xx. */
  readonly status?: number | undefined;
  /** Whether few requests are answered per second: those that are under way at the end count whole. */
  readonly isSlow?: boolean;
  /** The requests, sent in turn, with tokens that are valid for an hour. */
  requests(): HttpRequest[];
};

export type Expected = Pick<Case, "refused" | "status">;

/** Whether the response is the expected one. */
export function isGood({ status, body }: HttpAnswer, { refused, status: wanted }: Expected): boolean {
  const isWanted = wanted === undefined ? status >= 200 && status < 300 : status === wanted;
  return isWanted && !refused.some((text) => body.includes(text));
}
