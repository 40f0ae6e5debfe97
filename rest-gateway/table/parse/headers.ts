import type { IncomingHttpHeaders } from "node:http";
import { parserCache } from "../../../cache/text-cache.ts";
import { readPair, splitList } from "../../conventions/headers.ts";
import { invalidPreferences, invalidRange } from "../problem.ts";
import type { Preferences, Range } from "../request.ts";
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
    ["max-affected", { key: "maxAffected", read: wholeNumber }],
  ]);

/** The only preference without a value. Source: RFC 7240, 4.1. */
const RESPOND_ASYNC = "respond-async";

export const NO_PREFERENCES: Preferences = {
  resolution: null,
  missing: null,
  return: null,
  count: null,
  tx: null,
  handling: null,
  timezone: null,
  maxAffected: null,
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
