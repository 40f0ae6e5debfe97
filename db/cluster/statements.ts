/** A statement of a SQL text, without its semicolon; `at` is its position in the text. */
export type SqlStatement = { readonly text: string; readonly at: number };

/** Parts in which a semicolon ends nothing. */
const PARTS: readonly RegExp[] = [
  /--[^\n]*/y,
  /\be'(?:[^'\\]|\\.|'')*'/isy,
  /'(?:[^']|'')*'/y,
  /"(?:[^"]|"")*"/y,
  /\$(\w*)\$.*?\$\1\$/sy,
];

/**
 * Splits SQL into its statements. Semicolons in strings, comments and bodies of functions end no statement.
 *
 *   statementsOf("select 1; select ';'")  // [{ text: "select 1", at: 0 }, { text: "select ';'", at: 10 }]
 */
export function statementsOf(sql: string): readonly SqlStatement[] {
  const statements: SqlStatement[] = [];
  let start = 0;
  let depth = 0;
  const add = (end: number) => {
    const at = start + lengthOfBlank(sql, start, end);
    if (at < end) statements.push({ text: sql.slice(at, end).trimEnd(), at });
    start = end + 1;
  };
  for (let at = 0; at < sql.length; ) {
    const part = partAt(sql, at);
    if (part > 0) {
      at += part;
      continue;
    }
    const [word] = /\w+(?:\s+atomic\b)?/iy[Symbol.match](sql.slice(at, at + 200)) ?? [""];
    if (/^begin\s+atomic$/i.test(word)) depth = 1;
    else if (depth > 0 && /^case$/i.test(word)) depth++;
    else if (depth > 0 && /^end$/i.test(word)) depth--;
    else if (depth === 0 && sql[at] === ";") add(at);
    at += Math.max(word.length, 1);
  }
  add(sql.length);
  return statements;
}

/** The length of the string, comment or quoted name at this position; 0 if there is none. */
function partAt(sql: string, at: number): number {
  if (sql.startsWith("/*", at)) return lengthOfComment(sql, at);
  for (const part of PARTS) {
    part.lastIndex = at;
    const found = part.exec(sql);
    if (found) return found[0].length;
  }
  return 0;
}

/** The length of the white space and comments from `start`. */
function lengthOfBlank(sql: string, start: number, end: number): number {
  let at = start;
  while (at < end) {
    if (/\s/.test(sql[at]!)) at++;
    else if (sql.startsWith("--", at) || sql.startsWith("/*", at)) at += partAt(sql, at);
    else break;
  }
  return at - start;
}

/** Comments of this kind nest. */
function lengthOfComment(sql: string, at: number): number {
  const marks = /\/\*|\*\//g;
  marks.lastIndex = at;
  let depth = 0;
  for (let mark = marks.exec(sql); mark !== null; mark = marks.exec(sql)) {
    depth += mark[0] === "/*" ? 1 : -1;
    if (depth === 0) return marks.lastIndex - at;
  }
  return sql.length - at;
}
