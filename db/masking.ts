import { type DatabaseErrorLike, databaseUnavailable, internalError } from "./errors.ts";

/**
 * SQLSTATEs of faults of the server, or of a function, whose messages may contain what clients must not see. Those of transient errors,
 * of RAISE, of missing rows and of `PT402`, which chooses a status, are not among them.
 */
const MASKED =
  /^(09|25(?!006)|26|2D|38|39|3B|40(?!001|P01)|55(?!P03)|57(?!014|P)|58|F0|HV|P0(?!001|002)|PT(?![2-5]\d\d)|XX)/;

/** The server cannot answer; which of its limits was reached is not said, except a limit on temporary files (53400). */
const UNAVAILABLE = /^(08|53(?!400)|57P)/;

/** What a client may read of an error of the database that its request or subscription has met; null if the error is masked. */
export function clientMessage({ code = "", message }: DatabaseErrorLike): string | null {
  if (code === "PGRST") return raisedObject(message)?.message ?? null;
  if (MASKED.test(code)) return null;
  return UNAVAILABLE.test(code) ? databaseUnavailable().message : message;
}

/** The same for a subscriber, who gets no more than a message. */
export const messageForSubscriber = (error: DatabaseErrorLike): string =>
  clientMessage(error) ?? internalError().message;

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
