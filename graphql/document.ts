import {
  type DocumentNode,
  GraphQLError,
  type GraphQLSchema,
  Kind,
  parse,
  type SelectionSetNode,
  validate,
} from "postgraphile/graphql";

export type DocumentLimits = {
  /** Levels of fields; 15 passes where 15 is the limit. */ readonly depth: number;
  /** Fields after fragments are expanded. */ readonly complexity: number;
  /** Words and signs. */ readonly tokens: number;
  /** Levels of brackets. */ readonly brackets: number;
  /** Whether errors say "Did you mean …?": they tell the names of the schema. */ readonly suggestions: boolean;
};

export type CheckedDocument = { readonly document: DocumentNode } | { readonly errors: readonly GraphQLError[] };

const MAX_CACHED = 500;
const MAX_CACHED_LENGTH = 20_000;

/** Parses, limits and validates documents against one schema; the newest 500 are remembered by their text. */
export class Documents {
  readonly #schema: GraphQLSchema;
  readonly #limits: DocumentLimits;
  readonly #checked = new Map<string, CheckedDocument>();

  constructor(schema: GraphQLSchema, limits: DocumentLimits) {
    this.#schema = schema;
    this.#limits = limits;
  }

  check(text: string): CheckedDocument {
    const known = this.#checked.get(text);
    if (known) return known;
    const checked = this.#check(text);
    if (text.length > MAX_CACHED_LENGTH) return checked;
    if (this.#checked.size >= MAX_CACHED) this.#checked.delete(this.#checked.keys().next().value as string);
    this.#checked.set(text, checked);
    return checked;
  }

  #check(text: string): CheckedDocument {
    try {
      refuseDeepBrackets(text, this.#limits.brackets);
      const document = parse(text, { maxTokens: this.#limits.tokens });
      // Before validation, whose rules take long on documents that the limits refuse.
      const excess = excessOf(document, this.#limits);
      if (excess) return { errors: [excess] };
      const errors = validate(this.#schema, document, undefined, { hideSuggestions: !this.#limits.suggestions });
      return errors.length > 0 ? { errors: errors.map(withCode) } : { document };
    } catch (error) {
      if (error instanceof GraphQLError) return { errors: [withCode(error)] };
      throw error;
    }
  }
}

const withCode = (error: GraphQLError): GraphQLError => {
  error.extensions.code ??= "VALIDATION_ERROR";
  return error;
};

const invalid = (message: string) => new GraphQLError(message, { extensions: { code: "VALIDATION_ERROR" } });

/** Strings and comments, whose brackets don't count, and brackets. */
const BRACKETS = /"""(?:\\"""|[^"]|"(?!""))*"""|"(?:\\.|[^"\\\n])*"|#[^\n]*|[{[(]|[}\])]/g;

/** The parser calls itself for each level: without a limit a document could exhaust the stack. */
function refuseDeepBrackets(text: string, max: number): void {
  let depth = 0;
  for (const [token] of text.matchAll(BRACKETS)) {
    if ("{[(".includes(token)) depth++;
    else if ("}])".includes(token)) depth--;
    if (depth > max) throw invalid(`the document has brackets in more than ${max} levels`);
  }
}

type Size = { readonly depth: number; readonly fields: number };
const NOTHING: Size = { depth: 0, fields: 0 };

/** Says what is too large about the document. Each fragment is measured once, so that a bomb of fragments costs nothing. */
function excessOf(document: DocumentNode, limits: DocumentLimits): GraphQLError | null {
  const fragments = fragmentsOf(document);
  const known = new Map<string, Size>();
  const sizeOfFragment = (name: string): Size => {
    const size = known.get(name);
    if (size) return size;
    // A cycle ends here; validation refuses it afterwards.
    known.set(name, NOTHING);
    const measured = sizeOf(fragments.get(name)?.selectionSet, sizeOfFragment);
    known.set(name, measured);
    return measured;
  };

  for (const definition of document.definitions) {
    if (definition.kind !== Kind.OPERATION_DEFINITION || isPureIntrospection(definition.selectionSet)) continue;
    const { depth, fields } = sizeOf(definition.selectionSet, sizeOfFragment);
    if (depth > limits.depth) return invalid(`the operation has ${depth} levels of fields, more than ${limits.depth}`);
    if (fields > limits.complexity) return invalid(`the operation has ${fields} fields, more than ${limits.complexity}`);
  }
  return null;
}

function sizeOf(set: SelectionSetNode | undefined, sizeOfFragment: (name: string) => Size): Size {
  let depth = 0;
  let fields = 0;
  for (const selection of set?.selections ?? []) {
    const isField = selection.kind === Kind.FIELD;
    const inner =
      selection.kind === Kind.FRAGMENT_SPREAD
        ? sizeOfFragment(selection.name.value)
        : sizeOf(selection.selectionSet, sizeOfFragment);
    depth = Math.max(depth, inner.depth + (isField ? 1 : 0));
    fields += inner.fields + (isField ? 1 : 0);
  }
  return { depth, fields };
}

/** `{ __schema { … } }`: what explorers ask is deeper than what callers may. graphql-js limits its depth by itself. */
const isPureIntrospection = ({ selections }: SelectionSetNode): boolean =>
  selections.every((selection) => selection.kind === Kind.FIELD && /^__(schema|type)$/.test(selection.name.value));

const fragmentsOf = ({ definitions }: DocumentNode) =>
  new Map(definitions.filter((definition) => definition.kind === Kind.FRAGMENT_DEFINITION).map((f) => [f.name.value, f]));
