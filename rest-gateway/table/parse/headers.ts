import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { parserCache } from "../../../cache/cache.ts";
import { readPair, splitList } from "../../conventions/headers.ts";
import { invalidPreferences, invalidRange, streamNotPossible } from "../problem.ts";
import { type Preferences, QUERY_TYPE, type Range, type RequestText, type TableRequest } from "../request.ts";
import { MAX_DIGITS } from "./query-string.ts";

type Value = string | number;
type Name = Exclude<keyof Preferences, "respondsAsync" | "invalid">;

/** The values of each preference; null for a value that is not valid. */
const PREFERENCES: ReadonlyMap<string, { readonly key: Name; readonly read: (value: string) => Value | null }> =
  new Map([
    ["resolution", { key: "resolution", read: oneOf("merge-duplicates", "ignore-duplicates") }],
    ["missing", { key: "missing", read: oneOf("default", "null") }],
    ["return", { key: "return", read: oneOf("minimal", "headers-only", "representation") }],
    ["count", { key: "count", read: oneOf("exact", "planned", "estimated") }],
    ["tx", { key: "tx", read: oneOf("commit", "rollback") }],
    ["handling", { key: "handling", read: oneOf("strict", "lenient") }],
    ["timezone", { key: "timezone", read: anyText }],
    ["read", { key: "read", read: oneOf("primary") }],
    ["max-affected", { key: "maxAffected", read: wholeNumber }],
  ]);

/** The only preference without a value. Source: RFC 7240, 4.1. */
const RESPOND_ASYNC = "respond-async";

const NO_PREFERENCES: Preferences = {
  resolution: null,
  missing: null,
  return: null,
  count: null,
  tx: null,
  handling: null,
  timezone: null,
  maxAffected: null,
  read: null,
  respondsAsync: false,
  invalid: [],
};

const cache = parserCache<Preferences>();

/**
 * The header Prefer: `return=representation, count=exact`. If a preference is repeated, the first one applies. Invalid
 * preferences are listed in `invalid`, and are an error with `handling=strict`.
 */
export function parsePreferences(header: string | readonly string[] | undefined): Preferences {
  if (header === undefined) return NO_PREFERENCES;
  const preferences = cache.getOrCompute(typeof header === "string" ? header : header.join(), readPreferences);
  const { handling, invalid } = preferences;
  if (handling === "strict" && invalid.length > 0) throw invalidPreferences(invalid);
  return preferences;
}

function readPreferences(text: string): Preferences {
  const found = new Map<Name, Value>();
  const invalid: string[] = [];
  let respondsAsync = false;
  for (const item of splitList(text, ",")) {
    const [first = ""] = splitList(item, ";");
    if (first.toLowerCase() === RESPOND_ASYNC) {
      respondsAsync = true;
      continue;
    }
    const pair = readPair(first);
    const preference = pair && PREFERENCES.get(pair.name);
    const value = preference ? preference.read(pair.value) : null;
    if (!preference || value === null) invalid.push(item);
    else if (!found.has(preference.key)) found.set(preference.key, value);
  }
  return { ...NO_PREFERENCES, ...(Object.fromEntries(found) as Partial<Preferences>), respondsAsync, invalid };
}

function oneOf(...values: readonly string[]) {
  return (value: string) => (values.includes(value) ? value : null);
}
function anyText(value: string) {
  return value === "" ? null : value;
}
function wholeNumber(value: string) {
  return /^[0-9]+$/.test(value) && value.length <= MAX_DIGITS ? Number(value) : null;
}

const RANGE = /^(?:items *= *)?([0-9]+)-([0-9]*)$/;
const MAX_ROW = 10 ** MAX_DIGITS - 1;

/**
 * `Range: 0-9`, `Range: items=10-`. A malformed range or another unit is ignored, as HTTP requires. Numbers beyond the
 * size of any table are clamped.
 */
export function parseRange(headers: IncomingHttpHeaders): Range | null {
  const found = headers.range === undefined ? null : RANGE.exec(headers.range);
  if (found === null || !countsItems(headers["range-unit"])) return null;
  const first = rowOf(found[1]!);
  const last = found[2] === "" ? null : rowOf(found[2]!);
  if (last !== null && last < first)
    throw invalidRange("The lower boundary must be lower than or equal to the upper boundary in the Range header.");
  return { first, last };
}

const countsItems = (unit: unknown) => unit === undefined || String(unit).toLowerCase() === "items";
const rowOf = (digits: string) => Math.min(Number(digits), MAX_ROW);

/** The schema in Accept-Profile or Content-Profile; null for the default schema. Node decodes each byte as one character. */
export function parseProfile(header: string | readonly string[] | undefined): string | null {
  const name = typeof header === "string" ? header : header?.[0];
  return name ? Buffer.from(name, "latin1").toString() : null;
}

const EVENT_STREAM = "text/event-stream";

/** Whether a client wants the rows and then their changes: `Accept: text/event-stream`. */
export const wantsStream = ({ method, accept }: TableRequest): boolean =>
  method === "GET" && accept[0]?.type === EVENT_STREAM;

/** Maximum characters of the query string of a stream, in the URL or in the body: it is read before anything else is known about the stream. */
const MAX_STREAM_QUERY = 65_536;

/** Maximum bytes of a form, and of a query string in a body: they are decoded in one piece, in 30 ms. */
const MAX_FORM = 4_194_304;

/** Maximum bytes of the body of a request. That of a stream is its query, and a longer one is refused before it is read. */
export function bodyLimitOf({ method, headers }: IncomingMessage, most: number): number {
  const isQuery = method === "QUERY" || /^(GET|QUERY)$/i.test(String(headers["x-http-method-override"]));
  if (isQuery && headers.accept?.includes(EVENT_STREAM)) return Math.min(most, MAX_STREAM_QUERY);
  return isQuery || headers["content-type"]?.toLowerCase().includes(QUERY_TYPE) ? Math.min(most, MAX_FORM) : most;
}

/** Throws Problem for a request of a stream that takes long to read. */
export function refuseLongStream({ headers, url }: RequestText): void {
  if (url.search.length > MAX_STREAM_QUERY && headers.accept?.includes(EVENT_STREAM))
    throw streamNotPossible(`the query of a stream can have at most ${MAX_STREAM_QUERY} characters`);
}
