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

export const isWord = (token: Token | undefined, text: string) => token?.kind === "word" && token.text === text;

/** Not a cast. */
export const isOperator = ({ kind, text }: Token) =>
  kind === "symbol" && text !== "::" && /^[-+*/<>=~!@#%^&|?]+$/.test(text);

/** The level of brackets and of `case … end` after a token. */
const levelAfter = (level: number, { kind, text }: Token): number => {
  if (kind === "symbol")
    return text === "(" || text === "[" ? level + 1 : text === ")" || text === "]" ? level - 1 : level;
  return kind !== "word" ? level : text === "case" ? level + 1 : text === "end" ? level - 1 : level;
};

/** The position of the first such token outside of brackets; -1 if there is none. */
export function indexOutside(tokens: readonly Token[], test: (token: Token) => boolean): number {
  let level = 0;
  return tokens.findIndex((token) => {
    if (level === 0 && test(token)) return true;
    level = levelAfter(level, token);
    return false;
  });
}

/** `(a and b)` → `a and b`; `(a) and (b)` remains. */
export function withoutBrackets(tokens: readonly Token[]): readonly Token[] {
  let inner = tokens;
  while (inner.length > 2 && inner[0]!.text === "(" && inner[0]!.kind === "symbol" && endsAtLast(inner))
    inner = inner.slice(1, -1);
  return inner;
}

/** Whether the bracket that the first token opens is closed by the last one. */
function endsAtLast(tokens: readonly Token[]): boolean {
  let level = 0;
  const end = tokens.findIndex((token) => {
    level = levelAfter(level, token);
    return level === 0;
  });
  return end === tokens.length - 1;
}

/** The parts between such words or commas outside of brackets. */
export function splitAt(tokens: readonly Token[], separator: "and" | "or" | ","): (readonly Token[])[] {
  const parts: (readonly Token[])[] = [];
  let rest = tokens;
  for (;;) {
    const at = indexOutside(
      rest,
      ({ kind, text }) => text === separator && kind === (separator === "," ? "symbol" : "word"),
    );
    if (at < 0) return [...parts, rest];
    parts.push(rest.slice(0, at));
    rest = rest.slice(at + 1);
  }
}
