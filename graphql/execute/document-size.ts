import {
  type DocumentNode,
  type FieldNode,
  GraphQLError,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
  type ValueNode,
} from "postgraphile/graphql";

export type SizeLimits = {
  /** Maximum levels of fields. */ readonly depth: number;
  /** Maximum number of fields, those of filters included, with fragments expanded. */ readonly complexity: number;
  /** Maximum number of fields that search by a keyword, with fragments expanded. */ readonly searches: number;
};

type Counts = {
  /** Number of fields, those of filters included, with fragments expanded. */ readonly fields: number;
  /** Number of fields that search by a keyword. */ readonly searches: number;
};

type Size = Counts & {
  /** Levels of fields. */ readonly depth: number;
  /** Levels of selection sets, including those of fragments. */ readonly sets: number;
  /** The variables in filters, once for each use: `["filter", "title"]`. */ readonly variables: readonly string[];
};

const EMPTY: Size = { depth: 0, fields: 0, searches: 0, sets: 0, variables: [] };

/** The size of an operation without the values of its variables, which may hold further conditions. */
export type OperationSize = Counts & {
  readonly variables: readonly string[];
  /** The counts of the default values of variables. */
  readonly defaults: ReadonlyMap<string, Counts>;
};
export type OperationSizes = ReadonlyMap<OperationDefinitionNode, OperationSize>;

/** Introspection queries of explorers exceed the depth limit, but not this number of fields. */
const MAX_INTROSPECTION_FIELDS = 1000;

/** graphql-js and Grafast recurse once per level of selection sets, including those of fragments. */
const MAX_SELECTION_SETS = 200;

/** Maximum uses of variables in filters, with fragments expanded: each use counts the conditions in the value again. */
const MAX_VARIABLES = 10_000;

const invalid = (message: string) => new GraphQLError(message, { extensions: { code: "VALIDATION_ERROR" } });

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
  const measure = new SizeMeasure(definitions);
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
  { fields, searches, variables, defaults }: OperationSize,
  values: Readonly<Record<string, unknown>>,
  limits: SizeLimits,
): void {
  if (variables.length === 0) return;
  const counts = new Map<string, Counts>();
  for (const name of new Set(variables))
    counts.set(name, name in values ? countFields(values[name]) : (defaults.get(name) ?? NONE));
  refuseCounts(sum([{ fields, searches }, ...variables.map((name) => counts.get(name)!)]), limits);
}

function refuseCounts({ fields, searches }: Counts, limits: SizeLimits): void {
  if (fields > limits.complexity)
    throw invalid(`the operation has complexity ${fields}; the maximum is ${limits.complexity}`);
  if (searches > limits.searches)
    throw invalid(`the operation searches by keyword ${searches} times; the maximum is ${limits.searches}`);
}

const NONE: Counts = { fields: 0, searches: 0 };

const sum = (counts: readonly Counts[]): Counts =>
  counts.reduce(
    (total, { fields, searches }) => ({ fields: total.fields + fields, searches: total.searches + searches }),
    NONE,
  );

/** Counts the conditions in the value of a variable: `{ title: { equalTo: "x" } }` has 2 fields. */
function countFields(value: unknown): Counts {
  if (typeof value !== "object" || value === null) return NONE;
  if (Array.isArray(value)) return sum(value.map(countFields));
  return sum(
    Object.entries(value).map(([name, inner]) => sum([{ fields: 1, searches: isKeyword(name) }, countFields(inner)])),
  );
}

/** The same for a literal. Adds the names of variables in it to `variables`. */
function countLiteral(value: ValueNode, variables: string[] = []): Counts {
  if (value.kind === Kind.VARIABLE) variables.push(value.name.value);
  if (value.kind === Kind.LIST) return sum(value.values.map((item) => countLiteral(item, variables)));
  if (value.kind !== Kind.OBJECT) return NONE;
  return sum(
    value.fields.map(({ name, value: inner }) =>
      sum([{ fields: 1, searches: isKeyword(name.value) }, countLiteral(inner, variables)]),
    ),
  );
}

const isKeyword = (name: string) => (name === "keyword" ? 1 : 0);

const countDefaults = ({ variableDefinitions = [] }: OperationDefinitionNode): OperationSize["defaults"] =>
  new Map(
    variableDefinitions.flatMap(({ variable, defaultValue }) =>
      defaultValue ? [[variable.name.value, countLiteral(defaultValue)] as const] : [],
    ),
  );

function refuseLargeOperation(
  { selectionSet }: OperationDefinitionNode,
  { depth, fields, searches }: Size,
  limits: SizeLimits,
): void {
  const isIntrospection = isPureIntrospection(selectionSet);
  if (depth > limits.depth && !isIntrospection) {
    throw invalid(`the operation has depth ${depth}; the maximum is ${limits.depth}`);
  }
  refuseCounts({ fields, searches }, isIntrospection ? { ...limits, complexity: MAX_INTROSPECTION_FIELDS } : limits);
}

/** Whether the operation is like `{ __schema { … } }`. graphql-js limits the depth of introspection itself. */
const isPureIntrospection = ({ selections }: SelectionSetNode): boolean =>
  selections.every((selection) => selection.kind === Kind.FIELD && /^__(schema|type)$/.test(selection.name.value));

/** The arguments whose fields are conditions. */
const CONDITIONS: ReadonlySet<string> = new Set(["filter", "having"]);

/** Counts the arguments of a field: `search(keyword: "sql")`, `articles(filter: { keyword: "sql", title: $title })`. */
function countArguments({ arguments: given = [] }: FieldNode): Counts & { readonly variables: readonly string[] } {
  const variables: string[] = [];
  const counts = given.map(({ name, value }) =>
    CONDITIONS.has(name.value) ? countLiteral(value, variables) : { fields: 0, searches: isKeyword(name.value) },
  );
  return { ...sum(counts), variables };
}

/** Measures selection sets. Each fragment is measured once, so that nested fragments do not multiply the work. */
class SizeMeasure {
  readonly #fragments: ReadonlyMap<string, SelectionSetNode>;
  readonly #measured = new Map<string, Size>();

  constructor(definitions: DocumentNode["definitions"]) {
    const fragments = definitions.filter((definition) => definition.kind === Kind.FRAGMENT_DEFINITION);
    this.#fragments = new Map(fragments.map((fragment) => [fragment.name.value, fragment.selectionSet]));
  }

  /** `level` is the level of this set; the outermost has level 1. */
  of(set: SelectionSetNode | undefined, level: number): Size {
    if (!set) return EMPTY;
    refuseDeepSets(level);
    let depth = 0;
    let fields = 0;
    let searches = 0;
    let sets = 0;
    const variables: string[] = [];
    for (const selection of set.selections) {
      const own = selection.kind === Kind.FIELD ? 1 : 0;
      const given = selection.kind === Kind.FIELD ? countArguments(selection) : EMPTY;
      const inner =
        selection.kind === Kind.FRAGMENT_SPREAD
          ? this.#measureFragment(selection.name.value, level + 1)
          : this.of(selection.selectionSet, level + 1);
      depth = Math.max(depth, inner.depth + own);
      fields += inner.fields + own + given.fields;
      searches += inner.searches + given.searches;
      sets = Math.max(sets, inner.sets);
      refuseManyVariables(variables.length + inner.variables.length + given.variables.length);
      for (const name of inner.variables) variables.push(name);
      for (const name of given.variables) variables.push(name);
    }
    return { depth, fields, searches, sets: sets + 1, variables };
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
