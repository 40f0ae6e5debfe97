import { problem } from "../../problems/problem.ts";
import type { Scanner } from "./scanner.ts";

/** `data->address->>city` → `{ name: "data", path: [{ arrow: "->", key: "address" }, { arrow: "->>", key: "city" }] }` */
export type Field = { readonly name: string; readonly path: readonly JsonStep[] };
export type JsonStep = { readonly arrow: "->" | "->>"; readonly key: string | number };

/** Postgres truncates longer names. */
const MAX_NAME_BYTES = 63;
const MAX_INDEX = 2 ** 31 - 1;
/** Of all paths in one text. The longest URL has 5000. */
const MAX_STEPS = 5000;
const NO_STEPS: readonly JsonStep[] = [];

/**
 * A name, quoted or bare. A bare name consists of inner spaces, dashes, and the characters that Postgres accepts
 * without quotes: `first name`, `créé-le`, `"a.b"`.
 */
export function readName(scanner: Scanner): string {
  const start = scanner.at;
  const name = scanner.sees('"') ? scanner.takeQuoted() : trimSpaces(takeDashed(scanner, isNameCode));
  if (name === null) throw scanner.error('a name with a closing "');
  if (name !== "") return name;
  scanner.at = start;
  throw scanner.error("a name");
}

export const tooDeep = (what: string, max: number) =>
  problem("too deep", { what, max, hint: "Split it into several requests." });

export function refuseLongName(name: string): void {
  if (Buffer.byteLength(name) > MAX_NAME_BYTES)
    throw problem("name too long", { name: name.slice(0, 20), max: MAX_NAME_BYTES });
}

/** `data->address->>city`, `data->0`, `data->-1->"a.b"` */
export const readField = (scanner: Scanner): Field => ({ name: readName(scanner), path: readPath(scanner) });

export function readPath(scanner: Scanner): readonly JsonStep[] {
  scanner.skipSpace();
  if (!scanner.sees("->")) return NO_STEPS;
  const path: JsonStep[] = [];
  for (let arrow = takeArrow(scanner); arrow !== null; arrow = takeArrow(scanner)) {
    if (++scanner.steps > MAX_STEPS) throw tooDeep("a JSON path", MAX_STEPS);
    path.push({ arrow, key: readKey(scanner) });
  }
  return path;
}

function takeArrow(scanner: Scanner): JsonStep["arrow"] | null {
  if (scanner.takes("->>")) return "->>";
  return scanner.takes("->") ? "->" : null;
}

/** A key, or an array index if it consists of digits. A quoted text is always a key. */
function readKey(scanner: Scanner): string | number {
  const start = scanner.at;
  const isQuoted = scanner.sees('"');
  const key = isQuoted ? scanner.takeQuoted() : trimSpaces(takeDashed(scanner, isKeyCode));
  if (key === null) throw scanner.error('a key with a closing "');
  if (isQuoted) return key;
  const isIndex = /^-?[0-9]+$/.test(key);
  if (isIndex && Math.abs(Number(key)) <= MAX_INDEX) return Number(key);
  if (!isIndex && key !== "" && !key.startsWith("-")) return key;
  scanner.at = start;
  throw scanner.error(isIndex ? `an index up to ${MAX_INDEX}, or a key in quotes` : "a key or an index");
}

/** Takes the characters that pass the test, and dashes that do not begin an arrow. */
function takeDashed(scanner: Scanner, isPart: (code: number) => boolean): string {
  const start = scanner.at;
  scanner.takeWhile(isPart);
  while (scanner.sees("-") && !scanner.sees("->")) {
    scanner.at++;
    scanner.takeWhile(isPart);
  }
  return scanner.text.slice(start, scanner.at);
}

const tableOf = (characters: string) => {
  const table = new Uint8Array(128);
  for (const character of characters) table[character.charCodeAt(0)] = 1;
  return table;
};
const NAME_CODES = tableOf("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$ ");
const KEY_ENDS = tableOf("(-:.,>)");

export const isNameCode = (code: number) => code >= 128 || NAME_CODES[code] === 1;
const isKeyCode = (code: number) => code >= 128 || KEY_ENDS[code] === 0;

function trimSpaces(text: string): string {
  let start = 0;
  let end = text.length;
  while (text[start] === " ") start++;
  while (end > start && text[end - 1] === " ") end--;
  return start === 0 && end === text.length ? text : text.slice(start, end);
}
