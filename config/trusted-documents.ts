import { readFileSync } from "node:fs";
import { z } from "zod";

/** Documents by their id. */
export type TrustedDocuments = ReadonlyMap<string, string>;

/**
 * Reads the files of trusted documents: `documents.json, admin.json`. Each is a manifest of graphql-codegen or Relay
 * (`{ "<id>": "<document>" }`), or of Apollo (`{ "format": "apollo-persisted-query-manifest", "operations": [{ "id", "body" }] }`).
 */
export const trustedDocuments = z.string().transform((text, context): TrustedDocuments => {
  const documents = new Map<string, string>();
  for (const file of text.split(",").map((name) => name.trim())) {
    if (file === "") continue;
    try {
      for (const [id, document] of readManifest(file)) documents.set(id, document);
    } catch (error) {
      context.addIssue({
        code: "custom",
        message: `must name manifests of documents: ${file}: ${(error as Error).message}`,
      });
      return z.NEVER;
    }
  }
  return documents;
});

const byId = z.record(z.string().min(1), z.string().min(1));
const apollo = z.object({
  format: z.literal("apollo-persisted-query-manifest"),
  version: z.literal(1),
  operations: z.array(z.object({ id: z.string().min(1), body: z.string().min(1) })),
});

/** Throws Error with a message for operators. */
export function readManifest(file: string): [id: string, document: string][] {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new Error(error instanceof SyntaxError ? "not JSON" : "cannot be read");
  }
  const operations = apollo.safeParse(content).data?.operations;
  if (operations) return operations.map(({ id, body }) => [id, body]);
  const documents = byId.safeParse(content).data;
  if (documents) return Object.entries(documents);
  throw new Error("not a manifest of graphql-codegen, Relay or Apollo");
}
