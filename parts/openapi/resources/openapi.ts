import type { Catalog } from "../../../db/catalog/catalog.ts";
import { contentTag } from "../../../rest-gateway/conventions/conditional.ts";
import { answerOf, type RestAnswer } from "../../../rest-gateway/conventions/endpoint.ts";
import type { Version } from "../../../rest-gateway/conventions/version.ts";
import type { ResourceDescriptionOptions } from "../../../rest-gateway/descriptions.ts";
import { APPLICATION_TAG, routePaths } from "../application-paths.ts";
import { AUTH_TAG, authPaths, passwordSchema, signUpSchemas } from "../auth-paths.ts";
import { namedSchemas } from "../body-schemas.ts";
import { PAGE_SCHEMAS } from "../conventions/parameters.ts";
import { HEADERS, PROBLEMS, problemSchema } from "../conventions/responses.ts";
import { SECURITY, SECURITY_SCHEMES } from "../conventions/security.ts";
import { TASK_PATHS, TASK_SCHEMAS, TASKS_TAG } from "../conventions/tasks.ts";
import type { Components, JsonSchema, OpenApiDocument } from "../document.ts";
import { POSITION_COMPONENTS, withPositions } from "../positions.ts";
import { errorComponents, objectOf, paragraphs, textOf } from "../schema-parts.ts";
import { resourceParameters, sharedParameters } from "./parameters.ts";
import { collectionPaths, resourcePaths } from "./paths.ts";
import { createSchema, recordSchema, resourceSchemas } from "./schemas.ts";
import type { ApiVersion } from "./version.ts";

/** Returns what writes `/openapi.json` in a version. The documents of a catalog are kept. */
export function resourceDocuments(options: ResourceDescriptionOptions): (version: Version) => RestAnswer {
  const { resources, lifecycle } = options;
  let known: Catalog | null = null;
  const written = new Map<Version, RestAnswer>();
  const write = (catalog: Catalog, version: Version): RestAnswer => {
    const api = {
      ...options,
      catalog,
      resources: resources.byName,
      version,
      isDeprecated: lifecycle.isDeprecated(version),
    };
    // The final newline keeps the member `deprecation` out of the document.
    const body = Buffer.from(`${JSON.stringify(resourceOpenApi(api))}\n`);
    return { ...answerOf(200, body), etag: contentTag(body) };
  };
  return (version) => {
    const catalog = options.catalog.current;
    if (catalog !== known) written.clear();
    known = catalog;
    const answer = written.get(version) ?? write(catalog, version);
    written.set(version, answer);
    return answer;
  };
}

/** OpenAPI 3.1 of the resources in one version. */
export function resourceOpenApi(api: ApiVersion): OpenApiDocument {
  const { version, resources, routes, hasTasks, hasReplicas, baseUrl } = api;
  const hasAccounts = api.passwords !== null;
  const all = [...resources.values()];
  const resourceItems = Object.fromEntries([
    ...all.flatMap((resource) => resourcePaths(api, resource)),
    ...all.flatMap((resource) => collectionPaths(api, resource)),
  ]);
  const tags = all.map(({ description: { name, about } }) => ({ name, description: about }));
  return {
    openapi: "3.1.0",
    info: { title: `Resources, version ${version}`, description: guideOf(api), version: String(version) },
    servers: [{ url: baseUrl.replace(/\/+$/, "") }],
    security: SECURITY,
    tags: [
      ...tags,
      ...(routes.length > 0 ? [APPLICATION_TAG] : []),
      ...(hasTasks ? [TASKS_TAG] : []),
      ...(hasAccounts ? [AUTH_TAG] : []),
    ],
    paths: {
      ...inVersion(version, hasReplicas ? withPositions(resourceItems) : resourceItems),
      ...routePaths(routes),
      ...(hasTasks && inVersion(version, TASK_PATHS)),
      ...(hasAccounts && authPathsOf(api)),
    },
    components: componentsOf(api),
  };
}

/** `/api/v2/posts`: generated clients send requests to the server of the document, whatever an operation says. */
const inVersion = (version: Version, paths: OpenApiDocument["paths"]): OpenApiDocument["paths"] =>
  version === 1
    ? paths
    : Object.fromEntries(Object.entries(paths).map(([path, item]) => [`/api/v${version}${path}`, item]));

function componentsOf(api: ApiVersion): Components {
  const all = [...api.resources.values()];
  return {
    schemas: {
      ...Object.fromEntries(all.flatMap((resource) => resourceSchemas(api, resource))),
      ...PAGE_SCHEMAS,
      ...(api.hasTasks && TASK_SCHEMAS),
      ...(api.passwords && { ...namedSchemas(), NewPassword: passwordSchema(api.passwords), ...schemasOfSignUp(api) }),
      Link: LINK_SCHEMA,
      Problem: problemSchema(api.errorDialect),
    },
    parameters: {
      ...Object.fromEntries(all.flatMap((resource) => resourceParameters(api, resource))),
      ...sharedParameters(api),
      ...(api.hasReplicas && POSITION_COMPONENTS.parameters),
    },
    headers: { ...HEADERS, ...(api.hasReplicas && POSITION_COMPONENTS.headers) },
    responses: errorComponents(PROBLEMS, "Problem"),
    securitySchemes: SECURITY_SCHEMES,
  };
}

/** Without a resource that has accounts, `POST /auth/register` refuses. */
function authPathsOf(api: ApiVersion) {
  const { "/auth/register": signUp, ...paths } = authPaths(api.authRoutes);
  return usersOf(api) === undefined ? paths : { ...paths, "/auth/register": signUp! };
}

const usersOf = ({ resources }: ApiVersion) =>
  [...resources.values()].find(({ description }) => description.hasAccount);

/** `POST /auth/register` takes and returns a record of the resource with accounts, as version 1 does. */
function schemasOfSignUp(api: ApiVersion) {
  const users = usersOf(api);
  const inVersion1: ApiVersion = { ...api, version: 1 };
  return users && signUpSchemas(createSchema(inVersion1, users), recordSchema(inVersion1, users));
}

const LINK_SCHEMA: JsonSchema = objectOf(
  { href: textOf("A URL without the host."), method: textOf("GET when it is absent.") },
  "",
  ["href"],
);

/** The introduction of the reference page, in Markdown. */
const guideOf = ({ version, isDeprecated, hasTasks }: ApiVersion): string =>
  paragraphs(
    isDeprecated ? DEPRECATED : "",
    EVERYWHERE,
    LISTS[version],
    ERRORS + INVALID[version],
    hasTasks ? TASKS : "",
  );

const DEPRECATED =
  "**This version is deprecated: use version 2.** Every response has the header `X-API-Warn`, and objects have the member `deprecation`.";

const EVERYWHERE = `Every path supports HEAD and OPTIONS. Other methods are answered with 405, and \`Allow\` lists those that the path supports.

## Versions

Choose a version with the prefix \`/api/v1\` or \`/api/v2\`, \`X-API-Version\`, \`Accept: application/vnd.content.v2+json\` or \`?version=2\`. The
default is version 1. If two of them name different versions, the response is 400.

## Conditional requests

Send \`ETag\` and \`Last-Modified\` of a response as \`If-None-Match\` and \`If-Modified-Since\` to get 304 when nothing has changed. Send those of a
record as \`If-Match\` and \`If-Unmodified-Since\` of a change to get 412 when another client has changed it.`;

const LISTS = {
  1: `## Lists

Use \`skip\` and \`limit\`, \`page\` from 1 and \`limit\`, or \`page\` from 0 and \`size\`: each has a different response body. All of them have the headers
\`X-Total-Count\` and \`Link\`.`,
  2: `## Lists

Use \`page\` from 1 and \`limit\`. The response has the records in \`data\`, and \`pagination\` and \`links\`.`,
} as const;

const ERRORS = `## Errors

\`error.code\` is for programs, \`error.message\` for people. \`Prefer: dialect=detail\` and \`dialect=flat\` choose other forms. The status of an invalid body is `;

const INVALID = { 1: "400.", 2: "422, and `errors` lists every fault." } as const;

const TASKS = `## Tasks

\`Prefer: respond-async\` with an array of new records, or for a whole collection: the response is 202 with the URL of the task that handles the request, as in the schema \`AcceptedTask\`.`;
