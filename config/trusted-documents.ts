import { z } from "zod";
import { parsedBy } from "./config-error.ts";
import { readText } from "./text-file.ts";

/** How a request names its document, and the documents of the files by their id. */
export type TrustedDocuments = {
  readonly mode: "any" | "none" | "allow" | "only";
  readonly byId: ReadonlyMap<string, string>;
};

/**
 * Reads a mode and its files: `only documents.json, admin.json`. Each is a manifest of graphql-codegen or Relay
 * (`{ "<id>": "<document>" }`), or of Apollo (`{ "format": "apollo-persisted-query-manifest", "operations": [{ "id", "body" }] }`).
 */
export const trustedDocuments = parsedBy(z.string(), (text): TrustedDocuments => {
  const [, mode, names = ""] = /^(any|none|allow|only)(?:$|\s+(.+)$)/s.exec(text) ?? [];
  const files = names.split(",").flatMap((name) => name.trim() || []);
  if (mode === undefined || (files.length > 0 ? mode === "any" || mode === "none" : mode === "only"))
    throw new Error("must be any, none, allow, or allow or only and files: only app.json, admin.json");
  const byId = new Map<string, string>();
  for (const file of files) {
    try {
      for (const [id, document] of readManifest(file)) byId.set(id, document);
    } catch (error) {
      throw new Error(`must name manifests of documents: ${file}: ${(error as Error).message}`);
    }
  }
  return { mode: mode as TrustedDocuments["mode"], byId };
});

const manifest = z.record(z.string().min(1), z.string().min(1));
const apollo = z.object({
  format: z.literal("apollo-persisted-query-manifest"),
  version: z.literal(1),
  operations: z.array(z.object({ id: z.string().min(1), body: z.string().min(1) })),
});

/** Throws Error with a message for operators. */
export function readManifest(file: string): [id: string, document: string][] {
  let content: unknown;
  try {
    content = JSON.parse(readText(file));
  } catch (error) {
    throw new Error(error instanceof SyntaxError ? "not JSON" : "cannot be read");
  }
  const operations = apollo.safeParse(content).data?.operations;
  if (operations) return operations.map(({ id, body }) => [id, body]);
  const documents = manifest.safeParse(content).data;
  if (documents) return Object.entries(documents);
  throw new Error("not a manifest of graphql-codegen, Relay or Apollo");
}
