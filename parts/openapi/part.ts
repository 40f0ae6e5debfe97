import { tableDocument } from "../../rest-gateway/openapi/documents.ts";
import { resourceDocuments } from "../../rest-gateway/resources/openapi/openapi.ts";
import type { Part } from "../../service/part.ts";

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
