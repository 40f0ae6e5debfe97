/** Where a parameter of a statement gets its text from, each time that it runs. */
export type Parameter =
  /** One of the request's values. */
  | { readonly kind: "value"; readonly index: number }
  /** Several of them, as one array literal. */
  | { readonly kind: "values"; readonly indexes: readonly number[] }
  /** Part of the request's shape, such as the key of a JSON path. */
  | { readonly kind: "constant"; readonly text: string }
  /** The request's body. */
  | { readonly kind: "body" };

/** A piece of SQL: text, and parameters that have no number yet. */
export type Sql = { readonly pieces: readonly (string | Parameter)[] };

/** A finished statement; the n-th parameter is `$n`. */
export type Written = { readonly text: string; readonly parameters: readonly Parameter[] };

/**
 * Joins pieces of SQL. Only other pieces can stand in it, so that text of a request can't. Functions that take
 * any type are named with pg_catalog: a schema may have its own `to_json`.
 *
 *   sql`select ${sql.identifier("users", "id")} = ${sql.parameter({ kind: "value", index: 0 })}`
 */
export function sql(strings: TemplateStringsArray, ...inner: readonly Sql[]): Sql {
  const pieces: (string | Parameter)[] = [];
  for (const [i, text] of strings.entries()) {
    pieces.push(text);
    if (i < inner.length) pieces.push(...inner[i]!.pieces);
  }
  return { pieces };
}

/** `sql.identifier("public", "a\"b")` → `"public"."a""b"` */
sql.identifier = (...names: readonly string[]): Sql => sql.trusted(names.map(quoteIdentifier).join("."));

sql.parameter = (parameter: Parameter): Sql => ({ pieces: [parameter] });

/** A text that belongs to the request's shape. */
sql.constant = (text: string): Sql => sql.parameter({ kind: "constant", text });

sql.integer = (value: number): Sql => {
  if (!Number.isSafeInteger(value)) throw new RangeError(`${value} is no whole number`);
  return sql.trusted(String(value));
};

/** Text that is SQL already: ours, or the catalog's. */
sql.trusted = (text: string): Sql => ({ pieces: [text] });

sql.empty = { pieces: [] } as Sql;

sql.join = (items: readonly Sql[], separator: string): Sql => ({
  pieces: items.flatMap((item, i) => (i === 0 ? item.pieces : [separator, ...item.pieces])),
});

export const quoteIdentifier = (name: string) => `"${name.replaceAll('"', '""')}"`;

/** Numbers the parameters: equal ones get one number, so that Postgres sees that they are the same. */
export function finish({ pieces }: Sql): Written {
  const numbers = new Map<string, number>();
  const parameters: Parameter[] = [];
  let text = "";
  for (const piece of pieces) {
    if (typeof piece === "string") {
      text += piece;
      continue;
    }
    const key = JSON.stringify(piece);
    let number = numbers.get(key);
    if (number === undefined) {
      number = parameters.push(piece);
      numbers.set(key, number);
    }
    text += `$${number}`;
  }
  return { text, parameters };
}
