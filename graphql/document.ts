import { LRUCache } from "lru-cache";
import { type DocumentNode, GraphQLError, type GraphQLSchema, parse, validate } from "postgraphile/graphql";
import { type OperationSizes, refuseDeepBrackets, refuseLargeOperations, type SizeLimits } from "./document-size.ts";

export type DocumentLimits = SizeLimits & {
  /** Maximum number of tokens. */ readonly tokens: number;
  /** Maximum depth of brackets. */ readonly brackets: number;
  /** Whether errors suggest names ("Did you mean …?"), which reveals names of the schema. */ readonly suggestions: boolean;
};

type ValidDocument = { readonly document: DocumentNode; readonly sizes: OperationSizes; readonly weight: number };

export type CheckedDocument = ValidDocument | { readonly errors: readonly GraphQLError[] };

/** Total weight of the cached documents. One unit takes up to 30 kB together with its plan, in the worst case four times that. */
const MAX_WEIGHT = 5000;
const CHARACTERS_PER_UNIT = 100;

/**
 * Parses documents, enforces the limits and validates against one schema. Valid documents are cached by their text.
 * The cache is bounded by weight and not by count, so that large documents cannot fill the memory. A plan lives as
 * long as its document.
 */
export class DocumentCache {
  readonly #schema: GraphQLSchema;
  readonly limits: DocumentLimits;
  readonly #valid = new LRUCache<string, ValidDocument>({
    maxSize: MAX_WEIGHT,
    sizeCalculation: ({ weight }) => weight,
  });

  constructor(schema: GraphQLSchema, limits: DocumentLimits) {
    this.#schema = schema;
    this.limits = limits;
  }

  check(text: string): CheckedDocument {
    const cached = this.#valid.get(text);
    if (cached) return cached;
    const checked = this.#check(text);
    if ("document" in checked) this.#valid.set(text, checked);
    return checked;
  }

  #check(text: string): CheckedDocument {
    try {
      refuseDeepBrackets(text, this.limits.brackets);
      const document = parse(text, { maxTokens: this.limits.tokens });
      // Before validation: its rules are slow on documents that exceed the limits.
      const sizes = refuseLargeOperations(document, this.limits);
      const errors = validate(this.#schema, document, undefined, { hideSuggestions: !this.limits.suggestions });
      if (errors.length > 0) return { errors: errors.map(withCode) };
      const fields = [...sizes.values()].reduce((sum, size) => sum + size.fields, 0);
      return { document, sizes, weight: fields + Math.ceil(text.length / CHARACTERS_PER_UNIT) };
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
