import { quoteIfNeeded } from "../../db/catalog/catalog.ts";
import {
  indexOutside,
  isOperator,
  isWord,
  splitAt,
  type Token,
  tokensOf,
  withoutBrackets,
} from "../../db/catalog/sql-tokens.ts";

/**
 * The value of an expression if the claims of the caller name no user, for every row: a constant as text, null, or what is not known.
 * "claims" stands for the claims themselves, an object that has the role of the caller and nothing else.
 */
type Value =
  | { readonly is: "text"; readonly text: string }
  | { readonly is: "null" | "true" | "false" | "claims" | "unknown" };

const NULL: Value = { is: "null" };
const TRUE: Value = { is: "true" };
const FALSE: Value = { is: "false" };
const CLAIMS: Value = { is: "claims" };
const UNKNOWN: Value = { is: "unknown" };
const truth = (isTrue: boolean): Value => (isTrue ? TRUE : FALSE);
const textValue = (text: string): Value => ({ is: "text", text });

/** What a condition says about a caller without a user. */
export type WithoutUser = {
  /** "true": it holds for every row. "false": it holds for none. */
  readonly holds: "true" | "false" | "unknown";
  /** Whether it reads who the user is. */
  readonly readsUser: boolean;
  /** Whether it reads anything else, such as the row. Otherwise it may be meant for callers without a user. */
  readonly readsMore: boolean;
};

/** The texts of functions without arguments that return one value, by name as SQL text: `auth.uid`. */
export type FunctionTexts = ReadonlyMap<string, string>;

/** Functions without arguments that return one value. */
export const FUNCTION_TEXTS = `
  select format('%I.%I', n.nspname, p.proname) as name, coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) as text
  from pg_proc as p
  join pg_namespace as n on n.oid = p.pronamespace
  join pg_language as l on l.oid = p.prolang
  where p.pronargs = 0 and p.prokind = 'f' and not p.proretset and l.lanname in ('sql', 'plpgsql')
    and n.nspname not in ('pg_catalog', 'information_schema')`;

/** What decides whether a policy is reported; the conditions are as Postgres writes them. */
export type Candidate = {
  readonly condition: string;
  /** Conditions of restrictive policies for the same command. */
  readonly restrictive: readonly string[];
  /** Of a policy that is always true: conditions of other policies, which it makes void. */
  readonly beside: readonly string[] | null;
};

/** Whether callers without a user get every row because a condition was meant for users. */
export function opensWithoutUser({ condition, restrictive, beside }: Candidate, functions: FunctionTexts): boolean {
  const evaluate = (text: string) => evaluateWithoutUser(text, functions);
  const { holds, readsUser, readsMore } = evaluate(condition);
  const isForUsers = beside === null ? readsUser && readsMore : beside.some((text) => evaluate(text).readsUser);
  if (holds !== "true" || !isForUsers) return false;
  return restrictive.every((text) => evaluate(text).holds !== "false");
}

/** Evaluates the condition of a policy, as Postgres writes it, for callers whose claims name no user. */
export function evaluateWithoutUser(condition: string, functions: FunctionTexts): WithoutUser {
  const evaluation = new Evaluation(functions);
  const { is } = evaluation.valueOf(condition);
  // Null lets no row pass.
  const holds = is === "true" ? "true" : is === "false" || is === "null" ? "false" : "unknown";
  return { holds, readsUser: evaluation.readsUser, readsMore: evaluation.readsMore };
}

/** Functions of Postgres that return null if an argument is null. */
const STRICT = new Set(
  "lower upper btrim ltrim rtrim md5 length regexp_substr regexp_replace replace split_part substring".split(" "),
);
/** Functions may call each other. */
const MAX_DEPTH = 8;
/** Clauses that make a subquery more than one expression. */
const CLAUSES = /^(from|where|group|having|limit|offset|union|intersect|except|order)$/;

class Evaluation {
  readsUser = false;
  readsMore = false;
  readonly #functions: FunctionTexts;
  #depth = 0;

  constructor(functions: FunctionTexts) {
    this.#functions = functions;
  }

  valueOf(sql: string): Value {
    const tokens = tokensOf(sql);
    return tokens === null ? UNKNOWN : this.#value(tokens);
  }

  #value(given: readonly Token[]): Value {
    const tokens = withoutBrackets(given);
    if (tokens.length === 0) return UNKNOWN;
    if (isWord(tokens[0], "select")) return this.#subquery(tokens.slice(1));
    const [alternatives, parts] = [splitAt(tokens, "or"), splitAt(tokens, "and")];
    if (alternatives.length > 1) return this.#logic("true", alternatives);
    if (parts.length > 1) return this.#logic("false", parts);
    if (isWord(tokens[0], "not")) return negated(this.#value(tokens.slice(1)));
    const is = indexOutside(tokens, (token) => isWord(token, "is"));
    if (is > 0) return this.#is(tokens.slice(0, is), tokens.slice(is + 1));
    const operator = indexOutside(tokens, isOperator);
    if (operator > 0)
      return this.#operation(tokens.slice(0, operator), tokens[operator]!.text, tokens.slice(operator + 1));
    const cast = indexOutside(tokens, ({ kind, text }) => kind === "symbol" && text === "::");
    return cast > 0 ? this.#value(tokens.slice(0, cast)) : this.#primary(tokens);
  }

  /** `true` decides an or-condition, `false` an and-condition. All parts are evaluated, to see whether one reads the user. */
  #logic(decisive: "true" | "false", parts: readonly (readonly Token[])[]): Value {
    const kinds = parts.map((part) => this.#value(part).is);
    if (kinds.includes(decisive)) return truth(decisive === "true");
    if (kinds.some((kind) => kind === "unknown" || kind === "claims" || kind === "text")) return UNKNOWN;
    return kinds.includes("null") ? NULL : truth(decisive === "false");
  }

  /** `x is not null`, `x is true`, `x is distinct from y` */
  #is(left: readonly Token[], right: readonly Token[]): Value {
    const isNegated = isWord(right[0], "not");
    const test = right.slice(isNegated ? 1 : 0);
    const value = this.#value(left);
    const result = isWord(test[0], "distinct")
      ? distinct(value, this.#value(test.slice(2)))
      : test.length === 1
        ? tested(value, test[0]!.text)
        : UNKNOWN;
    return isNegated ? negated(result) : result;
  }

  #operation(left: readonly Token[], operator: string, right: readonly Token[]): Value {
    const [a, b] = [this.#value(left), this.#value(right)];
    const isJson = operator.startsWith("->") || operator.startsWith("#>");
    if (isJson && a.is === "claims") return b.is === "text" && !/^\{? *"?role\b/.test(b.text) ? NULL : UNKNOWN;
    const quantified = isWord(right[0], "any") || isWord(right[0], "all");
    if (!quantified && (a.is === "null" || b.is === "null")) return NULL;
    if (a.is !== "text" || b.is !== "text") return UNKNOWN;
    return operator === "=" ? truth(a.text === b.text) : operator === "<>" ? truth(a.text !== b.text) : UNKNOWN;
  }

  #primary(tokens: readonly Token[]): Value {
    const [token] = tokens;
    if (tokens.length > 1) return this.#call(tokens);
    if (token!.kind === "string" || token!.kind === "number") return textValue(token!.text);
    const { kind, text } = token!;
    const constant = kind === "word" ? CONSTANTS.get(text) : undefined;
    return constant ?? this.#other();
  }

  /** `coalesce(a, b)`, `auth.uid()` */
  #call(tokens: readonly Token[]): Value {
    const open = tokens.findIndex(({ kind, text }) => kind === "symbol" && text === "(");
    const list = tokens.slice(open);
    if (open < 1 || withoutBrackets(list) === list)
      return list.length === 2 && open > 0 ? this.#own(tokens, open) : this.#other();
    const name = tokens
      .slice(0, open)
      .map(({ text }) => text)
      .join("")
      .replace(/^pg_catalog\./, "");
    const values = splitAt(list.slice(1, -1), ",").map((part) => this.#value(part));
    const [first, second] = values as [Value, Value | undefined];
    if (name === "current_setting") return this.#setting(first);
    if (name === "coalesce") return values.find(({ is }) => is !== "null") ?? NULL;
    if (name === "nullif") return nullIf(first, second ?? UNKNOWN);
    return STRICT.has(name) && values.some(({ is }) => is === "null") ? NULL : UNKNOWN;
  }

  /** A column, or something else that is not of the user. */
  #other(): Value {
    this.readsMore = true;
    return UNKNOWN;
  }

  /** A function without arguments. */
  #own(tokens: readonly Token[], open: number): Value {
    const text = this.#functions.get(tokens.slice(0, open).map(nameOf).join(""));
    if (text === undefined || this.#depth === MAX_DEPTH) return this.#other();
    this.#depth++;
    const value = this.valueOf(expressionOf(text));
    this.#depth--;
    return value;
  }

  /** Settings of the request are known. Others are those of the application, which sets them for a user. */
  #setting(name: Value): Value {
    if (name.is !== "text") return UNKNOWN;
    const isClaims = name.text === "request.jwt.claims";
    const isOfUser = /^request\.jwt\.claim(\.(?!role$).*)?$/.test(name.text);
    const isOther = !/\./.test(name.text) || /^(request|realtime|pgrst|app\.settings)\./.test(name.text);
    this.readsUser ||= isClaims || isOfUser || !isOther;
    return isClaims ? CLAIMS : isOfUser || !isOther ? NULL : UNKNOWN;
  }

  /** Looks for what reads the user in a query, whose result is not known. */
  #search(tokens: readonly Token[]): Value {
    this.readsMore = true;
    for (const [at, { kind }] of tokens.entries()) {
      if ((kind !== "word" && kind !== "name") || tokens[at - 1]?.text === ".") continue;
      const open = at + (tokens[at + 1]?.text === "." ? 3 : 1);
      const [bracket, next, end] = [tokens[open], tokens[open + 1], tokens[open + 2]];
      if (bracket?.kind !== "symbol" || bracket.text !== "(") continue;
      if (next?.text === ")") this.#own(tokens.slice(at, open), open - at);
      else if (tokens[open - 1]!.text === "current_setting" && end !== undefined) this.#setting(this.#primary([next!]));
    }
    return UNKNOWN;
  }

  /** `SELECT auth.uid() AS uid` */
  #subquery(tokens: readonly Token[]): Value {
    const isQuery = indexOutside(tokens, ({ kind, text }) => kind === "word" && CLAUSES.test(text)) >= 0;
    if (isQuery || splitAt(tokens, ",").length > 1) return this.#search(tokens);
    const name = indexOutside(tokens, (token) => isWord(token, "as"));
    return this.#value(name > 0 ? tokens.slice(0, name) : tokens);
  }
}

const CONSTANTS: ReadonlyMap<string, Value> = new Map([
  ["true", TRUE],
  ["false", FALSE],
  ["null", NULL],
]);

const negated = (value: Value): Value =>
  value.is === "true" ? FALSE : value.is === "false" ? TRUE : value.is === "null" ? NULL : UNKNOWN;

function distinct(a: Value, b: Value): Value {
  if (a.is === "unknown" || b.is === "unknown") return UNKNOWN;
  if (a.is === "null" || b.is === "null") return truth(a.is !== b.is);
  return a.is === "text" && b.is === "text" ? truth(a.text !== b.text) : UNKNOWN;
}

function tested({ is }: Value, test: string): Value {
  if (is === "unknown" || (test !== "null" && (is === "claims" || is === "text"))) return UNKNOWN;
  return truth(is === (test === "unknown" ? "null" : test));
}

function nullIf(a: Value, b: Value): Value {
  if (a.is === "null") return NULL;
  // The claims are never an empty text.
  if (a.is === "claims") return b.is === "text" ? CLAIMS : UNKNOWN;
  return a.is === "text" && b.is === "text" ? (a.text === b.text ? NULL : a) : UNKNOWN;
}

/** As Postgres writes it. */
const nameOf = ({ kind, text }: Token) => (kind === "name" ? quoteIfNeeded(text) : text);

/** The expression that a short function returns: `select a;`, `return a`, `begin atomic select a; end`, `begin return a; end` */
const expressionOf = (text: string): string =>
  text
    .trim()
    .replace(/^begin\s+(atomic\s+)?/i, "")
    .replace(/^return\b/i, "")
    .replace(/;?\s*(\bend\s*;?)?\s*$/i, "");
