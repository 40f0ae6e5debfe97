import { type OwnError, type Problem, problem } from "../problems/problem.ts";
import type { DatabaseErrorLike } from "./sqlstates.ts";
import { reasonOf, statusOf } from "./sqlstates.ts";

/** The classes of PostgreSQL's SQLSTATEs, and that of this service. All others are of applications. Source: PostgreSQL docs, appendix A. */
const CLASSES: ReadonlySet<string> = new Set(
  (
    "00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 10 20 21 22 23 24 25 26 27 28 2B 2D 2F " +
    "34 38 39 3B 3D 3F 40 42 44 53 54 55 57 58 72 CS F0 HV P0 XX"
  ).split(" "),
);

/** Whether an application has invented the SQLSTATE. */
const isOwn = (sqlstate: string): boolean => sqlstate.length === 5 && !CLASSES.has(sqlstate.slice(0, 2));

/** `raise sqlstate 'PT402'` → 402 */
export function chosenStatus(sqlstate: string): number | null {
  const status = /^PT([2-5]\d\d)$/.exec(sqlstate)?.[1];
  return status === undefined ? null : Number(status);
}

/** The error of an application, with what it says. Null for one that is not of an application. */
export function ownProblem(error: DatabaseErrorLike): Problem | null {
  const own = ownErrorIn(error);
  if (own === null) return null;
  const { message, detail, hint, ...code } = own;
  return problem("raised with an own code", { message, hint, raisedDetail: detail, own: code, cause: error });
}

/** What an application says in an error of its own. Null for other errors. */
export function ownErrorIn(
  error: DatabaseErrorLike,
): (OwnError & Pick<DatabaseErrorLike, "message" | "detail" | "hint">) | null {
  const { code = "", message, detail, hint } = error;
  if (code === "PGRST") return raisedResponse(error);
  const chosen = chosenStatus(code);
  if (!isOwn(code) || reasonOf(code) !== null || (chosen === null && statusOf(code) === 500)) return null;
  return { code, status: chosen ?? statusOf(code), message, detail, hint };
}

/** `raise sqlstate 'PGRST' using message = '{"code":…,"message":…}', detail = '{"status":…}'`; null if it is malformed. */
function raisedResponse({ message, detail }: DatabaseErrorLike): ReturnType<typeof ownErrorIn> {
  const body = raisedObject(message);
  const { status } = objectOf(detail) ?? {};
  if (body === null || !isStatus(status)) return null;
  const { code, details, hint } = body;
  const textOf = (value: unknown) => (typeof value === "string" ? value : undefined);
  return { code, status, message: body.message, detail: textOf(details), hint: textOf(hint) };
}

export const isStatus = (value: unknown): value is number =>
  typeof value === "number" && /^[2-5]\d\d$/.test(String(value));

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
