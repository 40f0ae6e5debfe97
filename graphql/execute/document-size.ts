import {
  type DocumentNode,
  type FieldNode,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  type ValueNode,
  type VariableDefinitionNode,
  valueFromASTUntyped,
} from "postgraphile/graphql";
import type { Config } from "../../config/config.ts";
import type { DatabaseLimits } from "../../db/limits.ts";
import type { GraphQLLimits } from "../limits.ts";
import { type Counts, countLiteral, countValue, invalid, NONE, sum, type VariableUse } from "./conditions.ts";

/** Fields of fragments count once for each use. */
export type SizeLimits = Pick<Config, "graphqlMaxDepth" | "graphqlMaxComplexity"> &
  Pick<GraphQLLimits, "graphqlMaxSearches"> &
  Pick<DatabaseLimits, "restMaxPatterns" | "restMaxPatternLength">;

type Size = Counts & {
  /** Levels of fields. */ readonly depth: number;
  /** Levels of selection sets, including those of fragments. */ readonly sets: number;
  /** The variables in filters, once for each use. */ readonly uses: readonly VariableUse[];
};

const EMPTY: Size = { ...NONE, depth: 0, sets: 0, uses: [] };

/** The size of an operation without the values of its variables, which may hold further conditions. */
export type OperationSize = Counts & {
  readonly uses: readonly VariableUse[];
  /** The default values of variables. */
  readonly defaults: ReadonlyMap<string, unknown>;
};
export type OperationSizes = ReadonlyMap<OperationDefinitionNode, OperationSize>;

/** Introspection queries of explorers exceed the depth limit, but not this number of fields. */
export const MAX_INTROSPECTION_FIELDS = 1000;

/** graphql-js and Grafast recurse once per level of selection sets, including those of fragments. */
export const MAX_SELECTION_SETS = 200;

/** Maximum uses of variables in filters, with fragments expanded: each use counts the conditions in the value again. */
const MAX_VARIABLES = 10_000;

/**
 * Matches strings and comments, so that their brackets are skipped, and brackets. The closing quote is optional: if it
 * were required, an unclosed string would be searched again from each of its quotes, which takes quadratic time.
 */
const BRACKETS = /"""(?:\\"""|[^"]|"(?!""))*(?:""")?|"(?:\\.|[^"\\\n\r])*"?|#[^\n\r]*|[{[(]|[}\])]/g;

/** Throws a GraphQLError for deeply nested brackets: the parser recurses once per level and would exhaust the stack. */
export function refuseDeepBrackets(text: string, max: number): void {
  let depth = 0;
  for (const [token] of text.matchAll(BRACKETS)) {
    if ("{[(".includes(token)) depth++;
    else if ("}])".includes(token)) depth--;
    if (depth > max) throw invalid(`the document nests brackets more than ${max} levels deep`);
  }
}

/** Throws a GraphQLError if an operation exceeds the limits, whatever its variables. Returns the sizes of the operations. */
export function refuseLargeOperations({ definitions }: DocumentNode, limits: SizeLimits): OperationSizes {
  const measure = new SizeMeasure(definitions, limits.restMaxPatternLength);
  const sizes = new Map<OperationDefinitionNode, OperationSize>();
  for (const definition of definitions) {
    if (!("selectionSet" in definition)) continue;
    const size = measure.of(definition.selectionSet, 1);
    // A fragment is counted where it is used.
    if (definition.kind === Kind.FRAGMENT_DEFINITION) continue;
    refuseLargeOperation(definition, size, limits);
    sizes.set(definition, { ...size, defaults: countDefaults(definition) });
  }
  return sizes;
}

/** Throws a GraphQLError if the conditions in variables make an operation exceed the limits. */
export function refuseLargeVariables(
  { uses, defaults, ...own }: OperationSize,
  values: Readonly<Record<string, unknown>>,
  limits: SizeLimits,
): void {
  if (uses.length === 0) return;
  const counted = new Map<string, Counts>();
  const countOf = ({ variable, operator }: VariableUse): Counts => {
    const key = `${variable} ${operator}`;
    const value = variable in values ? values[variable] : defaults.get(variable);
    const counts = counted.get(key) ?? countValue(value, operator, limits.restMaxPatternLength);
    counted.set(key, counts);
    return counts;
  };
  refuseCounts(sum([own, ...uses.map(countOf)]), limits);
}

function refuseCounts({ fields, searches, patterns }: Counts, limits: SizeLimits): void {
  if (fields > limits.graphqlMaxComplexity)
    throw invalid(`the operation has complexity ${fields}; the maximum is ${limits.graphqlMaxComplexity}`);
  if (searches > limits.graphqlMaxSearches)
    throw invalid(`the operation searches by keyword ${searches} times; the maximum is ${limits.graphqlMaxSearches}`);
  if (patterns > limits.restMaxPatterns)
    throw invalid(
      `the filters have ${patterns} patterns (like, includes, startsWith, endsWith, matches, search); the maximum is ${limits.restMaxPatterns}: split the operation`,
    );
}

const countDefaults = ({ variableDefinitions = [] }: OperationDefinitionNode): OperationSize["defaults"] =>
  new Map(
    variableDefinitions.flatMap(({ variable, defaultValue }) =>
      defaultValue ? [[variable.name.value, valueFromASTUntyped(defaultValue)] as const] : [],
    ),
  );

function refuseLargeOperation(
  { selectionSet }: OperationDefinitionNode,
  { depth, ...counts }: Size,
  limits: SizeLimits,
): void {
  const isIntrospection = isPureIntrospection(selectionSet);
  if (depth > limits.graphqlMaxDepth && !isIntrospection) {
    throw invalid(`the operation has depth ${depth}; the maximum is ${limits.graphqlMaxDepth}`);
  }
  refuseCounts(counts, isIntrospection ? { ...limits, graphqlMaxComplexity: MAX_INTROSPECTION_FIELDS } : limits);
}

/** Whether the operation is like `{ __schema { … } }`. graphql-js limits the depth of introspection itself. */
const isPureIntrospection = ({ selections }: SelectionSetNode): boolean =>
  selections.every((selection) => selection.kind === Kind.FIELD && /^__(schema|type)$/.test(selection.name.value));

/** The arguments whose fields are conditions. */
const CONDITIONS: ReadonlySet<string> = new Set(["filter", "having"]);

/** Measures selection sets. Each fragment is measured once, so that nested fragments do not multiply the work. */
class SizeMeasure {
  readonly #fragments: ReadonlyMap<string, SelectionSetNode>;
  readonly #maxPatternLength: number;
  readonly #measured = new Map<string, Size>();

  constructor(definitions: DocumentNode["definitions"], maxPatternLength: number) {
    this.#maxPatternLength = maxPatternLength;
    const fragments = definitions.filter((definition) => definition.kind === Kind.FRAGMENT_DEFINITION);
    this.#fragments = new Map(fragments.map((fragment) => [fragment.name.value, fragment.selectionSet]));
  }

  /** `level` is the level of this set; the outermost has level 1. */
  of(set: SelectionSetNode | undefined, level: number): Size {
    if (!set) return EMPTY;
    refuseDeepSets(level);
    let depth = 0;
    let counts = NONE;
    let sets = 0;
    const uses: VariableUse[] = [];
    for (const selection of set.selections) {
      const own = selection.kind === Kind.FIELD ? 1 : 0;
      const given = selection.kind === Kind.FIELD ? this.#countArguments(selection, uses) : NONE;
      const inner =
        selection.kind === Kind.FRAGMENT_SPREAD
          ? this.#measureFragment(selection.name.value, level + 1)
          : this.of(selection.selectionSet, level + 1);
      depth = Math.max(depth, inner.depth + own);
      counts = sum([counts, { ...NONE, fields: own }, given, inner]);
      sets = Math.max(sets, inner.sets);
      refuseManyVariables(uses.length + inner.uses.length);
      for (const use of inner.uses) uses.push(use);
    }
    return { ...counts, depth, sets: sets + 1, uses };
  }

  /** Counts the arguments of a field: `search(keyword: "sql")`, `posts(filter: { keyword: "sql", title: $title })`. */
  #countArguments({ arguments: given = [] }: FieldNode, uses: VariableUse[]): Counts {
    return sum(
      given.map(({ name: { value: name }, value }) =>
        CONDITIONS.has(name)
          ? countLiteral(value, name, this.#maxPatternLength, uses)
          : { ...NONE, searches: name === "keyword" ? 1 : 0 },
      ),
    );
  }

  #measureFragment(name: string, level: number): Size {
    const measured = this.#measured.get(name);
    if (measured) {
      refuseDeepSets(level + measured.sets - 1);
      return measured;
    }
    // Ends a cycle of fragments, which validation refuses afterwards.
    this.#measured.set(name, EMPTY);
    const size = this.of(this.#fragments.get(name), level);
    this.#measured.set(name, size);
    return size;
  }
}

function refuseManyVariables(uses: number): void {
  if (uses > MAX_VARIABLES) throw invalid(`the filters use variables more than ${MAX_VARIABLES} times`);
}

function refuseDeepSets(level: number): void {
  if (level > MAX_SELECTION_SETS)
    throw invalid(`the document nests selection sets more than ${MAX_SELECTION_SETS} levels deep`);
}

/** To read so many takes 20 ms. */
const MAX_VALUES = 25_000;

/** The values in the arguments of a document, with fragments expanded. */
export type ArgumentValues = {
  /** Those that the document contains. */
  readonly literals: number;
  /** How often each variable is used. */
  readonly uses: ReadonlyMap<string, number>;
  /** How many values the default of a variable has. */
  readonly defaults: ReadonlyMap<string, number>;
};

/** Counts values: a list has those of its items, and an object those of its fields. */
export class ArgumentCounter {
  literals = 0;
  readonly uses = new Map<string, number>();
  readonly defaults = new Map<string, number>();
  readonly #counted = new Map<FieldNode, Omit<ArgumentValues, "defaults">>();

  /** Throws a GraphQLError if the document itself has too many. */
  count(field: FieldNode): void {
    if (!field.arguments || field.arguments.length === 0) return;
    const own = this.#counted.get(field) ?? valuesIn(field);
    this.#counted.set(field, own);
    this.literals += own.literals;
    for (const [name, count] of own.uses) this.uses.set(name, (this.uses.get(name) ?? 0) + count);
    refuseMore(this.literals);
  }

  /** Several operations may have a variable of the same name. */
  countDefault({ variable: { name }, defaultValue }: VariableDefinitionNode): void {
    const size = defaultValue ? sizeIn(defaultValue, () => {}) : 0;
    this.defaults.set(name.value, Math.max(size, this.defaults.get(name.value) ?? 0));
  }
}

/** Throws a GraphQLError if there are too many values, those of each variable counted for each use of it. */
export function refuseManyValues(
  { literals, uses, defaults }: ArgumentValues,
  variables: Readonly<Record<string, unknown>>,
): void {
  let count = literals;
  for (const [name, used] of uses) {
    count += used * (Object.hasOwn(variables, name) ? sizeOf(variables[name]) : (defaults.get(name) ?? 0));
    refuseMore(count);
  }
}

function refuseMore(count: number): void {
  if (count > MAX_VALUES)
    throw invalid(
      `the arguments have ${count} values, each use of a variable counted; the maximum is ${MAX_VALUES}: split the operation`,
    );
}

function sizeOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  let size = 0;
  for (const item of Array.isArray(value) ? value : Object.values(value)) size += sizeOf(item);
  return size;
}

function valuesIn({ arguments: given = [] }: FieldNode): Omit<ArgumentValues, "defaults"> {
  const uses = new Map<string, number>();
  const use = (name: string) => uses.set(name, (uses.get(name) ?? 0) + 1);
  return { literals: given.reduce((sum, { value }) => sum + sizeIn(value, use), 0), uses };
}

/** The values of a literal without those of the variables in it, which are visited. */
function sizeIn(value: ValueNode, use: (variable: string) => void): number {
  if (value.kind === Kind.LIST) return value.values.reduce((sum, item) => sum + sizeIn(item, use), 0);
  if (value.kind === Kind.OBJECT) return value.fields.reduce((sum, field) => sum + sizeIn(field.value, use), 0);
  if (value.kind !== Kind.VARIABLE) return 1;
  use(value.name.value);
  return 0;
}
