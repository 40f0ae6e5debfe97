import { parserCache } from "../../../cache/cache.ts";
import { type Field, readField } from "../../../db/filters/field.ts";
import { Scanner } from "../../../db/filters/scanner.ts";
import type { OrderTerm } from "../request.ts";
import { refuseManyColumns } from "./select.ts";

const DIRECTIONS: readonly Suffix<"direction">[] = [
  { text: ".asc", meaning: "asc" },
  { text: ".desc", meaning: "desc" },
];
const NULLS: readonly Suffix<"nulls">[] = [
  { text: ".nullsfirst", meaning: "first" },
  { text: ".nullslast", meaning: "last" },
];
type Suffix<Key extends "direction" | "nulls"> = { readonly text: string; readonly meaning: OrderTerm[Key] };

const cache = parserCache<readonly OrderTerm[]>();

/** Parses the value of `order=`: `title,author(name).desc.nullslast,data->>year.asc`. */
export const parseOrder = (text: string): readonly OrderTerm[] => cache.getOrCompute(text, readOrder);

function readOrder(text: string): OrderTerm[] {
  const scanner = new Scanner("order", text);
  const terms: OrderTerm[] = [];
  do {
    refuseManyColumns("order", terms.length + 1);
    terms.push(readTerm(scanner));
  } while (scanner.takes(","));
  scanner.expectEnd('".asc", ".desc", ".nullsfirst", ".nullslast", "," or the end');
  return terms;
}

function readTerm(scanner: Scanner): OrderTerm {
  scanner.skipSpace();
  const first = readField(scanner);
  const isRelation = first.path.length === 0 && scanner.takes("(");
  const field = isRelation ? readInner(scanner) : first;
  const direction = takeSuffix(scanner, DIRECTIONS);
  const nulls = takeSuffix(scanner, NULLS);
  scanner.skipSpace();
  return { relation: isRelation ? first.name : null, field, direction, nulls };
}

function readInner(scanner: Scanner): Field {
  scanner.skipSpace();
  const field = readField(scanner);
  scanner.expect(")");
  return field;
}

const takeSuffix = <Key extends "direction" | "nulls">(scanner: Scanner, suffixes: readonly Suffix<Key>[]) =>
  suffixes.find(({ text }) => scanner.takes(text))?.meaning ?? null;
