import { type DatabaseErrorLike, reasonOf, statusOf } from "./errors.ts";
import { REASONS } from "./problems/reasons.ts";

/** `raise sqlstate 'PT402'` → 402 */
export function chosenStatus(sqlstate: string): number | null {
  const status = /^PT([2-5]\d\d)$/.exec(sqlstate)?.[1];
  return status === undefined ? null : Number(status);
}

/** The server cannot answer; which of its limits was reached is not said, except a limit on temporary files (53400). */
const UNAVAILABLE = /^(08|53(?!400)|57P)/;

/** What a client may read of an error of the database that its request or subscription has met; null if the error is masked. */
export function clientMessage({ code = "", message }: DatabaseErrorLike): string | null {
  if (code === "PGRST") return raisedObject(message)?.message ?? null;
  if (reasonOf(code) === null && statusOf(code) === 500 && chosenStatus(code) === null) return null;
  return UNAVAILABLE.test(code) ? REASONS["database unavailable"][2] : message;
}

/** The same for a subscriber, who gets no more than a message. */
export const messageForSubscriber = (error: DatabaseErrorLike): string =>
  clientMessage(error) ?? REASONS["internal error"][2];

type RaisedObject = { readonly code: string; readonly message: string } & Readonly<Record<string, unknown>>;

/** The message of `raise sqlstate 'PGRST' using message = '{"code":…,"message":…}'`; null if it is malformed. */
export function raisedObject(text: string): RaisedObject | null {
  const body = objectOf(text);
  return typeof body?.code === "string" && typeof body.message === "string" ? (body as RaisedObject) : null;
}

/** The object that a JSON text or a value is; null for others. */
export function objectOf(value: unknown): Record<string, unknown> | null {
  try {
    const parsed = typeof value === "string" ? JSON.parse(value) : value;
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? parsed : null;
  } catch {
    return null;
  }
}
