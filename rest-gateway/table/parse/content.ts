import { isUtf8 } from "node:buffer";
import { elementsOf, InvalidJson, parseJsonText } from "../../../gate/pipeline/json-text.ts";
import type { JsonContent } from "../request.ts";

/** What is wrong with a body. Here and in the modules that this one imports are no others: a thread of its own starts with them. */
export class Malformed extends Error {
  readonly details: string | undefined;

  constructor(message: string, details?: string) {
    super(message);
    this.details = details;
  }
}

export type ContentType = "json" | "csv";

/** Reads a body to find its columns. Throws Malformed. */
export function readContent(type: ContentType, bytes: Buffer, maxDepth: number): JsonContent {
  return type === "json" ? readJson(bytes, maxDepth) : readCsv(bytes);
}

export type LargeContent = Omit<JsonContent, "text"> & {
  readonly text: Uint8Array;
  readonly elements: Uint32Array<ArrayBuffer> | null;
};

/** The same for a large body, whose text stays bytes. */
export function readLargeContent(type: ContentType, bytes: Buffer, maxDepth: number): LargeContent {
  const { text, ...content } = readContent(type, bytes, maxDepth);
  const json = type === "json" ? bytes : Buffer.from(text as string);
  return { ...content, text: json, elements: content.isArray ? elementsOf(json) : null };
}

function readJson(bytes: Buffer, maxDepth: number): JsonContent {
  try {
    return describe("json", bytes.toString(), parseJsonText(bytes, maxDepth));
  } catch (error) {
    if (error instanceof InvalidJson) throw new Malformed("Empty or invalid json", error.message);
    throw error;
  }
}

function readCsv(bytes: Buffer): JsonContent {
  if (!isUtf8(bytes)) throw new Malformed(NOT_UTF8);
  const { text, columns, rows } = parseCsv(bytes.toString());
  return { source: "csv", text, isArray: true, keys: [...columns].sort(), rows, isOther: false };
}

export const NOT_UTF8 = "the body is not valid UTF-8";

export function describe(source: JsonContent["source"], text: string, value: unknown): JsonContent {
  const isArray = Array.isArray(value);
  const all: readonly unknown[] = isArray ? value : [value];
  const isOther = !all.every(isObject);
  const keys = isOther ? null : keysOfAll(all as readonly object[]);
  return { source, text, isArray, keys, rows: isOther ? 0 : all.length, isOther };
}

/** Sorted, so that equal keys give equal shapes; null when the objects have different keys. */
function keysOfAll([first, ...others]: readonly object[]): readonly string[] | null {
  if (first === undefined) return [];
  const keys = Object.keys(first);
  const isAlike = (other: object) => {
    const names = Object.keys(other);
    return names.length === keys.length && names.every((name, i) => name === keys[i] || Object.hasOwn(first, name));
  };
  return others.every(isAlike) ? keys.sort() : null;
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** `text` is a JSON array of objects. */
type CsvObjects = { readonly text: string; readonly columns: readonly string[]; readonly rows: number };

/**
 * Converts CSV with a header to JSON. Every value is a string, which Postgres converts to the column's type, except an
 * unquoted NULL.
 *
 *   parseCsv('id,name\n1,"a ""b"""\n2,NULL\n').text  // [{"id":"1","name":"a \"b\""},{"id":"2","name":null}]
 * Source: RFC 4180; lines may also end in \n or \r, and empty lines are skipped.
 */
function parseCsv(csv: string): CsvObjects {
  const reader = new CsvReader(csv);
  const columns = reader.record()?.map((value) => value ?? "NULL");
  if (!columns) throw invalid("the header is missing");
  if (new Set(columns).size < columns.length) throw invalid("the header names a column twice");
  const keys = columns.map((column) => `${JSON.stringify(column)}:`);
  const objects: string[] = [];
  for (let record = reader.record(); record !== null; record = reader.record()) {
    if (record.length !== keys.length)
      throw new Malformed(
        "All lines must have same number of fields",
        `line ${reader.line} has ${record.length} fields, the header has ${keys.length}`,
      );
    objects.push(`{${record.map((value, i) => keys[i] + JSON.stringify(value)).join(",")}}`);
  }
  return { text: `[${objects.join(",")}]`, columns, rows: objects.length };
}

const COMMA = 0x2c;
const QUOTE = 0x22;
const LF = 0x0a;
const CR = 0x0d;
const isFieldEnd = (code: number) => code === COMMA || code === LF || code === CR;

class CsvReader {
  readonly #text: string;
  #at: number;
  /** The line where the last record begins, from 1. */
  line = 1;
  #nextLine = 1;

  constructor(text: string) {
    this.#text = text;
    this.#at = text.startsWith("\uFEFF") ? 1 : 0;
  }

  /** The fields of the next line that is not empty; null at the end. */
  record(): (string | null)[] | null {
    while (this.#takesLineEnd()) this.#nextLine++;
    if (this.#at >= this.#text.length) return null;
    this.line = this.#nextLine;
    const fields = [this.#field()];
    while (this.#text.charCodeAt(this.#at) === COMMA) {
      this.#at++;
      fields.push(this.#field());
    }
    if (this.#at < this.#text.length && !isFieldEnd(this.#text.charCodeAt(this.#at)))
      throw invalid(`unexpected text after a quoted field in line ${this.line}`);
    return fields;
  }

  #takesLineEnd(): boolean {
    const code = this.#text.charCodeAt(this.#at);
    if (code !== LF && code !== CR) return false;
    this.#at += this.#text.startsWith("\r\n", this.#at) ? 2 : 1;
    return true;
  }

  #field(): string | null {
    if (this.#text.charCodeAt(this.#at) === QUOTE) return this.#quoted();
    const start = this.#at;
    while (this.#at < this.#text.length && !isFieldEnd(this.#text.charCodeAt(this.#at))) this.#at++;
    const field = this.#text.slice(start, this.#at);
    return field === "NULL" ? null : field;
  }

  #quoted(): string {
    const start = this.#at + 1;
    const end = this.#closingQuote(start);
    if (end === -1) throw invalid(`a quote in line ${this.line} is not closed`);
    this.#at = end + 1;
    const field = this.#text.slice(start, end);
    this.#nextLine += field.split("\n").length - 1;
    return field.replaceAll('""', '"');
  }

  /** Two quotes in a row are an escaped quote. */
  #closingQuote(from: number): number {
    let end = this.#text.indexOf('"', from);
    while (end !== -1 && this.#text.charCodeAt(end + 1) === QUOTE) end = this.#text.indexOf('"', end + 2);
    return end;
  }
}

const invalid = (details: string) => new Malformed("Empty or invalid csv", details);
