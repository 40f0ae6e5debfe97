import { FilterError, type FilterRequest } from "../db/rights/filter.ts";
import type { Operator } from "../rest-gateway/table/operators.ts";
import { parseLogic } from "../rest-gateway/table/parse/conditions.ts";
import { TableError } from "../rest-gateway/table/problem.ts";
import type { IsKeyword } from "../rest-gateway/table/request.ts";
import { filterRequestOf, isRequest, negated, OPERATORS } from "../rest-gateway/table/stream/filter.ts";

const KEYWORDS: readonly IsKeyword[] = ["null", "not_null", "true", "false", "unknown"];
const isKeyword = (text: string): text is IsKeyword => (KEYWORDS as readonly string[]).includes(text);

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
export function parseFilter(text: string): FilterRequest | null {
  if (text.trim() === "") return null;
  const conditions = splitTop(text).map(parseCondition);
  return conditions.length === 1 ? conditions[0]! : { kind: "and", conditions };
}

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
  return [...parts, text.slice(start)];
}

const CONDITION = /^\s*([^=]+?)=(not\.)?([a-z]+)\.(.*)$/s;
const LOGIC = /^\s*(not\.)?(and|or)=(\(.*\))\s*$/s;

function parseCondition(text: string): FilterRequest {
  const [, negatedLogic, logic, list] = LOGIC.exec(text) ?? [];
  if (logic !== undefined) return negated(negatedLogic !== undefined, parseList(logic as "and" | "or", list!));
  const [, column, not, operator, value] = CONDITION.exec(text) ?? [];
  if (column === undefined) throw unreadable(text, "a condition is column=operator.value");
  return negated(not !== undefined, simple(unquoted(column), operator!, value!, text));
}

function simple(column: string, operator: string, value: string, text: string): FilterRequest {
  if (operator === "in") {
    const list = /^\((.*)\)$/s.exec(value.trim());
    if (!list) throw unreadable(text, "in requires a list in brackets: in.(a,b)");
    const values = list[1]!.trim() === "" ? [] : splitTop(list[1]!).map((each) => unquoted(each.trim()));
    return { kind: "in", column, values };
  }
  if (operator === "is") {
    const keyword = value.trim().toLowerCase();
    if (!isKeyword(keyword)) throw unreadable(text, `is requires ${KEYWORDS.join(", ")}`);
    return isRequest(column, keyword);
  }
  const known = Object.hasOwn(OPERATORS, operator) ? OPERATORS[operator as Operator] : undefined;
  if (known === undefined) throw unreadable(text, `unknown operator ${operator}`);
  const isNull = operator === "isdistinct" && value.toLowerCase() === "null";
  return { kind: "compare", column, operator: known, value: isNull ? null : unquoted(value) };
}

/** `"a \"b\""` → `a "b"` */
const unquoted = (value: string): string =>
  /^".*"$/s.test(value) ? value.slice(1, -1).replace(/\\(.)/gs, "$1") : value;

function parseList(operator: "and" | "or", list: string): FilterRequest {
  const values: string[] = [];
  try {
    const addValue = ({ text }: { readonly text: string }) => values.push(text) - 1;
    return filterRequestOf([parseLogic(operator, false, list, { maxDepth: MAX_DEPTH, addValue })], values)!;
  } catch (error) {
    if (error instanceof TableError) throw new FilterError(`${error.problem.message}: ${error.problem.details ?? ""}`);
    throw error;
  }
}

const unreadable = (text: string, why: string) => new FilterError(`the filter "${text.trim()}" is not valid: ${why}`);
