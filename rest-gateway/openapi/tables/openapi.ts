import type { Catalog } from "../../../db/catalog/catalog.ts";
import { documentationOf, plainText } from "../comment.ts";
import type { Components, JsonSchema, OpenApiDocument, SecurityScheme } from "../document.ts";
import { FILTER_SCHEMA, filterParameters, OPERATORS } from "./filters.ts";
import { FUNCTIONS_TAG, functionPath } from "./function-paths.ts";
import { PARAMETERS } from "./parameters.ts";
import { ERROR_SCHEMA, errorResponses, HEADERS } from "./responses.ts";
import { tablePath } from "./table-paths.ts";
import { tableSchemas } from "./table-schemas.ts";
import { type Audience, ERROR, FILTER, type NamedOffer, offerTo, withNames } from "./visible-schema.ts";

export type DescriptionOptions = Audience & {
  /** Address of the service, without `/rest/v1`: `https://content.example`. */
  readonly baseUrl: string;
};

/** The version of the interface, as in its address. */
export const API_VERSION = "1";

/** OpenAPI 3.1 of what a role may do in a schema. Throws PGRST106 when the schema is not served. */
export function openApi(catalog: Catalog, options: DescriptionOptions): OpenApiDocument {
  const offer = withNames(offerTo(catalog, options));
  const { summary, description } = documentationOf(offer.schema.comment);
  const tables = [...offer.tables.values()];
  const functions = [...offer.functions];
  return {
    openapi: "3.1.0",
    info: {
      title: summary || `Tables of ${offer.schema.name}`,
      description: description === "" ? GUIDE : `${description}\n\n${GUIDE}`,
      version: API_VERSION,
    },
    servers: [{ url: `${options.baseUrl.replace(/\/+$/, "")}/rest/v1` }],
    security: [{ apikey: [] }, { apikey: [], bearer: [] }],
    tags: tagsOf(offer),
    paths: Object.fromEntries([
      ...tables.map((table) => tablePath(offer, table)),
      ...functions.map(([name, overloads]) => functionPath(offer, name, overloads)),
    ]),
    components: componentsOf(offer),
  };
}

function tagsOf({ tables, functions }: NamedOffer): OpenApiDocument["tags"] {
  const tags = [...tables.values()].map(({ table }) => {
    const description = plainText(table.comment);
    return { name: table.name, ...(description && { description }) };
  });
  const isFree = functions.size > 0 && !tables.has(FUNCTIONS_TAG);
  return isFree ? [...tags, { name: FUNCTIONS_TAG, description: "Functions of the database." }] : tags;
}

function componentsOf(offer: NamedOffer): Components {
  const tables = [...offer.tables.values()];
  const schemas: [string, JsonSchema][] = tables.flatMap((table) => tableSchemas(offer, table));
  return {
    schemas: Object.fromEntries([...schemas, [FILTER, FILTER_SCHEMA], [ERROR, ERROR_SCHEMA]]),
    parameters: {
      ...Object.fromEntries(tables.flatMap((table) => filterParameters(offer, table))),
      ...PARAMETERS,
    },
    headers: HEADERS,
    responses: errorResponses(),
    securitySchemes: SECURITY_SCHEMES,
  };
}

const SECURITY_SCHEMES: Readonly<Record<string, SecurityScheme>> = {
  apikey: { type: "apiKey", in: "header", name: "apikey", description: "The anon key, or another key of the service." },
  bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "The access token of a signed-in user." },
};

const operators = Object.entries(OPERATORS).map(([name, meaning]) => `| \`${name}\` | ${meaning} |`);

/** How to ask, in Markdown: the introduction of the reference page. */
export const GUIDE = `Every table and view is a collection of rows, every function can be called under \`/rpc\`.

## Filters

\`?column=operator.value\` chooses rows, \`?column=not.operator.value\` the others: \`/articles?status=eq.PUBLISHED&title=ilike.*sql*\`.
All filters must hold; \`or=(a.eq.1,b.gt.2)\` asks for one of several. \`eq(any).{1,2}\` and \`like(all).{a*,*b}\` take a list.

| operator | column is |
|---|---|
${operators.join("\n")}

## Related rows

\`select=title,author:users(name),comments(content)\` brings the rows that foreign keys lead to, as objects and lists.
\`comments!inner(content)\` leaves out rows that have none; \`comments.content=ilike.*sql*\` filters the list.

## Pages

\`limit\` and \`offset\`, or the header \`Range: 0-9\`. With \`Prefer: count=exact\` the header \`Content-Range\` tells how many rows there are in all.

## One row

With \`Accept: application/vnd.pgrst.object+json\` the answer is one object; it is an error when there is no row, or more than one.
`;
