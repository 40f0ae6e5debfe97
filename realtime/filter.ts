import { allOf, type Filter, filterOf, negated } from "../db/filters/condition.ts";
import { isKeyword, isOperator, KEYWORDS, OPERATORS, type Operator } from "../db/filters/operators.ts";
import { type Comparison, parseLogic } from "../db/filters/parse.ts";
import { FilterError, type FilterRequest, filterRequestOf, refuseLongLists } from "../db/rights/filter.ts";
import { writeArray } from "../db/wire/array-text.ts";
import { Problem } from "../problems/problem.ts";

/** Levels of `and(…)` and `or(…)`. */
const MAX_DEPTH = 10;

/**
 * Parses a filter: conditions `column=operator.value` that all must hold, separated by commas. `not.` before the operator negates
 * it. `or=(…)` and `and=(…)` contain conditions as in the table interface. Values with a comma or bracket are quoted. Null for no
 * filter. Throws FilterError.
 *
 *   parseFilter("id=gt.5,name=in.(a,b)")
 *   parseFilter("or=(status.eq.DRAFT,owner.is.null)")
 */
export const parseFilter = (text: string): FilterRequest | null =>
  text.trim() === "" ? null : allOf(splitTop(text).map(parseCondition));

/** Splits at commas outside of brackets and quotes. A quote begins only after a dot, a bracket or a comma, or at the start. */
function splitTop(text: string): string[] {
  const parts: string[] = [];
  let [start, level, isQuoted] = [0, 0, false];
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (isQuoted) {
      if (character === "\\") at++;
      else if (character === '"') isQuoted = false;
    } else if (character === '"') isQuoted = at === start || /[.(]/.test(text[at - 1]!);
    else if (character === "(") level++;
    else if (character === ")") level--;
    else if (character === "," && level === 0) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  if (isQuoted) throw unreadable(text, "a quote is not closed");
  // A single condition may have such a value. Otherwise it is not clear where it ends.
  if (level !== 0 && text.includes(",", start)) throw unreadable(text, "quote the value that has a single bracket");
  return [...parts, text.slice(start)];
}

const CONDITION = /^\s*([^=]+?)=(not\.)?([a-z]+)\.(.*)$/s;
const LOGIC = /^\s*(not\.)?(and|or)=(\(.*\))\s*$/s;

function parseCondition(text: string): FilterRequest {
  const [, notLogic, logic, list] = LOGIC.exec(text) ?? [];
  if (logic !== undefined) return parseList(logic as "and" | "or", notLogic !== undefined, list!);
  const [, column, not, operator = "", value = ""] = CONDITION.exec(text) ?? [];
  if (column === undefined) throw unreadable(text, "a condition is column=operator.value");
  if (!isOperator(operator)) throw unreadable(text, `unknown operator ${operator}`);
  const filter = { ...filterOf(unquoted(column), operator, null), ...operandOf(operator, value, text) };
  return not === undefined ? filter : negated(filter);
}

function operandOf(operator: Operator, value: string, text: string): Partial<Filter<string, string | null>> {
  switch (OPERATORS[operator].syntax) {
    case "list": {
      const list = /^\((.*)\)$/s.exec(value.trim());
      if (!list) throw unreadable(text, `${operator} requires a list in brackets: ${operator}.(a,b)`);
      const isEmpty = list[1]!.trim() === "";
      const values = isEmpty ? [] : splitTop(list[1]!);
      refuseLongLists(values.length);
      return { value: writeArray(values.map((each) => unquoted(each.trim()))) };
    }
    case "keyword": {
      const keyword = value.trim().toLowerCase();
      if (!isKeyword(keyword)) throw unreadable(text, `${operator} requires ${Object.keys(KEYWORDS).join(", ")}`);
      return { keyword };
    }
    default:
      return { value: isNull(operator, value) ? null : unquoted(value) };
  }
}

/** `isdistinct.null` compares with null, and `isdistinct."null"` with the text. */
const isNull = (operator: Operator, value: string): boolean =>
  OPERATORS[operator].comparesNull === true && value.toLowerCase() === "null";

/** `"a \"b\""` → `a "b"` */
const unquoted = (value: string): string =>
  /^".*"$/s.test(value) ? value.slice(1, -1).replace(/\\(.)/gs, "$1") : value;

function parseList(kind: "and" | "or", isNegated: boolean, list: string): FilterRequest {
  const values: (string | null)[] = [];
  try {
    const addValue = ({ operator, text }: Comparison) => values.push(isNull(operator, text) ? null : text) - 1;
    return filterRequestOf(parseLogic(kind, isNegated, list, { maxDepth: MAX_DEPTH, addValue }), values);
  } catch (error) {
    if (error instanceof Problem) throw new FilterError(`${error.message}: ${error.more.details ?? ""}`);
    throw error;
  }
}

const unreadable = (text: string, why: string) => new FilterError(`the filter "${text.trim()}" is not valid: ${why}`);
