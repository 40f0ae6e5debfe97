import { tooMany } from "../../../db/filters/patterns.ts";
import { unreadable } from "../../../db/filters/scanner.ts";

const NO_NUL = "any character but NUL";

/** Maximum parameters of a query string or a form. */
export const MAX_PARAMETERS = 10_000;

/** Maximum characters of the names of all parameters: they are parsed, while most values are only passed on. */
const MAX_NAME_CHARACTERS = 262_144;

export function refuseManyParameters(count: number): void {
  if (count > MAX_PARAMETERS) throw tooMany("parameters", MAX_PARAMETERS);
}

/**
 * The pairs of a query string or a form, in order; `+` is a space. A `%` that is not followed by two hex digits stands for
 * itself, so that `like.50%` works. `value` is null without `=`.
 */
export function eachPair(parameter: string, text: string, visit: (name: string, value: string | null) => void): void {
  const decoded = (piece: string) => decodePiece(parameter, piece);
  let count = 0;
  let characters = 0;
  for (let start = 0; start < text.length; ) {
    refuseManyParameters(++count);
    const end = indexOrEnd(text, "&", start);
    const pair = text.slice(start, end);
    const equals = pair.indexOf("=");
    characters += equals === -1 ? pair.length : equals;
    if (characters > MAX_NAME_CHARACTERS) throw tooMany("characters in names of parameters", MAX_NAME_CHARACTERS);
    if (equals !== -1) visit(decoded(pair.slice(0, equals)), decoded(pair.slice(equals + 1)));
    else if (pair !== "") visit(decoded(pair), null);
    start = end + 1;
  }
}

/** Throws for a `%` without two hex digits, for bytes that are not UTF-8, and for NUL, which Postgres cannot store. */
export function decodeText(parameter: string, text: string): string {
  if (PLAIN.test(text)) return text;
  const decoded = decodeBytes(parameter, text);
  const nul = decoded.indexOf("\0");
  if (nul !== -1) throw unreadable(parameter, decoded, nul, NO_NUL);
  return decoded;
}

/** Printable ASCII without `%` and `+`, which needs no decoding. */
const PLAIN = /^[!-$&-*,-~]*$/;
const STRAY_PERCENT = /%(?![0-9a-f]{2})/gi;
const ENCODED = /%(?:[0-9a-f]{2}(?:%[0-9a-f]{2})*)?/gi;

/** A name or value of a query string or a form. */
export function decodePiece(parameter: string, piece: string): string {
  if (PLAIN.test(piece)) return piece;
  // `replaceAll` takes six times as long for many.
  return decodeText(parameter, piece.split("+").join(" ").replace(STRAY_PERCENT, "%25"));
}

function decodeBytes(parameter: string, text: string): string {
  try {
    if (text.isWellFormed()) return decodeURIComponent(text);
  } catch {}
  throw unreadable(parameter, text, indexOfInvalidBytes(text), "UTF-8, percent-encoded");
}

function indexOfInvalidBytes(text: string): number {
  for (const { 0: bytes, index } of text.matchAll(ENCODED)) {
    try {
      decodeURIComponent(bytes);
    } catch {
      return index;
    }
  }
  return 0;
}

function indexOrEnd(text: string, character: string, from: number): number {
  const index = text.indexOf(character, from);
  return index === -1 ? text.length : index;
}
