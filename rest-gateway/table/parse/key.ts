import { parserCache } from "../../cache.ts";
import type { Field, Logic } from "../request.ts";
import { readName, readPath } from "./field.ts";
import { Scanner } from "./scanner.ts";

/** The name of a query parameter. `path` is that of an embedded relation, `"author.articles"`, or "". */
export type Key =
  | { readonly kind: "select" | "columns" | "on_conflict" }
  | { readonly kind: "order" | "limit" | "offset"; readonly path: string }
  | {
      readonly kind: "logic";
      readonly path: string;
      readonly operator: Logic["operator"];
      readonly isNegated: boolean;
    }
  | { readonly kind: "filter"; readonly path: string; readonly field: Field };

/** A quoted name is never a reserved word. */
type Name = { readonly text: string; readonly isQuoted: boolean };

const cache = parserCache<Key>();

/**
 * Parses the name of a parameter. The last dot before an arrow separates the path of the relation from the field:
 *
 *   parseKey("author.data->>name")  // filters author by data->>name
 *   parseKey("author.not.or")       // a negated condition on author
 *   parseKey('"limit"')             // filters by the column limit
 */
export const parseKey = (text: string): Key => cache.getOrCompute(text, readKey);

function readKey(text: string): Key {
  const scanner = new Scanner("parameter name", text);
  const names: Name[] = [];
  do {
    scanner.skipSpace();
    names.push({ isQuoted: scanner.sees('"'), text: readName(scanner) });
  } while (scanner.takes("."));
  const path = readPath(scanner);
  scanner.expectEnd('".", "->", "->>" or the end');
  const last = names.pop()!;
  const reserved = last.isQuoted || path.length > 0 ? null : reservedKey(last.text, names);
  return reserved ?? { kind: "filter", path: join(names), field: { name: last.text, path } };
}

function reservedKey(word: string, path: readonly Name[]): Key | null {
  switch (word) {
    case "select":
    case "columns":
    case "on_conflict":
      return path.length === 0 ? { kind: word } : null;
    case "order":
    case "limit":
    case "offset":
      return { kind: word, path: join(path) };
    case "and":
    case "or":
      return logicKey(word, path);
    default:
      return null;
  }
}

function logicKey(operator: Logic["operator"], names: readonly Name[]): Key {
  const path = names.filter(({ text, isQuoted }) => isQuoted || text !== "not");
  return { kind: "logic", path: join(path), operator, isNegated: path.length < names.length };
}

const join = (path: readonly Name[]) => path.map(({ text }) => text).join(".");
