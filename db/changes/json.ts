import { forPairs } from "../../cache/cache.ts";
import type { ChangedTable, Image, ValueShape } from "./change.ts";

/** The JSON of the computed columns of rows, by the index of the column. */
export const computedJson = new WeakMap<Image, ReadonlyMap<number, string>>();

/**
 * The JSON text of a row, as `row_to_json` writes it and so as the table interface does. `included` are the indexes
 * of the columns that it contains, `aliases` further names of some of them. Columns without a value are left out.
 */
export function imageJson(
  { columns }: ChangedTable,
  image: Image,
  included: readonly number[],
  aliases: Iterable<readonly [name: string, index: number]> = [],
): string {
  const computed = computedJson.get(image);
  let json = "{";
  const add = (name: string, i: number) => {
    const value = image[i];
    const known = computed?.get(i);
    if (value === undefined && known === undefined) return;
    json += `${json.length > 1 ? "," : ""}${JSON.stringify(name)}:${known ?? valueJson(value!, columns[i]!.shape)}`;
  };
  for (const i of included) add(columns[i]!.name, i);
  for (const [name, i] of aliases) add(name, i);
  return `${json}}`;
}

/** The indexes of the columns with these names in the rows of a table. */
export const columnIndexesOf = forPairs(({ columns }: ChangedTable, names: ReadonlySet<string>): readonly number[] =>
  [...columns.keys()].filter((i) => names.has(columns[i]!.name)),
);

/** The JSON text of a value in Postgres' text form. */
export function valueJson(value: string | null, shape: ValueShape): string {
  if (value === null) return "null";
  switch (shape.kind) {
    case "boolean":
      return value === "t" ? "true" : "false";
    case "number":
      // NaN and infinities are not JSON numbers.
      return /^-?[\d.]/.test(value) ? value : JSON.stringify(value);
    case "json":
      return value;
    case "timestamp":
      return JSON.stringify(isoTimestamp(value));
    case "array":
      return arrayJson(value, shape);
    case "composite":
      return compositeJson(value, shape.fields);
    default:
      return JSON.stringify(value);
  }
}

/** `2026-11-20 07:05:49.559+00` → `2026-11-20T07:05:49.559+00:00` */
const isoTimestamp = (text: string): string => text.replace(" ", "T").replace(/([+-]\d\d)(?=$| BC$)/, "$1:00");

type ArrayShape = Extract<ValueShape, { kind: "array" }>;

/**
 * Source: PostgreSQL documentation, "Array Input and Output Syntax".
 *
 *   arrayJson('{a,"b c",NULL}', …)  // ["a","b c",null]
 *   arrayJson('[2:3]={1,2}', …)     // [1,2]
 *   arrayJson('1 2', …)             // [1,2] of an int2vector
 */
function arrayJson(array: string, { element, delimiter }: ArrayShape): string {
  const text = /^[{[]/.test(array) ? array : `{${array.replaceAll(" ", delimiter)}}`;
  let json = "";
  let at = text.startsWith("[") ? text.indexOf("=") + 1 : 0;
  while (at < text.length) {
    const character = text[at]!;
    if (character === "{") json += "[";
    else if (character === "}") json += "]";
    else if (character === delimiter) json += ",";
    else {
      const { value, isQuoted, end } = readItem(text, at, `${delimiter}}`);
      json += valueJson(!isQuoted && value === "NULL" ? null : value, element);
      at = end;
      continue;
    }
    at++;
  }
  return json;
}

function compositeJson(text: string, fields: Extract<ValueShape, { kind: "composite" }>["fields"]): string {
  const values = parseRow(text);
  const members = fields.map(({ name, shape }, i) => `${JSON.stringify(name)}:${valueJson(values[i] ?? null, shape)}`);
  return `{${members.join(",")}}`;
}

/**
 * The values of a row in Postgres' text form.
 *
 *   parseRow('(1,"a ""b""",,"")')  // ["1", 'a "b"', null, ""]
 * Source: PostgreSQL documentation, "Composite Type Input and Output Syntax".
 */
export function parseRow(text: string): (string | null)[] {
  const values: (string | null)[] = [];
  let at = 1;
  do {
    const { value, isQuoted, end } = readItem(text, at, ",)");
    values.push(value === "" && !isQuoted ? null : value);
    at = end + 1;
  } while (text[at - 1] === ",");
  return values;
}

type Item = { readonly value: string; readonly isQuoted: boolean; readonly end: number };

/** Reads an item of an array or row up to one of the characters `ends`. Within quotes, `""` and `\"` stand for a quote. */
function readItem(text: string, start: number, ends: string): Item {
  if (text[start] !== '"') {
    let end = start;
    while (end < text.length && !ends.includes(text[end]!)) end++;
    return { value: text.slice(start, end), isQuoted: false, end };
  }
  let value = "";
  let from = start + 1;
  for (let at = from; ; at++) {
    const character = text[at];
    if (character !== '"' && character !== "\\" && character !== undefined) continue;
    value += text.slice(from, at);
    if (character === undefined || (character === '"' && text[at + 1] !== '"')) {
      return { value, isQuoted: true, end: at + 1 };
    }
    // The character after a backslash, or the second quote.
    from = ++at;
  }
}
