import {
  type DocumentNode,
  type FieldNode,
  GraphQLError,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from "postgraphile/graphql";

export type SizeLimits = {
  /** Maximum levels of fields. */ readonly depth: number;
  /** Maximum number of fields, with fragments expanded. */ readonly complexity: number;
  /** Maximum number of fields that search by a keyword, with fragments expanded. */ readonly searches: number;
};

type Size = {
  /** Levels of fields. */ readonly depth: number;
  /** Number of fields, with fragments expanded. */ readonly fields: number;
  /** Number of fields that search by a keyword. */ readonly searches: number;
  /** Levels of selection sets, including those of fragments. */ readonly sets: number;
};

const EMPTY: Size = { depth: 0, fields: 0, searches: 0, sets: 0 };

/** Introspection queries of explorers exceed the depth limit, but not this number of fields. */
const MAX_INTROSPECTION_FIELDS = 1000;

/** graphql-js and Grafast recurse once per level of selection sets, including those of fragments. */
const MAX_SELECTION_SETS = 200;

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

/** Throws a GraphQLError if an operation exceeds the limits. Returns the number of fields of all operations. */
export function refuseLargeOperations({ definitions }: DocumentNode, limits: SizeLimits): number {
  const measure = new SizeMeasure(definitions);
  let fields = 0;
  for (const definition of definitions) {
    if (!("selectionSet" in definition)) continue;
    const size = measure.of(definition.selectionSet, 1);
    // A fragment is counted where it is used.
    if (definition.kind === Kind.FRAGMENT_DEFINITION) continue;
    refuseLargeOperation(definition, size, limits);
    fields += size.fields;
  }
  return fields;
}

function refuseLargeOperation(
  { selectionSet }: OperationDefinitionNode,
  { depth, fields, searches }: Size,
  limits: SizeLimits,
): void {
  const isIntrospection = isPureIntrospection(selectionSet);
  if (depth > limits.depth && !isIntrospection) {
    throw invalid(`the operation has depth ${depth}; the maximum is ${limits.depth}`);
  }
  const max = isIntrospection ? MAX_INTROSPECTION_FIELDS : limits.complexity;
  if (fields > max) throw invalid(`the operation has complexity ${fields}; the maximum is ${max}`);
  if (searches > limits.searches)
    throw invalid(`the operation searches by keyword ${searches} times; the maximum is ${limits.searches}`);
}

/** Whether the operation is like `{ __schema { … } }`. graphql-js limits the depth of introspection itself. */
const isPureIntrospection = ({ selections }: SelectionSetNode): boolean =>
  selections.every((selection) => selection.kind === Kind.FIELD && /^__(schema|type)$/.test(selection.name.value));

/** `search(keyword: "sql")`, `articles(filter: { keyword: "sql" })`, or a filter in a variable. */
const isSearch = ({ arguments: given = [] }: FieldNode): boolean =>
  given.some(({ name, value }) => {
    if (name.value !== "filter") return name.value === "keyword";
    return value.kind !== Kind.OBJECT || value.fields.some((field) => field.name.value === "keyword");
  });

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
    for (const selection of set.selections) {
      const own = selection.kind === Kind.FIELD ? 1 : 0;
      const inner =
        selection.kind === Kind.FRAGMENT_SPREAD
          ? this.#measureFragment(selection.name.value, level + 1)
          : this.of(selection.selectionSet, level + 1);
      depth = Math.max(depth, inner.depth + own);
      fields += inner.fields + own;
      searches += inner.searches + (selection.kind === Kind.FIELD && isSearch(selection) ? 1 : 0);
      sets = Math.max(sets, inner.sets);
    }
    return { depth, fields, searches, sets: sets + 1 };
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

function refuseDeepSets(level: number): void {
  if (level > MAX_SELECTION_SETS)
    throw invalid(`the document nests selection sets more than ${MAX_SELECTION_SETS} levels deep`);
}
