import type { Catalog } from "../../../db/catalog/catalog.ts";
import type { LiveCatalog } from "../../../db/catalog/live.ts";
import { AUTH_SCHEMAS, AUTH_TAG, authPaths, signUpSchemas } from "../../auth/openapi.ts";
import { contentTag } from "../../conventions/conditional.ts";
import { answerOf, type Endpoint, type EndpointRequest, type RestAnswer } from "../../conventions/endpoint.ts";
import type { Lifecycle, Version } from "../../conventions/version.ts";
import { PAGE_SCHEMAS } from "../../openapi/conventions/lists.ts";
import { PROBLEM_SCHEMA } from "../../openapi/conventions/problem.ts";
import { HEADERS, problemResponses } from "../../openapi/conventions/responses.ts";
import { SECURITY, SECURITY_SCHEMES } from "../../openapi/conventions/security.ts";
import { TASK_PATHS, TASK_SCHEMAS, TASKS_TAG } from "../../openapi/conventions/tasks.ts";
import type { Components, JsonSchema, OpenApiDocument } from "../../openapi/document.ts";
import type { CurrentResources } from "../current.ts";
import { descriptionOff } from "../problem.ts";
import { guideOf } from "./guide.ts";
import { resourceParameters, sharedParameters } from "./parameters.ts";
import { collectionPaths, resourcePaths } from "./paths.ts";
import { createSchema, recordSchema, resourceSchemas } from "./schemas.ts";
import type { ApiOptions, ApiVersion } from "./version.ts";

export type DescriptionOptions = ApiOptions & {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly resources: CurrentResources;
  readonly lifecycle: Lifecycle;
  readonly isOff: boolean;
};

/** `/openapi.json`: the OpenAPI document of the requested version, the same for every caller. */
export class DescriptionEndpoint implements Endpoint {
  readonly #options: DescriptionOptions;
  #catalog: Catalog | null = null;
  /** The documents of the catalog. */
  readonly #written = new Map<Version, RestAnswer>();

  constructor(options: DescriptionOptions) {
    this.#options = options;
  }

  methodsAt(segments: readonly string[]): readonly string[] | null {
    return segments.length === 1 ? ["GET", "HEAD", "OPTIONS"] : null;
  }

  async answer({ parameters, version }: EndpointRequest): Promise<RestAnswer> {
    if (this.#options.isOff) throw descriptionOff();
    parameters.allowOnly([]);
    const catalog = this.#options.catalog.current;
    if (catalog !== this.#catalog) this.#written.clear();
    this.#catalog = catalog;
    const answer = this.#written.get(version) ?? this.#write(catalog, version);
    this.#written.set(version, answer);
    return answer;
  }

  #write(catalog: Catalog, version: Version): RestAnswer {
    const { resources, lifecycle } = this.#options;
    const isDeprecated = lifecycle.isDeprecated(version);
    const isCamel = version === 2;
    const api = { ...this.#options, catalog, resources: resources.byName, version, isCamel, isDeprecated };
    // The final newline keeps the member `deprecation` out of the document.
    const body = Buffer.from(`${JSON.stringify(resourceOpenApi(api))}\n`);
    return { ...answerOf(200, body), etag: contentTag(body) };
  }
}

/** OpenAPI 3.1 of the resources in one version. */
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
      ...(hasTasks && TASK_PATHS),
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
      ...(api.hasAccounts && { ...AUTH_SCHEMAS, ...schemasOfSignUp(api) }),
      Link: LINK_SCHEMA,
      Problem: PROBLEM_SCHEMA,
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

/** `POST /auth/register` takes and returns a user as version 1 does. */
function schemasOfSignUp(api: ApiVersion) {
  const users = api.resources.get("users");
  const inVersion1: ApiVersion = { ...api, version: 1, isCamel: false };
  return users
    ? signUpSchemas(createSchema(inVersion1, users), recordSchema(inVersion1, users))
    : signUpSchemas({}, {});
}

const LINK_SCHEMA: JsonSchema = {
  type: "object",
  properties: {
    href: { type: "string", description: "A URL without the host." },
    method: { type: "string", description: "GET when it is absent." },
  },
  required: ["href"],
};
