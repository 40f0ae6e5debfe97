import { hash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { RequestHandler } from "express";

/** What a client may have kept of an answer, to ask whether it is still good. */
export type Validators = { readonly etag: string | null; readonly lastModified: Date | null };

/** The strong entity tag of a content, quotes included: `"Kq5sNclPz7QV2-lf"`. */
export const contentTag = (body: Buffer): string => `"${hash("sha1", body, "base64url").slice(0, TAG_LENGTH)}"`;

/** 96 bits: nobody has two contents of one address that share them. */
const TAG_LENGTH = 16;

/**
 * Whether what the client has is still good, for GET and HEAD. If-None-Match goes before If-Modified-Since: where the one
 * is sent, and be it malformed, the other is not looked at. Source: RFC 9110, 13.2.2.
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
  return etag !== null && tags.some((tag) => opaqueOf(tag) === opaqueOf(etag));
}

const opaqueOf = (tag: string) => (tag.startsWith("W/") ? tag.slice(2) : tag);

/**
 * The tags of If-None-Match or If-Match, as they stand there; null for what is no list of tags.
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

/** A tag, or nothing, up to the next comma. A tag may have a comma in it, so that the list can't be split at them. */
const ELEMENT = /[ \t]*((?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")?[ \t]*(?:,|$)/y;

/** `Sun, 06 Nov 1994 08:49:37 GMT` */
export const lastModifiedText = (date: Date): string => date.toUTCString();

/** Whether the date is later than that of the header, in whole seconds; null when the header is no date of HTTP. */
export function hasChangedSince(date: Date, header: string): boolean | null {
  const since = parseHttpDate(header);
  return since === null ? null : Math.floor(date.getTime() / 1000) > since.getTime() / 1000;
}

const DAYS = "(?:Sun|Mon|Tue|Wed|Thu|Fri|Sat)";
const LONG_DAYS = "(?:Sunday|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday)";
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const MONTH = `(?<month>${MONTHS.join("|")})`;
const TIME = "(?<hours>\\d{2}):(?<minutes>\\d{2}):(?<seconds>\\d{2})";

/** How a date may stand in a header. Source: RFC 9110, 5.6.7. */
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
  // `31 Feb` would be taken for a day of March.
  const isReal = date.getUTCDate() === day && hours! < 24 && minutes! < 60 && seconds! <= 60;
  return isReal ? date : null;
}

/** A year of two digits that lies more than 50 years ahead is one of the last century. */
function yearOf(text: string): number {
  if (text.length === 4) return Number(text);
  const now = new Date().getUTCFullYear();
  const year = now - (now % 100) + Number(text);
  return year > now + 50 ? year - 100 : year;
}

/** What stays the same while the service runs. */
export type Content = {
  readonly type: string;
  readonly text: string;
  readonly headers: Readonly<Record<string, string>>;
};

/** Serves a content to those who don't have it yet. Express itself would not heed If-None-Match of `fetch`. */
export function contentHandler({ type, text, headers }: Content): RequestHandler {
  const body = Buffer.from(text);
  const etag = contentTag(body);
  return (request, response) => {
    response.set(headers).set("ETag", etag);
    if (isNotModified(request.headers, { etag, lastModified: null })) response.status(304).end();
    else response.set("Content-Type", type).send(body);
  };
}
