import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { gunzipSync } from "node:zlib";
import type { RequestHandler } from "express";
import { type Coding, codingOf, compress } from "../../gate/pipeline/compression.ts";

/** The validators of a response, with which a client asks whether its copy is still current. */
export type Validators = { readonly etag: string | null; readonly lastModified: Date | null };

/** The strong entity tag of a body, quotes included: `"Kq5sNclPz7QV2-lf"`. */
export const contentTag = (body: Buffer): string => `"${hash("sha1", body, "base64url").slice(0, TAG_LENGTH)}"`;

/** 96 bits, enough to distinguish the bodies of one URL. */
const TAG_LENGTH = 16;

/**
 * Whether the client's copy is still current, for GET and HEAD. If-None-Match takes precedence: if it is sent, even
 * malformed, If-Modified-Since is ignored. Source: RFC 9110, 13.2.2.
 */
export function isNotModified(headers: IncomingHttpHeaders, { etag, lastModified }: Validators): boolean {
  const tags = headers["if-none-match"];
  if (tags !== undefined) return tags === etag || matchesWeakly(tags, etag);
  const since = headers["if-modified-since"];
  return since !== undefined && lastModified !== null && hasChangedSince(lastModified, since) === false;
}

function matchesWeakly(header: string, etag: string | null): boolean {
  const tags = parseEntityTags(header);
  if (tags === null || tags === "any") return tags === "any";
  return etag !== null && tags.some((tag) => isSameContent(tag, etag));
}

const isSameContent = (one: string, other: string) => contentOf(one) === contentOf(other);

/** A tag without what says how the content is sent: `W/"v1-7-gzip"` → `"v1-7"`. */
export const contentOf = (tag: string): string => tag.replace(/^W\//, "").replace(/-(?:gzip|br)"$/, '"');

/** The tag of a body that is sent in this coding: `"v1-7"` → `"v1-7-gzip"`. A strong tag is that of the same bytes. */
export const tagIn = (etag: string, coding: Coding | null): string =>
  coding === null ? etag : `${etag.slice(0, -1)}-${coding}"`;

/** The tag of a 304: that of the copy which the client has, in whatever coding. Source: RFC 9111, 4.3.4. */
export function tagOfCopy({ "if-none-match": header = "" }: IncomingHttpHeaders, etag: string): string {
  const tags = header === etag ? null : parseEntityTags(header);
  const found = Array.isArray(tags) ? tags.find((tag) => isSameContent(tag, etag)) : undefined;
  return found?.replace(/^W\//, "") ?? etag;
}

/**
 * The tags of If-None-Match or If-Match, in order; null for a malformed list.
 *
 *   parseEntityTags('"a", W/"b"')  // ['"a"', 'W/"b"']
 *   parseEntityTags("*")           // "any"
 *   parseEntityTags("a")           // null
 */
export function parseEntityTags(header: string): "any" | readonly string[] | null {
  if (header.trim() === "*") return "any";
  const tags: string[] = [];
  let at = 0;
  while (at < header.length) {
    ELEMENT.lastIndex = at;
    const element = ELEMENT.exec(header);
    if (element === null) return null;
    if (element[1] !== undefined) tags.push(element[1]);
    at = ELEMENT.lastIndex;
  }
  return tags.length > 0 ? tags : null;
}

/** A tag, or nothing, until the next comma. A tag may contain a comma, so the list cannot be split at commas. */
const ELEMENT = /[ \t]*((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")?[ \t]*(?:,|$)/y;

/** `Sun, 06 Nov 1994 08:49:37 GMT` */
export const lastModifiedText = (date: Date): string => date.toUTCString();

/** Whether the date is later than that of the header, in whole seconds; null when the header is not a valid HTTP date. */
export function hasChangedSince(date: Date, header: string): boolean | null {
  const since = parseHttpDate(header);
  return since === null ? null : Math.floor(date.getTime() / 1000) > since.getTime() / 1000;
}

const DAYS = "(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat)";
const LONG_DAYS = "(?:Sunday|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday)";
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTH = `(?<month>${MONTHS.join("|")})`;
const TIME = "(?<hours>\\d{2}):(?<minutes>\\d{2}):(?<seconds>\\d{2})";

/** The date formats of HTTP. Source: RFC 9110, 5.6.7. */
const DATE_FORMS = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  new RegExp(`^${DAYS}, (?<day>\\d{2}) ${MONTH} (?<year>\\d{4}) ${TIME} GMT$`),
  // Sunday, 06-Nov-94 08:49:37 GMT
  new RegExp(`^${LONG_DAYS}, (?<day>\\d{2})-${MONTH}-(?<year>\\d{2}) ${TIME} GMT$`),
  // Sun Nov  6 08:49:37 1994
  new RegExp(`^${DAYS} ${MONTH} (?<day>\\d{2}| \\d) ${TIME} (?<year>\\d{4})$`),
];

export function parseHttpDate(text: string): Date | null {
  const groups = DATE_FORMS.map((form) => form.exec(text)?.groups).find((found) => found !== undefined);
  if (groups === undefined) return null;
  const [day, hours, minutes, seconds] = [groups.day, groups.hours, groups.minutes, groups.seconds].map(Number);
  const date = new Date(
    Date.UTC(yearOf(groups.year!), MONTHS.indexOf(groups.month!), day!, hours!, minutes!, seconds!),
  );
  // JavaScript would read `31 Feb` as a day in March.
  const isReal = date.getUTCDate() === day && hours! < 24 && minutes! < 60 && seconds! <= 60;
  return isReal ? date : null;
}

/** A two-digit year that would be more than 50 years in the future belongs to the previous century. */
function yearOf(text: string): number {
  if (text.length === 4) return Number(text);
  const now = new Date().getUTCFullYear();
  const year = now - (now % 100) + Number(text);
  return year > now + 50 ? year - 100 : year;
}

/** A document that does not change while the service runs. */
export type Content = {
  readonly type: string;
  readonly text: string | Buffer;
  readonly headers: Readonly<Record<string, string>>;
};

/** Serves a document, or 304. Express ignores If-None-Match when `fetch` sends Cache-Control: no-cache with it. */
export function contentHandler({ type, text, headers }: Content): RequestHandler {
  const body = typeof text === "string" ? Buffer.from(text) : text;
  const etag = contentTag(body);
  return async (request, response) => {
    response.set(headers).vary("Accept-Encoding");
    if (isNotModified(request.headers, { etag, lastModified: null }))
      return void response.set("ETag", tagOfCopy(request.headers, etag)).status(304).end();
    const coding = codingOf(request, type, body.length);
    response.set("ETag", tagIn(etag, coding)).set("Content-Type", type);
    if (coding !== null) response.set("Content-Encoding", coding);
    response.send(coding === null ? body : await compress(body, coding));
  };
}

/** A script that is stored compressed, and decompressed only for clients without gzip. It is read with the first request. */
export function compressedHandler(file: URL | string, cacheControl: string): RequestHandler {
  let content: { readonly body: Buffer; readonly etag: string } | undefined;
  const read = () => {
    const body = readFileSync(file);
    return { body, etag: `W/${contentTag(body)}` };
  };
  return (request, response) => {
    content ??= read();
    const { body, etag } = content;
    response.set({ "Cache-Control": cacheControl, ETag: etag }).vary("Accept-Encoding");
    if (isNotModified(request.headers, { etag, lastModified: null })) response.status(304).end();
    else if (request.acceptsEncodings("gzip")) response.type("js").set("Content-Encoding", "gzip").send(body);
    else response.type("js").send(gunzipSync(body));
  };
}
