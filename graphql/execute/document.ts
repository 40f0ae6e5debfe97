import { createHash } from "node:crypto";
import {
  BREAK,
  type DocumentNode,
  GraphQLError,
  type GraphQLSchema,
  type OperationDefinitionNode,
  parse,
  validate,
  visit,
} from "postgraphile/graphql";
import { bytesOf, Cache, type CacheMemory, cacheMemory, SeenTexts } from "../../cache/cache.ts";
import type { Config } from "../../config/config.ts";
import type { TrustedDocuments } from "../../config/trusted-documents.ts";
import type { HttpLimits } from "../../gate/limits.ts";
import type { GraphQLLimits } from "../limits.ts";
import type { ArgumentValues } from "./document-size.ts";
import { type OperationSizes, refuseDeepBrackets, refuseLargeOperations, type SizeLimits } from "./document-size.ts";
import { refuseSlowDocument } from "./document-work.ts";
import { nameLiterals } from "./input-fields.ts";
import { explainMissing, explainSelections } from "./missing-fields.ts";

/** With the embedded database, errors suggest names ("Did you mean …?"), which reveals names of the schema. */
export type DocumentLimits = SizeLimits &
  Pick<Config, "embedded"> &
  Pick<GraphQLLimits, "graphqlMaxTokens"> &
  Pick<HttpLimits, "jsonMaxDepth">;

type ValidDocument = {
  readonly document: DocumentNode;
  readonly sizes: OperationSizes;
  readonly values: ArgumentValues;
  /** Of all operations. */
  readonly fields: number;
  /** Whether it reads the schema. */
  readonly introspects: boolean;
  /** Characters of the statements that it is compiled to. */
  keptSql: number;
};

type CheckedDocument = ValidDocument | { readonly errors: readonly GraphQLError[] };

const keptSqlListeners = new WeakMap<OperationDefinitionNode, (characters: number) => void>();

/** Counts the characters by which the statements that an operation is compiled to grow or shrink. */
export function countKeptSql(operation: OperationDefinitionNode, characters: number): void {
  keptSqlListeners.get(operation)?.(characters);
}

/** What a parsed document and its plans take for each character and for each field: measured by the bench `soak`. */
const BYTES_PER_CHARACTER = 50;
const BYTES_PER_FIELD = 28_000;

/**
 * Parses documents, enforces the limits and validates against one schema. A valid document is cached by its text when it is sent for
 * the second time, so that documents that are sent once do not evict those in use. A plan lives as long as its document.
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
    for (const operation of valid.sizes.keys()) keptSqlListeners.set(operation, onKeptSql);
  }

  #check(text: string): CheckedDocument {
    try {
      refuseDeepBrackets(text, this.limits.jsonMaxDepth);
      const document = parse(text, { maxTokens: this.limits.graphqlMaxTokens });
      // Before validation: its rules are slow on documents that exceed the limits.
      const sizes = refuseLargeOperations(document, this.limits);
      const values = refuseSlowDocument(document, this.limits.graphqlMaxComplexity);
      const errors = validate(this.#schema, document, undefined, { hideSuggestions: !this.limits.embedded });
      if (errors.length > 0) {
        for (const error of errors) withCode(explainMissing(error, this.#schema));
        explainSelections(errors, document, this.#schema);
        nameLiterals(errors, document, this.#schema);
        return { errors };
      }
      const fields = [...sizes.values()].reduce((sum, size) => sum + size.fields, 0);
      return { document, sizes, values, fields, introspects: readsSchema(document), keptSql: 0 };
    } catch (error) {
      if (error instanceof GraphQLError) return { errors: [withCode(error)] };
      throw error;
    }
  }
}

function readsSchema(document: DocumentNode): boolean {
  let found = false;
  visit(document, {
    Field({ name }) {
      if (name.value !== "__schema" && name.value !== "__type") return undefined;
      found = true;
      return BREAK;
    },
  });
  return found;
}

const withCode = (error: GraphQLError): GraphQLError => {
  error.extensions.code ??= "VALIDATION_ERROR";
  return error;
};

/** How a request names its document: by its text, by an id of a manifest, or by the SHA-256 of the text. */
export type DocumentReference = {
  readonly query: string | undefined;
  readonly documentId: string | undefined;
  readonly hash: string | undefined;
};

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

const refuse = (message: string, code: string) => new GraphQLError(message, { extensions: { code } });
// The messages and codes that the clients of Apollo expect.
const notFound = () => refuse("PersistedQueryNotFound", "PERSISTED_QUERY_NOT_FOUND");
const notSupported = () => refuse("PersistedQueryNotSupported", "PERSISTED_QUERY_NOT_SUPPORTED");

/**
 * Finds the documents of requests. `off`: each request has a text. `allow`: it may name a document of a manifest, or register its
 * text by the hash (automatic persisted queries). `only`: documents that are not in a manifest are refused without being parsed.
 */
export class DocumentStore {
  readonly #mode: TrustedDocuments["mode"];
  readonly #byId = new Map<string, string>();
  /** The documents that clients have registered by their hash. */
  readonly #registered = new Cache<{ readonly text: string }>({
    name: "registered_documents",
    sizeOf: (registered, id) => bytesOf(id) + bytesOf(registered),
  });

  constructor({ mode, byId }: TrustedDocuments) {
    this.#mode = mode;
    for (const [id, document] of byId) {
      this.#byId.set(sha256(document), document);
      this.#byId.set(id.replace(/^sha256:/, ""), document);
    }
  }

  /** The text of a document. Throws GraphQLError. */
  find({ query, documentId, hash }: DocumentReference): string {
    const id = documentId ?? hash;
    if (this.#mode === "any") {
      if (query) return query;
      throw id === undefined ? noDocument() : notSupported();
    }
    const trusted = id !== undefined && this.#byId.get(id.replace(/^sha256:/, ""));
    if (trusted) return trusted;
    if (this.#mode === "only") return this.#identical(query);
    if (hash !== undefined) return this.#register(hash, query);
    if (query) return query;
    throw id === undefined ? noDocument() : notFound();
  }

  /** Clients may send the text of a trusted document instead of its id, so that existing clients need no change. */
  #identical(query: string | undefined): string {
    if (!query) throw notFound();
    const text = this.#byId.get(sha256(query));
    if (text === undefined) throw refuse("only trusted documents are executed: send a documentId", "PERMISSION_DENIED");
    return text;
  }

  #register(hash: string, query: string | undefined): string {
    if (!query) {
      const text = this.#registered.get(hash)?.text;
      if (text === undefined) throw notFound();
      return text;
    }
    if (sha256(query) !== hash) throw refuse("the hash is not the SHA-256 of the query", "VALIDATION_ERROR");
    this.#registered.set(hash, { text: query });
    return query;
  }
}

const noDocument = () => refuse("query must be a GraphQL document", "VALIDATION_ERROR");
