import { contentTag } from "../../conventions/conditional.ts";
import type { Answer } from "./answer.ts";

/** Larger bodies get no entity tag: hashing 1000 bytes takes a microsecond. */
export const MAX_TAGGED_BYTES = 262_144;

/**
 * The entity tag of a successful read: the tag that a function has set, otherwise a hash of the body. Null for changes,
 * for large bodies, and for HEAD, for which no body is produced.
 */
export function tagOf(method: string, { status, headers, given, body }: Answer): string | null {
  const isRead = (method === "GET" || method === "HEAD") && (status === 200 || status === 206);
  if (!isRead) return null;
  const own = given?.find(([name]) => name.toLowerCase() === "etag");
  if (own) return own[1];
  if (body === null || body.length > MAX_TAGGED_BYTES) return null;
  const tag = contentTag(body);
  const total = totalIn(headers);
  // With the same tag, a client that caches the body would keep an outdated total.
  return total === null ? tag : `${tag.slice(0, -1)}.${total}"`;
}

/** `0-9/42` → `42`; null when there is no total. */
function totalIn(headers: Answer["headers"]): string | null {
  const range = headers.find(([name]) => name === "Content-Range")?.[1];
  return range === undefined || range.endsWith("/*") ? null : range.slice(range.indexOf("/") + 1);
}

/** Headers that describe the body, which the client already has. Source: RFC 9110, 15.4.5. */
const OF_CONTENT = /^(content-(type|length|range|profile|encoding|language|disposition)|etag)$/i;

/** 304, for a client that already has the body. The caller adds the entity tag. */
export function notModified({ headers, given }: Answer): Answer {
  const kept = ([name]: readonly [string, string]) => !OF_CONTENT.test(name);
  return { status: 304, headers: headers.filter(kept), ...(given && { given: given.filter(kept) }), body: null };
}
