import type { Catalog } from "../../../db/catalog/catalog.ts";
import { OPERATORS } from "../../../db/filters/operators.ts";
import type { Components, JsonSchema, OpenApiDocument, SecurityScheme } from "../document.ts";
import { POSITION_COMPONENTS, withPositions } from "../positions.ts";
import { documentationOf, plainText } from "../schema-parts.ts";
import { FUNCTIONS_TAG, functionPath } from "./function-paths.ts";
import { FILTER_SCHEMA, filterParameters, PARAMETERS } from "./parameters.ts";
import { ERROR_SCHEMA, errorResponses, HEADERS } from "./responses.ts";
import { tablePath } from "./table-paths.ts";
import { tableSchemas } from "./table-schemas.ts";
import { ERROR, FILTER, type NamedSchema, type Viewer, visibleSchema, withNames } from "./visible-schema.ts";

export type DescriptionOptions = Viewer & {
  /** The URL of the service, without `/rest/v1`: `https://content.example`. */
  readonly baseUrl: string;
  /** Whether reads may be answered by replicas. */
  readonly hasReplicas?: boolean;
};

/** The version of the API, as in its path. */
export const API_VERSION = "1";

/** The comment that Postgres gives the schema public says nothing to a client. */
const OF_POSTGRES = "standard public schema";

/** Describes what a role may do in a schema, as OpenAPI 3.1. Throws PGRST106 if the schema is not served. */
export function openApi(catalog: Catalog, options: DescriptionOptions): OpenApiDocument {
  const visible = withNames(visibleSchema(catalog, options));
  const { summary, description } = documentationOf(visible.schema.comment);
  const own = summary === OF_POSTGRES ? [] : [summary, description];
  const tables = [...visible.tables.values()];
  const functions = [...visible.functions];
  const paths = Object.fromEntries([
    ...tables.map((table) => tablePath(visible, table)),
    ...functions.map(([name, overloads]) => functionPath(visible, name, overloads)),
  ]);
  const hasReplicas = options.hasReplicas ?? false;
  return {
    openapi: "3.1.0",
    info: {
      title: `Tables of ${visible.schema.name}`,
      description: [...own, GUIDE].filter((text) => text !== "").join("\n\n"),
      version: API_VERSION,
    },
    servers: [{ url: `${options.baseUrl.replace(/\/+$/, "")}/rest/v1` }],
    security: [{ apikey: [] }, { apikey: [], bearer: [] }],
    tags: tagsOf(visible),
    paths: hasReplicas ? withPositions(paths) : paths,
    components: componentsOf(visible, hasReplicas),
  };
}

function tagsOf({ tables, functions }: NamedSchema): OpenApiDocument["tags"] {
  const tags = [...tables.values()].map(({ table }) => {
    const description = plainText(table.comment);
    return { name: table.name, ...(description && { description }) };
  });
  const isFree = functions.size > 0 && !tables.has(FUNCTIONS_TAG);
  return isFree
    ? [...tags, { name: FUNCTIONS_TAG, description: "Functions of the database, called under `/rpc`." }]
    : tags;
}

function componentsOf(visible: NamedSchema, hasReplicas: boolean): Components {
  const tables = [...visible.tables.values()];
  const schemas: [string, JsonSchema][] = tables.flatMap((table) => tableSchemas(visible, table));
  return {
    schemas: Object.fromEntries([...schemas, [FILTER, FILTER_SCHEMA], [ERROR, ERROR_SCHEMA]]),
    parameters: {
      ...Object.fromEntries(tables.flatMap((table) => filterParameters(visible, table))),
      ...PARAMETERS,
      ...(hasReplicas && POSITION_COMPONENTS.parameters),
    },
    headers: { ...HEADERS, ...(hasReplicas && POSITION_COMPONENTS.headers) },
    responses: errorResponses(),
    securitySchemes: SECURITY_SCHEMES,
  };
}

const SECURITY_SCHEMES: Readonly<Record<string, SecurityScheme>> = {
  apikey: { type: "apiKey", in: "header", name: "apikey", description: "The anon key or another key of the service." },
  bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "The access token of a signed-in user." },
};

const operators = Object.entries(OPERATORS).map(([name, { about }]) => `| \`${name}\` | ${about} |`);

/** The introduction of the reference page, in Markdown: how to write requests. */
const GUIDE = `Every table and view is a collection of rows. Every function can be called under \`/rpc\`.

## Filters

\`?column=operator.value\` selects the rows that match, \`?column=not.operator.value\` the other rows: \`/posts?status=eq.PUBLISHED&title=ilike.*sql*\`.
A row must match all filters. With \`or=(a.eq.1,b.gt.2)\` it must match one of several. \`eq(any).{1,2}\` and \`like(all).{a*,*b}\` take a list.

| operator | the column is |
|---|---|
${operators.join("\n")}

## Related rows

\`select=title,author:users(name),comments(content)\` includes the rows to which foreign keys refer, as objects and lists.
\`comments!inner(content)\` omits rows without comments; \`comments.content=ilike.*sql*\` filters the included list.

## Pages

Use \`limit\` and \`offset\`, or the header \`Range: 0-9\`. With \`Prefer: count=exact\` the header \`Content-Range\` contains the total number of rows.

## Long queries

If the query string is too long for a URL, send it as the body of \`QUERY /posts\`, with the type \`application/x-www-form-urlencoded\`.
Clients that cannot send QUERY use POST with the header \`X-HTTP-Method-Override: GET\`. \`DELETE\` and \`PATCH\` in this header delete and
change the rows that match; for PATCH the parameter \`body\` has the JSON object of changes.

## One row

With \`Accept: application/vnd.pgrst.object+json\` the response is one object. If there is no row or more than one, the response is an error.
`;
