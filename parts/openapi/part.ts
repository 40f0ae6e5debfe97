import type { Part } from "../../service/part.ts";
import { resourceDocuments } from "./resources/openapi.ts";
import { tableDocument } from "./table-documents.ts";

export const openapi: Part = {
  name: "openapi",
  about: "descriptions of the REST interfaces: OpenAPI 3.1, PostgREST's Swagger 2, TypeScript types",
  descriptions: {
    ofTables: tableDocument,
    ofResources: resourceDocuments,
    // Loads what commands use.
    typesOf: async (config) => (await import("./types.ts")).databaseTypes(config),
  },
};
