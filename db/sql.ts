/** Where the text of a parameter comes from when the statement runs. */
export type Parameter =
  /** A value of the request. */
  | { readonly kind: "value"; readonly index: number }
  /** Several values, as one array literal. */
  | { readonly kind: "values"; readonly indexes: readonly number[] }
  /** Text that belongs to the shape of the request, such as the key of a JSON path. */
  | { readonly kind: "constant"; readonly text: string }
  /** The body of the request. */
  | { readonly kind: "body" };

/** A line break. `indent` is the change of indentation in front of the next line. */
type LineBreak = { readonly kind: "line break"; readonly indent: -1 | 0 | 1 };

/** A piece of SQL: text, line breaks, and parameters that have no number yet. */
export type Sql = { readonly pieces: readonly (string | Parameter | LineBreak)[] };

/** A finished statement; the n-th parameter is `$n`. */
export type Written = { readonly text: string; readonly parameters: readonly Parameter[] };

/**
 * Joins pieces of SQL. Only pieces can be interpolated, so the text of a request cannot become SQL. Polymorphic functions are
 * qualified with pg_catalog, because a schema may have its own `to_json`.
 *
 *   sql`select ${sql.identifier("users", "id")} = ${sql.parameter({ kind: "value", index: 0 })}`
 */
export function sql(strings: TemplateStringsArray, ...inner: readonly Sql[]): Sql {
  const pieces: Sql["pieces"][number][] = [];
  for (const [i, text] of strings.entries()) {
    pieces.push(text);
    // A spread of many pieces would exhaust the stack.
    if (i < inner.length) for (const piece of inner[i]!.pieces) pieces.push(piece);
  }
  return { pieces };
}

/** `sql.identifier("public", "a\"b")` → `"public"."a""b"` */
sql.identifier = (...names: readonly string[]): Sql => sql.trusted(names.map(quoteIdentifier).join("."));

sql.parameter = (parameter: Parameter): Sql => ({ pieces: [parameter] });

/** Text that belongs to the shape of the request. */
sql.constant = (text: string): Sql => sql.parameter({ kind: "constant", text });

sql.integer = (value: number): Sql => {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is not a safe integer`);
  return sql.trusted(String(value));
};

/** Text that is SQL already: from this program or from the catalog. */
sql.trusted = (text: string): Sql => ({ pieces: [text] });

sql.empty = { pieces: [] } as Sql;

/** Begins a new line, at the start of a clause. */
sql.line = { pieces: [{ kind: "line break", indent: 0 }] } as Sql;

/** A query in brackets, on indented lines. */
sql.subquery = (query: Sql): Sql => sql`(${INDENT}${query}${OUTDENT})`;

/** A list with one item on each indented line. A new line follows it. */
sql.lines = (items: readonly Sql[]): Sql => {
  const [first = sql.empty, ...others] = items;
  return sql`${INDENT}${first}${sql.join(
    others.map((item) => sql`,${sql.line}${item}`),
    "",
  )}${OUTDENT}`;
};

const INDENT: Sql = { pieces: [{ kind: "line break", indent: 1 }] };
const OUTDENT: Sql = { pieces: [{ kind: "line break", indent: -1 }] };

sql.join = (items: readonly Sql[], separator: string): Sql => ({
  pieces: items.flatMap((item, i) => (i === 0 ? item.pieces : [separator, ...item.pieces])),
});

/** One clause per line. */
sql.clauses = (...clauses: readonly Sql[]): Sql =>
  clauses.reduce((before, clause) => sql`${before}${sql.line}${clause}`);

export const quoteIdentifier = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** Numbers the parameters. Equal parameters get one number, so that Postgres knows that they are the same. */
export function finish({ pieces }: Sql): Written {
  const numbers = new Map<string, number>();
  const parameters: Parameter[] = [];
  let indent = 0;
  let text = "";
  for (const piece of pieces) {
    if (typeof piece === "string") {
      text += piece;
    } else if (piece.kind === "line break") {
      indent += piece.indent;
      text += `\n${"  ".repeat(indent)}`;
    } else {
      const key = JSON.stringify(piece);
      const number = numbers.get(key) ?? parameters.push(piece);
      numbers.set(key, number);
      text += `$${number}`;
    }
  }
  return { text, parameters };
}
