import {
  type DocumentNode,
  GraphQLError,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from "postgraphile/graphql";

export type SizeLimits = {
  /** Levels of fields; 15 passes where 15 is the limit. */ readonly depth: number;
  /** Fields after fragments are expanded. */ readonly complexity: number;
};

export type Size = {
  /** Levels of fields. */ readonly depth: number;
  /** Fields, fragments expanded. */ readonly fields: number;
  /** Levels of selection sets, those of fragments included. */ readonly sets: number;
};

const NOTHING: Size = { depth: 0, fields: 0, sets: 0 };

/** What explorers ask is deeper than what callers may; it is not larger. */
const MAX_INTROSPECTION_FIELDS = 1000;

/** Everything that handles selections calls itself for each level of them, fragments included. */
const MAX_SETS = 200;

const invalid = (message: string) => new GraphQLError(message, { extensions: { code: "VALIDATION_ERROR" } });

/**
 * Strings and comments, whose brackets don't count, and brackets. The end of a string is optional, so that what is a
 * string's beginning is read once: looking for an end that is not there from each quote would take quadratic time.
 */
const BRACKETS = /"""(?:\\"""|[^"]|"(?!""))*(?:""")?|"(?:\\.|[^"\\\n\r])*"?|#[^\n\r]*|[{[(]|[}\])]/g;

/** The parser calls itself for each level: without a limit a document could exhaust the stack. */
export function refuseDeepBrackets(text: string, max: number): void {
  let depth = 0;
  for (const [token] of text.matchAll(BRACKETS)) {
    if ("{[(".includes(token)) depth++;
    else if ("}])".includes(token)) depth--;
    if (depth > max) throw invalid(`the document has brackets in more than ${max} levels`);
  }
}

/** Throws a GraphQLError when an operation is too large; gives the fields of all of them together. */
export function refuseExcess({ definitions }: DocumentNode, limits: SizeLimits): number {
  const ruler = new Ruler(definitions);
  let fields = 0;
  for (const definition of definitions) {
    if (!("selectionSet" in definition)) continue;
    const size = ruler.measure(definition.selectionSet, 1);
    // A fragment counts where it is used.
    if (definition.kind === Kind.FRAGMENT_DEFINITION) continue;
    refuseLarge(definition, size, limits);
    fields += size.fields;
  }
  return fields;
}

function refuseLarge({ selectionSet }: OperationDefinitionNode, { depth, fields }: Size, limits: SizeLimits): void {
  const isIntrospection = isPureIntrospection(selectionSet);
  if (depth > limits.depth && !isIntrospection) {
    throw invalid(`the operation has ${depth} levels of fields, more than ${limits.depth}`);
  }
  const max = isIntrospection ? MAX_INTROSPECTION_FIELDS : limits.complexity;
  if (fields > max) throw invalid(`the operation has ${fields} fields, more than ${max}`);
}

/** `{ __schema { … } }`. graphql-js limits its depth by itself. */
const isPureIntrospection = ({ selections }: SelectionSetNode): boolean =>
  selections.every((selection) => selection.kind === Kind.FIELD && /^__(schema|type)$/.test(selection.name.value));

/** Measures selections. Each fragment is measured once, so that a bomb of fragments costs nothing. */
class Ruler {
  readonly #fragments: ReadonlyMap<string, SelectionSetNode>;
  readonly #known = new Map<string, Size>();

  constructor(definitions: DocumentNode["definitions"]) {
    const fragments = definitions.filter((definition) => definition.kind === Kind.FRAGMENT_DEFINITION);
    this.#fragments = new Map(fragments.map((fragment) => [fragment.name.value, fragment.selectionSet]));
  }

  /** `level` is that of this set: 1 for the outermost. */
  measure(set: SelectionSetNode | undefined, level: number): Size {
    if (!set) return NOTHING;
    refuseDeepSets(level);
    let depth = 0;
    let fields = 0;
    let sets = 0;
    for (const selection of set.selections) {
      const own = selection.kind === Kind.FIELD ? 1 : 0;
      const inner =
        selection.kind === Kind.FRAGMENT_SPREAD
          ? this.#measureFragment(selection.name.value, level + 1)
          : this.measure(selection.selectionSet, level + 1);
      depth = Math.max(depth, inner.depth + own);
      fields += inner.fields + own;
      sets = Math.max(sets, inner.sets);
    }
    return { depth, fields, sets: sets + 1 };
  }

  #measureFragment(name: string, level: number): Size {
    const known = this.#known.get(name);
    if (known) {
      refuseDeepSets(level + known.sets - 1);
      return known;
    }
    // A cycle ends here; validation refuses it afterwards.
    this.#known.set(name, NOTHING);
    const size = this.measure(this.#fragments.get(name), level);
    this.#known.set(name, size);
    return size;
  }
}

function refuseDeepSets(level: number): void {
  if (level > MAX_SETS) throw invalid(`the document nests selections in more than ${MAX_SETS} levels`);
}
