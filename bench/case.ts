import type { HttpAnswer } from "./http-messages.ts";

/** One HTTP request; the path follows the address of a server's interface. */
export type HttpRequest = {
  readonly method: "GET" | "POST" | "PATCH";
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** Sent to be in the way of the others: how long it takes itself does not count. */
  readonly isBackground?: boolean;
};

/** One kind of request that is measured. */
export type Case = {
  readonly name: string;
  readonly about: string;
  readonly writes: boolean;
  /** Fields of the answer that each server gives a value of its own: `["id"]`. */
  readonly ownFields: readonly string[];
  /** Texts that a good answer does not hold: `['"errors"']`. */
  readonly refused: readonly string[];
  /** The status of a good answer, where any of 2xx will not do. */
  readonly status?: number | undefined;
  /** What is sent in turn, with tokens that are good for an hour. */
  requests(): HttpRequest[];
};

export type Expected = Pick<Case, "refused" | "status">;

/** Whether a case hopes for such an answer. */
export function isGood({ status, body }: HttpAnswer, { refused, status: wanted }: Expected): boolean {
  const isWanted = wanted === undefined ? status >= 200 && status < 300 : status === wanted;
  return isWanted && !refused.some((text) => body.includes(text));
}
