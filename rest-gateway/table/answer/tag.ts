import { contentTag } from "../../conventions/conditional.ts";
import type { Answer } from "./answer.ts";

/** Bytes that a tag is made of at most: a thousand of them take a microsecond of every request. */
export const MAX_TAGGED_BYTES = 262_144;

/**
 * The entity tag of what a reader gets, that of the function which set one before that of the content. Null for changes
 * and large bodies, and for HEAD, whose body is not even made.
 */
export function tagOf(method: string, { status, headers, given, body }: Answer): string | null {
  const isRead = (method === "GET" || method === "HEAD") && (status === 200 || status === 206);
  if (!isRead) return null;
  const own = given?.find(([name]) => name.toLowerCase() === "etag");
  if (own) return own[1];
  if (body === null || body.length > MAX_TAGGED_BYTES) return null;
  const tag = contentTag(body);
  const total = totalIn(headers);
  // A client that keeps the body would keep the old total with it.
  return total === null ? tag : `${tag.slice(0, -1)}.${total}"`;
}

/** `0-9/42` → `42`; null where nobody counted. */
function totalIn(headers: Answer["headers"]): string | null {
  const range = headers.find(([name]) => name === "Content-Range")?.[1];
  return range === undefined || range.endsWith("/*") ? null : range.slice(range.indexOf("/") + 1);
}

/** Say what is in the body, which the client has already. Source: RFC 9110, 15.4.5. */
const OF_CONTENT = /^(content-(type|length|range|profile|encoding|language|disposition)|etag)$/i;

/** The answer to a client that has it already; `etag` is sent by those who send it. */
export function notModified({ headers, given }: Answer): Answer {
  const kept = ([name]: readonly [string, string]) => !OF_CONTENT.test(name);
  return { status: 304, headers: headers.filter(kept), ...(given && { given: given.filter(kept) }), body: null };
}
