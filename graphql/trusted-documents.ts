import { createHash } from "node:crypto";
import { GraphQLError } from "postgraphile/graphql";
import { Cache } from "../cache/cache.ts";
import { bytesOf } from "../cache/size.ts";
import type { TrustedDocuments } from "../config/trusted-documents.ts";

export type TrustedDocumentsMode = "off" | "allow" | "only";

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
  readonly #mode: TrustedDocumentsMode;
  readonly #byId = new Map<string, string>();
  /** The documents that clients have registered by their hash. */
  readonly #registered = new Cache<{ readonly text: string }>({
    name: "registered_documents",
    sizeOf: (registered, id) => bytesOf(id) + bytesOf(registered),
  });

  constructor(mode: TrustedDocumentsMode, documents: TrustedDocuments) {
    this.#mode = mode;
    for (const [id, document] of documents) {
      this.#byId.set(sha256(document), document);
      this.#byId.set(id.replace(/^sha256:/, ""), document);
    }
  }

  /** The text of a document. Throws GraphQLError. */
  find({ query, documentId, hash }: DocumentReference): string {
    const id = documentId ?? hash;
    if (this.#mode === "off") {
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

  /** A client that sends the text of a trusted document need not be changed. */
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
