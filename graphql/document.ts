import { type DocumentNode, GraphQLError, type GraphQLSchema, parse, validate } from "postgraphile/graphql";
import { refuseDeepBrackets, refuseExcess, type SizeLimits } from "./document-size.ts";

export type DocumentLimits = SizeLimits & {
  /** Words and signs. */ readonly tokens: number;
  /** Levels of brackets. */ readonly brackets: number;
  /** Whether errors say "Did you mean …?": they tell the names of the schema. */ readonly suggestions: boolean;
};

export type CheckedDocument =
  | { readonly document: DocumentNode; readonly weight: number }
  | { readonly errors: readonly GraphQLError[] };

type Remembered = Extract<CheckedDocument, { document: DocumentNode }>;

/** What remembered documents may weigh together. With its plan a unit takes up to 30 kB, four times that at worst. */
const MAX_WEIGHT = 5000;
const CHARACTERS_PER_UNIT = 100;

/**
 * Parses, limits and validates documents against one schema. Those that are good are remembered by their text, the
 * most recently used ones, and with them their plans.
 */
export class Documents {
  readonly #schema: GraphQLSchema;
  readonly #limits: DocumentLimits;
  /** The one that was not used for the longest time comes first. */
  readonly #remembered = new Map<string, Remembered>();
  #weight = 0;

  constructor(schema: GraphQLSchema, limits: DocumentLimits) {
    this.#schema = schema;
    this.#limits = limits;
  }

  check(text: string): CheckedDocument {
    const known = this.#remembered.get(text);
    const checked = known ?? this.#check(text);
    if (known) this.#forget(text, known);
    if ("document" in checked) this.#remember(text, checked);
    return checked;
  }

  #check(text: string): CheckedDocument {
    try {
      refuseDeepBrackets(text, this.#limits.brackets);
      const document = parse(text, { maxTokens: this.#limits.tokens });
      // Before validation, whose rules take long on documents that the limits refuse.
      const fields = refuseExcess(document, this.#limits);
      const errors = validate(this.#schema, document, undefined, { hideSuggestions: !this.#limits.suggestions });
      if (errors.length > 0) return { errors: errors.map(withCode) };
      return { document, weight: fields + Math.ceil(text.length / CHARACTERS_PER_UNIT) };
    } catch (error) {
      if (error instanceof GraphQLError) return { errors: [withCode(error)] };
      throw error;
    }
  }

  #remember(text: string, checked: Remembered): void {
    if (checked.weight > MAX_WEIGHT) return;
    this.#remembered.set(text, checked);
    this.#weight += checked.weight;
    for (const [oldest, document] of this.#remembered) {
      if (this.#weight <= MAX_WEIGHT) break;
      this.#forget(oldest, document);
    }
  }

  #forget(text: string, { weight }: Remembered): void {
    if (this.#remembered.delete(text)) this.#weight -= weight;
  }
}

const withCode = (error: GraphQLError): GraphQLError => {
  error.extensions.code ??= "VALIDATION_ERROR";
  return error;
};
