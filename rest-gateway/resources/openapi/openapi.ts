import { AUTH_TAG, authPaths } from "../../auth/openapi.ts";
import { AUTH_SCHEMAS } from "../../auth/responses.ts";
import { HEADERS, problemResponses } from "../../openapi/convention-responses.ts";
import type { Components, JsonSchema, OpenApiDocument } from "../../openapi/document.ts";
import { SECURITY, SECURITY_SCHEMES } from "./access.ts";
import { resourceParameters, sharedParameters } from "./parameters.ts";
import { collectionPaths, resourcePaths } from "./paths.ts";
import { PAGE_SCHEMAS, problemSchema, resourceSchemas } from "./schemas.ts";
import { TASK_SCHEMAS, TASKS_TAG, taskPaths } from "./tasks.ts";
import type { ApiVersion } from "./version.ts";

/** OpenAPI 3.1 of the resources as one version serves them. */
export function resourceOpenApi(api: ApiVersion): OpenApiDocument {
  const { version, resources, hasTasks, hasAccounts, baseUrl } = api;
  const root = baseUrl.replace(/\/+$/, "");
  const all = [...resources.values()];
  const tags = all.map(({ description: { name, about } }) => ({ name, description: about }));
  return {
    openapi: "3.1.0",
    info: { title: `Resources, version ${version}`, description: guideOf(api), version: String(version) },
    servers: [{ url: `${root}${version === 2 ? "/api/v2" : ""}` }],
    security: SECURITY,
    tags: [...tags, ...(hasTasks ? [TASKS_TAG] : []), ...(hasAccounts ? [AUTH_TAG] : [])],
    paths: {
      ...Object.fromEntries(all.flatMap((resource) => resourcePaths(api, resource))),
      ...Object.fromEntries(all.flatMap((resource) => collectionPaths(api, resource))),
      ...(hasTasks && taskPaths()),
      ...(hasAccounts && authPaths(version === 2 ? root : null)),
    },
    components: componentsOf(api),
  };
}

function componentsOf(api: ApiVersion): Components {
  const all = [...api.resources.values()];
  return {
    schemas: {
      ...Object.fromEntries(all.flatMap((resource) => resourceSchemas(api, resource))),
      ...PAGE_SCHEMAS,
      ...(api.hasTasks && TASK_SCHEMAS),
      ...(api.hasAccounts && AUTH_SCHEMAS),
      Link: LINK_SCHEMA,
      Problem: problemSchema(),
    },
    parameters: {
      ...Object.fromEntries(all.flatMap((resource) => resourceParameters(api, resource))),
      ...sharedParameters(api),
    },
    headers: HEADERS,
    responses: problemResponses(),
    securitySchemes: SECURITY_SCHEMES,
  };
}

const LINK_SCHEMA: JsonSchema = {
  type: "object",
  properties: {
    href: { type: "string", description: "An address without its host." },
    method: { type: "string", description: "GET when it is left out." },
  },
  required: ["href"],
};

/** How to ask, in Markdown: the introduction of the reference page. */
export const guideOf = ({ version, isDeprecated, hasTasks }: ApiVersion): string =>
  [isDeprecated ? DEPRECATED : "", EVERYWHERE, LISTS[version], ERRORS[version], hasTasks ? TASKS : ""]
    .filter((text) => text !== "")
    .join("\n\n");

const DEPRECATED =
  "**This version is deprecated: use version 2.** Each answer says so in `X-API-Warn`, and objects in `deprecation`.";

const EVERYWHERE = `Every address has HEAD and OPTIONS too. What it does not have is 405, and \`Allow\` lists what it has.

## Versions

\`/api/v1\` and \`/api/v2\` in front of the address, \`X-API-Version\`, \`Accept: application/vnd.content.v2+json\` or \`?version=2\`; version 1
when nothing is said. Two that disagree are 400.

## Conditional requests

\`ETag\` and \`Last-Modified\` of an answer go into \`If-None-Match\` and \`If-Modified-Since\`, for 304, and those of a record into
\`If-Match\` and \`If-Unmodified-Since\` of a change, for 412 when somebody else was faster.`;

const LISTS = {
  1: `## Lists

\`skip\` and \`limit\`, \`page\` from 1 and \`limit\`, or \`page\` from 0 and \`size\`: each has a form of its own. \`X-Total-Count\` and \`Link\` come
with all of them.`,
  2: `## Lists

\`page\` from 1 and \`limit\`; records stand in \`data\`, beside \`pagination\` and \`links\`.`,
} as const;

const ERRORS = {
  1: `## Errors

\`error.code\` is for programs, \`error.message\` for people. A body that breaks a rule is 400.`,
  2: `## Errors

\`error.code\` is for programs, \`error.message\` for people. A body that breaks a rule is 422, and \`errors\` lists all that is wrong.`,
} as const;

const TASKS = `## Tasks

\`Prefer: respond-async\` on a list of new records, or on a whole collection: 202 with the address of a task, which does it.`;
