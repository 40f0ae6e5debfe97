import { type DocumentNode, GraphQLError, type GraphQLSchema, parse, validate } from "postgraphile/graphql";
import { Cache, type CacheMemory, cacheMemory } from "../cache/cache.ts";
import { bytesOf } from "../cache/size.ts";
import { SeenTexts } from "../cache/text-cache.ts";
import { followKeptSql } from "./compiled-queries.ts";
import { type OperationSizes, refuseDeepBrackets, refuseLargeOperations, type SizeLimits } from "./document-size.ts";

export type DocumentLimits = SizeLimits & {
  /** Maximum number of tokens. */ readonly tokens: number;
  /** Maximum depth of brackets. */ readonly brackets: number;
  /** Whether errors suggest names ("Did you mean …?"), which reveals names of the schema. */ readonly suggestions: boolean;
};

type ValidDocument = {
  readonly document: DocumentNode;
  readonly sizes: OperationSizes;
  /** Of all operations. */
  readonly fields: number;
  /** Characters of the statements that it is compiled to. */
  keptSql: number;
};

export type CheckedDocument = ValidDocument | { readonly errors: readonly GraphQLError[] };

/** What a parsed document and its plans take for each character and for each field: measured by the bench `soak`. */
const BYTES_PER_CHARACTER = 50;
const BYTES_PER_FIELD = 28_000;

/**
 * Parses documents, enforces the limits and validates against one schema. Valid documents are kept by their text, from the second
 * time on: ever new documents displace none of those in use. A plan lives as long as its document.
 */
export class DocumentCache {
  readonly #schema: GraphQLSchema;
  readonly limits: DocumentLimits;
  readonly #valid: Cache<ValidDocument>;
  readonly #seen = new SeenTexts();

  constructor(schema: GraphQLSchema, limits: DocumentLimits, memory: CacheMemory = cacheMemory) {
    this.#schema = schema;
    this.limits = limits;
    const sizeOf = ({ fields, keptSql }: ValidDocument, text: string) =>
      bytesOf(text) + text.length * BYTES_PER_CHARACTER + fields * BYTES_PER_FIELD + keptSql;
    this.#valid = new Cache({ name: "graphql_documents", sizeOf }, memory);
  }

  check(text: string): CheckedDocument {
    const cached = this.#valid.get(text);
    if (cached) return cached;
    const checked = this.#check(text);
    if ("document" in checked && this.#seen.again(text)) this.#keep(text, checked);
    return checked;
  }

  #keep(text: string, valid: ValidDocument): void {
    this.#valid.set(text, valid);
    const onKeptSql = (characters: number) => {
      valid.keptSql += characters;
      if (this.#valid.get(text) === valid) this.#valid.set(text, valid);
    };
    for (const operation of valid.sizes.keys()) followKeptSql(operation, onKeptSql);
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
      return { document, sizes, fields, keptSql: 0 };
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
