/** A token of SQL. `text` is in lower case for a word; for quoted names and strings it is the content. */
export type Token = {
  /** "opaque" is what an expression of Postgres rarely has: strings with escapes or in dollar quotes, parameters, stray characters. */
  readonly kind: "word" | "name" | "string" | "number" | "symbol" | "opaque";
  readonly text: string;
  readonly start: number;
  readonly end: number;
};

/**
 * In order: space and comments, strings and names with a prefix or in dollar quotes, words, quoted names, strings, numbers, symbols.
 * A symbol ends before a comment.
 */
const TOKEN =
  /((?:\s+|--[^\n]*)+)|(e'(?:[^'\\]|\\.|'')*'|(?:[bnx]|u&)'(?:[^']|'')*'|u&"(?:[^"]|"")*"|\$([\p{L}_][\p{L}\p{N}_]*)?\$.*?\$\3\$)|([\p{L}_][\p{L}\p{N}_$]*)|"((?:[^"]|"")+)"|'((?:[^']|'')*)'|(\d+(?:\.\d+)?(?:e[+-]?\d+)?)|(::|:=|[()[\],.;]|(?:(?!--|\/\*)[-+*/<>=~!@#%^&|?])+)/isuy;

/** Splits SQL into tokens. What begins and does not end, such as a string, is an opaque character. */
function allTokensOf(sql: string): Token[] {
  const tokens: Token[] = [];
  for (let start = 0, end = 0; start < sql.length; start = end) {
    end = start + 1;
    TOKEN.lastIndex = start;
    const match = TOKEN.exec(sql);
    if (sql.startsWith("/*", start)) end += lengthOfComment(sql, start) - 1;
    else if (match === null) tokens.push({ kind: "opaque", text: sql[start]!, start, end });
    else {
      end = TOKEN.lastIndex;
      const [text, space, opaque, , word, name, string, number] = match;
      const add = (kind: Token["kind"], content: string) => tokens.push({ kind, text: content, start, end });
      if (opaque !== undefined || string?.includes("\\")) add("opaque", text);
      else if (word !== undefined) add("word", word.toLowerCase());
      else if (name !== undefined) add("name", name.replaceAll('""', '"'));
      else if (string !== undefined) add("string", string.replaceAll("''", "'"));
      else if (space === undefined) add(number === undefined ? "symbol" : "number", text);
    }
  }
  return tokens;
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

/** The tokens of an expression that Postgres has written, or of a short function. Null if one is opaque. */
export function tokensOf(sql: string): readonly Token[] | null {
  const tokens = allTokensOf(sql);
  return tokens.some(({ kind }) => kind === "opaque") ? null : tokens;
}

/** A statement of a SQL text, without its semicolon; `at` is its position in the text. */
export type SqlStatement = { readonly text: string; readonly at: number };

/**
 * Splits SQL into its statements. Semicolons in strings, comments and bodies of functions end no statement.
 *
 *   statementsOf("select 1; select ';'")  // [{ text: "select 1", at: 0 }, { text: "select ';'", at: 10 }]
 */
export function statementsOf(sql: string): readonly SqlStatement[] {
  const statements: SqlStatement[] = [];
  let first: Token | null = null;
  let depth = 0;
  const endAt = (end: number) => {
    if (first !== null) statements.push({ text: sql.slice(first.start, end).trimEnd(), at: first.start });
    first = null;
  };
  let last: Token | undefined;
  for (const token of allTokensOf(sql)) {
    if (isWord(token, "atomic") && isWord(last, "begin")) depth = 1;
    else if (depth > 0 && isWord(token, "case")) depth++;
    else if (depth > 0 && isWord(token, "end")) depth--;
    if (depth === 0 && token.kind === "symbol" && token.text === ";") endAt(token.start);
    else first ??= token;
    last = token;
  }
  endAt(sql.length);
  return statements;
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
