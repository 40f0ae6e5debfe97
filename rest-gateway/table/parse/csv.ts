import { invalidBody } from "../problem.ts";

/** `text` is a JSON array of objects. */
export type CsvObjects = { readonly text: string; readonly columns: readonly string[]; readonly rows: number };

/**
 * Converts CSV with a header to JSON. Every value is a string, which Postgres converts to the column's type, except an
 * unquoted NULL.
 *
 *   parseCsv('id,name\n1,"a ""b"""\n2,NULL\n').text  // [{"id":"1","name":"a \"b\""},{"id":"2","name":null}]
 * Source: RFC 4180; lines may also end in \n or \r, and empty lines are skipped.
 */
export function parseCsv(csv: string): CsvObjects {
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
