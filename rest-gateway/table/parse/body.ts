import { isUtf8 } from "node:buffer";
import { Problem } from "../../../db/problems/problem.ts";
import { parseJson } from "../../../http/pipeline/body.ts";
import { parseContentType } from "../../conventions/headers.ts";
import { invalidBody, unsupportedMediaType } from "../problem.ts";
import type { Body, Target } from "../request.ts";
import { eachPair } from "./url-encoded.ts";

type BodyOptions = {
  /** Functions accept more media types, and an empty body if they need no arguments. */
  readonly target: Target;
  readonly contentType: string | undefined;
  /** Levels of brackets. */
  readonly maxDepth: number;
};
type JsonBody = Extract<Body, { kind: "json" }>;
type TextType = Extract<Body, { kind: "text" }>["type"];

/** The media types that are converted to JSON. */
const JSON_READERS: Readonly<Record<string, (bytes: Buffer, options: BodyOptions) => JsonBody>> = {
  "application/json": parseJsonBody,
  "application/vnd.pgrst.object+json": parseJsonBody,
  "application/vnd.pgrst.array+json": parseJsonBody,
  "text/csv": (bytes, { target }) => {
    const { text, columns, rows } = parseCsv(textOf(bytes));
    // CSV with a header line but without rows calls a function without arguments.
    const keys = rows === 0 && target.kind === "function" ? [] : [...columns].sort();
    return { kind: "json", source: "csv", text, isArray: true, keys, rows, isOther: false };
  },
  "application/x-www-form-urlencoded": (bytes, { target }) => {
    const values = parseForm(textOf(bytes), target);
    return describe("form", JSON.stringify(values), values);
  },
};

const TEXT_TYPES: ReadonlySet<string> = new Set([
  "text/plain",
  "text/xml",
  "application/octet-stream",
] satisfies TextType[]);

/** Parses a body to find its columns. Throws Problem for an unsupported media type and for malformed content. */
export function parseBody(bytes: Buffer, options: BodyOptions): Body {
  const { target, contentType = "application/json" } = options;
  const media = parseContentType(contentType);
  const type = media?.type ?? "";
  const charset = media?.parameters.get("charset") ?? "utf-8";
  if (charset.toLowerCase() !== "utf-8") throw unsupportedMediaType(contentType);
  if (target.kind === "function" && TEXT_TYPES.has(type)) return parseText(bytes, type as TextType);
  if (!Object.hasOwn(JSON_READERS, type)) throw unsupportedMediaType(contentType);
  return JSON_READERS[type]!(bytes, options);
}

function parseText(bytes: Buffer, type: TextType): Body {
  if (type !== "application/octet-stream") textOf(bytes);
  return { kind: "text", type, bytes };
}

const NO_ARGUMENTS = Buffer.from("{}");

function parseJsonBody(bytes: Buffer, { target, maxDepth }: BodyOptions): JsonBody {
  const given = bytes.length === 0 && target.kind === "function" ? NO_ARGUMENTS : bytes;
  try {
    return describe("json", given.toString(), parseJson(given, maxDepth));
  } catch (error) {
    if (error instanceof Problem) throw invalidBody("Empty or invalid json", error.message);
    throw error;
  }
}

function describe(source: JsonBody["source"], text: string, value: unknown): JsonBody {
  const isArray = Array.isArray(value);
  const all: readonly unknown[] = isArray ? value : [value];
  const isOther = !all.every(isObject);
  const keys = isOther ? null : keysOfAll(all as readonly object[]);
  return { kind: "json", source, text, isArray, keys, rows: isOther ? 0 : all.length, isOther };
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

/** `a=1&b=x&b=y` → `{ a: "1", b: ["x", "y"] }` for a function, which may be variadic. For a column the last value applies. */
function parseForm(text: string, { kind }: Target): Record<string, string | string[]> {
  const fields = new Map<string, string[]>();
  const add = (name: string, value: string | null) => {
    const values = fields.get(name);
    if (values) values.push(value ?? "");
    else fields.set(name, [value ?? ""]);
  };
  try {
    eachPair("form", text, add);
  } catch (error) {
    if (error instanceof Problem) throw invalidBody("Empty or invalid form", String(error.more.details));
    throw error;
  }
  const isOne = (values: readonly string[]) => kind === "table" || values.length === 1;
  return Object.fromEntries([...fields].map(([name, values]) => [name, isOne(values) ? values.at(-1)! : values]));
}

/** Throws Problem for bytes that are not UTF-8. */
export function textOf(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw invalidBody("the body is not valid UTF-8");
  return bytes.toString();
}

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
    if (record.length !== keys.length) throw uneven(reader.line, record.length, keys.length);
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

const invalid = (details: string) => invalidBody("Empty or invalid csv", details);
const uneven = (line: number, found: number, expected: number) =>
  invalidBody(
    "All lines must have same number of fields",
    `line ${line} has ${found} fields, the header has ${expected}`,
  );
