import type { JsonContent } from "./request.ts";

export type Row = Readonly<Record<string, unknown>>;

export type Span = { readonly first: number; readonly end: number };

/** The rows of a body. */
export type BodyRows = {
  readonly count: number;
  row(index: number): Row;
  /** The JSON of the rows from `first` up to, but not including, `end`. */
  textOf(span: Span): JsonContent["text"];
  /** Null for a large body, whose rows are parsed one at a time. */
  readonly all: readonly Row[] | null;
};

/** Null for a large body that is one object. */
export function rowsOf({ text, elements }: JsonContent): BodyRows | null {
  if (typeof text !== "string") return elements ? rowsOfLarge(text[0]!, elements) : null;
  const body: Row | readonly Row[] = JSON.parse(text);
  const all: readonly Row[] = Array.isArray(body) ? body : [body];
  return {
    all,
    count: all.length,
    row: (index) => all[index]!,
    textOf: ({ first, end }) => JSON.stringify(all.slice(first, end)),
  };
}

function rowsOfLarge(text: Buffer, elements: Uint32Array): BodyRows {
  const between = (first: number, end: number) => text.subarray(elements[first], elements[end]! - 1);
  return {
    all: null,
    count: elements.length - 1,
    row: (index) => JSON.parse(between(index, index + 1).toString()),
    textOf: ({ first, end }) => [OPEN, between(first, end), CLOSE],
  };
}

const OPEN = Buffer.from("[");
const CLOSE = Buffer.from("]");
