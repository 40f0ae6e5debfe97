import { relative } from "node:path";
import { fileURLToPath } from "node:url";

// Registered by name, because an application may load another copy of this module.
const ORIGIN = Symbol.for("content-service.origin");

/** A copy of `value` that knows the line that called `define`. */
export function withOrigin<T extends object>(value: T, define: (...args: never[]) => unknown): T {
  const trace = { stack: "" };
  Error.captureStackTrace(trace, define);
  return { ...value, [ORIGIN]: lineIn(trace.stack) };
}

/** `resources/notes.ts:3`, for a value of a `define…` function; null for others. */
export const originOf = (value: object): string | null => (value as { [ORIGIN]?: string | null })[ORIGIN] ?? null;

/** The first line of a file in `folder` that the stack of an error names: `/srv/notes/resources/notes.ts:3`. */
export function lineIn(stack: string, folder = "/"): string | null {
  for (const [, url = "", line] of stack.matchAll(/((?:file:\/\/)?\/[^\s()]+\.[cm]?[jt]s)(?:\?[^\s:]*)?:(\d+)/g)) {
    const file = url.startsWith("file:") ? fileURLToPath(url) : url;
    if (file.startsWith(folder)) return `${file}:${line}`;
  }
  return null;
}

/** `resources/notes.ts:3`, below the folder of the application. */
export function placeOf(value: object, folder: string | null): string {
  const origin = originOf(value);
  if (origin === null) return "content-service.config.ts";
  const below = folder === null ? origin : relative(folder, origin);
  return below.startsWith("..") ? origin : below;
}
