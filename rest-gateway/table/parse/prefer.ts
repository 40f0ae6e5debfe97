import { readPair, splitList } from "../../conventions/header-list.ts";
import { Memo } from "../../conventions/memo-cache.ts";
import { invalidPreferences } from "../problem.ts";
import type { Preferences } from "../request.ts";
import { MAX_DIGITS } from "./row-count.ts";

type Value = string | number;
type Name = Exclude<keyof Preferences, "respondsAsync" | "invalid">;

/** What each preference may be; null is what it can't be. */
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

/** The one preference without a value. Source: RFC 7240, 4.1. */
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
  respondsAsync: false,
  invalid: [],
};

const memo = new Memo<Preferences>();

/**
 * The header Prefer: `return=representation, count=exact`. Of a preference that comes twice the first counts. What is no
 * preference is told in `invalid`, and refused with `handling=strict`.
 */
export function parsePreferences(header: string | readonly string[] | undefined): Preferences {
  if (header === undefined) return NO_PREFERENCES;
  const preferences = memo.of(typeof header === "string" ? header : header.join(), readPreferences);
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
