/** A token of SQL. `text` is in lower case for a word; for quoted names and strings it is the content. */
export type Token = {
  readonly kind: "word" | "name" | "string" | "number" | "symbol";
  readonly text: string;
  readonly start: number;
  readonly end: number;
};

/** In order: space and comments, words, quoted names, strings, numbers, symbols. */
const TOKEN =
  /((?:\s+|--[^\n]*)+)|([\p{L}_][\p{L}\p{N}_$]*)|"((?:[^"]|"")+)"|'((?:[^'\\]|'')*)'|(\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(::|:=|[()[\],.;]|[-+*/<>=~!@#%^&|?]+)/uy;

/**
 * Splits SQL into tokens, for expressions that Postgres has written and for short functions. Null if the text has something else:
 * strings with backslashes or in dollar quotes, nested comments, parameters.
 */
export function tokensOf(sql: string): readonly Token[] | null {
  const tokens: Token[] = [];
  for (let start = 0; start < sql.length; start = TOKEN.lastIndex) {
    TOKEN.lastIndex = start;
    const match = TOKEN.exec(sql);
    if (match === null) return null;
    const [all, space, word, name, string, number, symbol] = match;
    if (space !== undefined) continue;
    const end = start + all.length;
    if (symbol !== undefined && /--|\/\*/.test(symbol)) return null;
    // `e'…'`, `x'…'`: a prefix changes what the string means.
    const last = tokens.at(-1);
    if (string !== undefined && last?.kind === "word" && last.end === start) return null;
    if (word !== undefined) tokens.push({ kind: "word", text: word.toLowerCase(), start, end });
    else if (name !== undefined) tokens.push({ kind: "name", text: name.replaceAll('""', '"'), start, end });
    else if (string !== undefined) tokens.push({ kind: "string", text: string.replaceAll("''", "'"), start, end });
    else tokens.push({ kind: number === undefined ? "symbol" : "number", text: number ?? symbol!, start, end });
  }
  return tokens;
}
