import { createRequire } from "node:module";

/**
 * The path to one claim of a token: keys of objects, indexes of arrays, and searches. A search is identified by its text.
 *
 *   parseClaimPath(".roles[0]")  // ["roles", 0]
 */
export type ClaimPath = readonly ClaimStep[];
export type ClaimStep = string | number | { readonly text: string; find(value: unknown): unknown };

const READABLE =
  "must be the name of a claim, a path such as app.role or .roles[0], or a JSONPath such as $.roles[?(@ == 'editor')]";

/** A key, a quoted key, an index, or the comparison of the elements of an array with a text. */
const STEP = /\.(?:([\w@-][\w$@-]*)|"([^"]+)")|\[(?:(\d{1,6})|\?\(@ ?(==|!=|\^==|==\^|\*==) ?"([^"]*)"\))\]/y;

const COMPARISONS: Readonly<Record<string, (element: string, text: string) => boolean>> = {
  "==": (element, text) => element === text,
  "!=": (element, text) => element !== text,
  "^==": (element, text) => element.startsWith(text),
  "==^": (element, text) => element.endsWith(text),
  "*==": (element, text) => element.includes(text),
};

/**
 * Parses a dotted path, PostgREST's form with a leading dot, or a JSONPath, which begins with `$`. Throws an Error whose message
 * is written after the name of the setting: `JWT_ROLE_CLAIM must be …`.
 *
 *   parseClaimPath("app.role")                     // ["app", "role"]
 *   parseClaimPath('."https://example.com/role"')  // ["https://example.com/role"]
 *   parseClaimPath('.roles[?(@ ^== "app_")]')      // the first of the roles that begins with app_
 *   parseClaimPath("$.roles[?@ == 'editor']")      // RFC 9535; the first value that matches
 * Source: PostgREST docs, "Configuration", jwt-role-claim-key, of versions 12 to 16.
 */
export function parseClaimPath(text: string): ClaimPath {
  const isJsonPath = text.startsWith("$");
  const path = stepsOf(isJsonPath ? text.slice(1) : text.startsWith(".") ? text : `.${text}`);
  if (path !== null) return path;
  if (isJsonPath) return [jsonPath(text)];
  throw new Error(READABLE);
}

/** The steps that both notations have; null for any other text. */
function stepsOf(text: string): ClaimPath | null {
  const path: ClaimStep[] = [];
  STEP.lastIndex = 0;
  while (STEP.lastIndex < text.length) {
    const step = STEP.exec(text);
    if (step === null) return null;
    const [all, name, quoted, index, operator, operand] = step;
    path.push(operator === undefined ? (name ?? quoted ?? Number(index)) : search(all, operator, operand!));
  }
  return path.length > 0 ? path : null;
}

const search = (text: string, operator: string, operand: string): ClaimStep => ({
  text,
  find: (value) =>
    Array.isArray(value)
      ? value.find((element) => typeof element === "string" && COMPARISONS[operator]!(element, operand))
      : undefined,
});

const require = createRequire(import.meta.url);

/** Loads the library on first use: loading it at every start would noticeably delay the start. */
function jsonPath(text: string): ClaimStep {
  const { jsonpath } = require("json-p3") as typeof import("json-p3");
  try {
    const query = jsonpath.compile(text);
    return { text, find: (value) => query.match(value as Parameters<typeof query.match>[0])?.value };
  } catch (error) {
    throw new Error(`must be a valid JSONPath (RFC 9535): ${(error as Error).message}`);
  }
}

/** `claimAt({ roles: ["editor"] }, ["roles", 0])` → `"editor"`; undefined when the claim is absent. */
export function claimAt(claims: unknown, path: ClaimPath): unknown {
  return path.reduce((value: any, step) => {
    if (typeof step === "object") return step.find(value);
    const holdsStep = typeof value === "object" && value !== null && Object.hasOwn(value, step);
    return holdsStep ? value[step] : undefined;
  }, claims);
}
