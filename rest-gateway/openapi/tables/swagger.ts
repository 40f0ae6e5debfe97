import type { Catalog } from "../../../db/catalog/catalog.ts";
import { documentationOf } from "../comment.ts";
import { API_VERSION, type DescriptionOptions } from "./openapi.ts";
import { swaggerDefinition } from "./swagger-definitions.ts";
import { SWAGGER_PARAMETERS, swaggerFunctionPath, swaggerTableParameters, swaggerTablePath } from "./swagger-paths.ts";
import { visibleSchema } from "./visible-schema.ts";

/** OpenAPI 2.0, with the same structure and names as PostgREST 12. */
export type SwaggerDocument = {
  readonly swagger: "2.0";
  readonly info: { readonly title: string; readonly description: string; readonly version: string };
  readonly host: string;
  readonly basePath: string;
  readonly schemes: readonly string[];
  readonly consumes: readonly string[];
  readonly produces: readonly string[];
  readonly securityDefinitions: object;
  readonly security: readonly object[];
  readonly paths: Readonly<Record<string, object>>;
  readonly definitions: Readonly<Record<string, object>>;
  readonly parameters: Readonly<Record<string, object>>;
};

/**
 * Describes what a role may do in a schema, for tools made for PostgREST: they read `definitions.articles.properties` and the
 * keys in the descriptions of columns. Throws PGRST106 if the schema is not served.
 */
export function swagger(catalog: Catalog, options: DescriptionOptions): SwaggerDocument {
  const visible = visibleSchema(catalog, options);
  const { summary, description } = documentationOf(visible.schema.comment);
  const tables = [...visible.tables.values()];
  return {
    swagger: "2.0",
    info: { title: summary || `Tables of ${visible.schema.name}`, description, version: API_VERSION },
    ...serverOf(options.baseUrl),
    consumes: MEDIA_TYPES,
    produces: MEDIA_TYPES,
    securityDefinitions: SECURITY,
    security: [{ apikey: [] }, { apikey: [], JWT: [] }],
    paths: Object.fromEntries([
      ["/", ROOT],
      ...tables.map(swaggerTablePath),
      ...[...visible.functions].map(([name, overloads]) => swaggerFunctionPath(name, overloads)),
    ]),
    definitions: Object.fromEntries(tables.map((table) => [table.table.name, swaggerDefinition(visible, table)])),
    parameters: Object.fromEntries([...SWAGGER_PARAMETERS, ...tables.flatMap(swaggerTableParameters)]),
  };
}

function serverOf(baseUrl: string): Pick<SwaggerDocument, "host" | "basePath" | "schemes"> {
  const { host, pathname, protocol } = new URL(baseUrl);
  return { host, basePath: `${pathname.replace(/\/+$/, "")}/rest/v1`, schemes: [protocol.slice(0, -1)] };
}

const MEDIA_TYPES = [
  "application/json",
  "application/vnd.pgrst.object+json;nulls=stripped",
  "application/vnd.pgrst.object+json",
  "text/csv",
];

const SECURITY = {
  apikey: { type: "apiKey", in: "header", name: "apikey", description: "The anon key or another key of the service." },
  JWT: {
    type: "apiKey",
    in: "header",
    name: "Authorization",
    description: 'Add the token prepending "Bearer " (without quotes) to it',
  },
};

const ROOT = {
  get: {
    tags: ["Introspection"],
    summary: "OpenAPI description (this document)",
    produces: ["application/openapi+json;version=2"],
    responses: { 200: { description: "OK" } },
  },
};
