import type { Catalog } from "../../../db/catalog/catalog.ts";
import { OPERATORS } from "../../../db/filters/operators.ts";
import type { OpenApiDocument, SecurityScheme } from "../document.ts";
import { POSITION_COMPONENTS, withPositions } from "../positions.ts";
import { componentKeys, documentationOf, errorComponents, paragraphs, plainText, refer } from "../schema-parts.ts";
import type { VisibleTable } from "../visible-catalog.ts";
import { FUNCTIONS_TAG, functionPath } from "./function-paths.ts";
import { FILTER_SCHEMA, filterParameter, filtersOf, PARAMETERS } from "./parameters.ts";
import { ERROR, ERROR_SCHEMA, ERRORS, FILTER, HEADERS } from "./responses.ts";
import { tablePath } from "./table-paths.ts";
import { type DescribedSchema, describedSchema, tableSchemas, type Viewer } from "./table-schemas.ts";

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
  const schema = describedSchema(catalog, options);
  const { summary, description } = documentationOf(schema.comment);
  const own = summary === OF_POSTGRES ? "" : paragraphs(summary, description);
  const tables = [...schema.tables.values()].map((table) => partsOf(schema, table));
  const paths = Object.fromEntries([
    ...tables.map(({ path }) => path),
    ...[...schema.callable].map(([name, overloads]) => functionPath(schema, name, overloads)),
  ]);
  const { hasReplicas = false, baseUrl } = options;
  return {
    openapi: "3.1.0",
    info: { title: `Tables of ${schema.name}`, description: paragraphs(own, GUIDE), version: API_VERSION },
    servers: [{ url: `${baseUrl.replace(/\/+$/, "")}/rest/v1` }],
    security: [{ apikey: [] }, { apikey: [], bearer: [] }],
    tags: tagsOf(schema),
    paths: hasReplicas ? withPositions(paths) : paths,
    components: {
      schemas: Object.fromEntries([
        ...tables.flatMap(({ schemas }) => schemas),
        [FILTER, FILTER_SCHEMA],
        [ERROR, ERROR_SCHEMA],
      ]),
      parameters: {
        ...Object.fromEntries(tables.flatMap(({ filters }) => filters)),
        ...PARAMETERS,
        ...(hasReplicas && POSITION_COMPONENTS.parameters),
      },
      headers: { ...HEADERS, ...(hasReplicas && POSITION_COMPONENTS.headers) },
      responses: errorComponents(ERRORS, ERROR),
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

/** `filters` are parameters such as `rowFilter.posts.title`, one for each readable column. */
function partsOf(schema: DescribedSchema, table: VisibleTable) {
  const { name, columns } = table;
  const keys = componentKeys(columns.keys());
  const filters = filtersOf(table).map(
    (column) => [`rowFilter.${schema.tableKeys.get(name)}.${keys.get(column.name)}`, filterParameter(column)] as const,
  );
  const references = filters.map(([key]) => refer("parameters", key));
  return {
    path: [`/${encodeURIComponent(name)}`, tablePath(schema, table, references)] as const,
    schemas: tableSchemas(schema, table),
    filters,
  };
}

function tagsOf({ tables, callable }: DescribedSchema): OpenApiDocument["tags"] {
  const tags = [...tables.values()].map(({ name, comment }) => {
    const description = plainText(comment);
    return { name, ...(description && { description }) };
  });
  if (callable.size === 0 || tables.has(FUNCTIONS_TAG)) return tags;
  return [...tags, { name: FUNCTIONS_TAG, description: "Functions of the database, called under `/rpc`." }];
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
