import { validateHeaderName, validateHeaderValue } from "node:http";
import type { Header } from "../../conventions/endpoint.ts";
import { badResponseHeaders, badResponseStatus } from "../problem.ts";

/** The value of `set_config('response.status', '418', true)`; null when no function has set it. */
export function responseStatus(text: string | null): number | null {
  if (text === null) return null;
  if (!/^[2-5]\d\d$/.test(text)) throw badResponseStatus();
  return Number(text);
}

/** Headers of the message framing. A function that set them would break the connection. */
const RESERVED = new Set(["content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "trailer"]);

/** The headers that a function has set: `[{"Cache-Control": "public"}, …]` */
export function responseHeaders(text: string): Header[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    throw badResponseHeaders();
  }
  if (!Array.isArray(list)) throw badResponseHeaders();
  return list.map(headerOf);
}

function headerOf(item: unknown): Header {
  const [entry, ...others] = typeof item === "object" && item !== null ? Object.entries(item) : [];
  const header = entry && others.length === 0 ? writeHeader(entry) : null;
  if (!header) throw badResponseHeaders();
  return header;
}

/** `é` → two characters, which Node writes as its two bytes in UTF-8. Node encodes Content-Disposition twice. */
const inBytes = (text: string) => Buffer.from(text).toString("latin1");

/** A header that a function has set, as it is sent; null when it is malformed or reserved. */
export function writeHeader([name, value]: readonly [string, unknown]): Header | null {
  if (typeof value !== "string" || RESERVED.has(name.toLowerCase())) return null;
  const bytes = name.toLowerCase() === "content-disposition" ? inBytes(inBytes(value)) : inBytes(value);
  try {
    validateHeaderName(name);
    validateHeaderValue(name, bytes);
    return [name, bytes];
  } catch {
    return null;
  }
}
