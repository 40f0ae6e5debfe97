import { AUTH_TAG, authPaths } from "../../auth/openapi.ts";
import { AUTH_SCHEMAS } from "../../auth/responses.ts";
import { HEADERS, problemResponses } from "../../openapi/convention-responses.ts";
import type { Components, JsonSchema, OpenApiDocument } from "../../openapi/document.ts";
import { SECURITY, SECURITY_SCHEMES } from "./access.ts";
import { guideOf } from "./guide.ts";
import { PAGE_SCHEMAS } from "./lists.ts";
import { resourceParameters, sharedParameters } from "./parameters.ts";
import { collectionPaths, resourcePaths } from "./paths.ts";
import { problemSchema } from "./problem-schema.ts";
import { resourceSchemas } from "./schemas.ts";
import { TASK_SCHEMAS, TASKS_TAG, taskPaths } from "./tasks.ts";
import type { Edition } from "./version.ts";

/** OpenAPI 3.1 of the resources as one version serves them. */
export function resourceOpenApi(edition: Edition): OpenApiDocument {
  const { version, resources, hasTasks, hasAccounts, baseUrl } = edition;
  const root = baseUrl.replace(/\/+$/, "");
  const all = [...resources.values()];
  const tags = all.map(({ description: { name, about } }) => ({ name, description: about }));
  return {
    openapi: "3.1.0",
    info: { title: `Resources, version ${version}`, description: guideOf(edition), version: String(version) },
    servers: [{ url: `${root}${version === 2 ? "/api/v2" : ""}` }],
    security: SECURITY,
    tags: [...tags, ...(hasTasks ? [TASKS_TAG] : []), ...(hasAccounts ? [AUTH_TAG] : [])],
    paths: {
      ...Object.fromEntries(all.flatMap((resource) => resourcePaths(edition, resource))),
      ...Object.fromEntries(all.flatMap((resource) => collectionPaths(edition, resource))),
      ...(hasTasks && taskPaths()),
      ...(hasAccounts && authPaths(version === 2 ? root : null)),
    },
    components: componentsOf(edition),
  };
}

function componentsOf(edition: Edition): Components {
  const all = [...edition.resources.values()];
  return {
    schemas: {
      ...Object.fromEntries(all.flatMap((resource) => resourceSchemas(edition, resource))),
      ...PAGE_SCHEMAS,
      ...(edition.hasTasks && TASK_SCHEMAS),
      ...(edition.hasAccounts && AUTH_SCHEMAS),
      Link: LINK_SCHEMA,
      Problem: problemSchema(),
    },
    parameters: {
      ...Object.fromEntries(all.flatMap((resource) => resourceParameters(edition, resource))),
      ...sharedParameters(edition),
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
