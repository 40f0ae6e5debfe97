import type { Catalog } from "../../../db/catalog/catalog.ts";
import type { MediaType } from "../../conventions/headers.ts";
import { notAcceptable } from "../../table/problem.ts";
import { type DescriptionOptions, openApi } from "./openapi.ts";
import { swagger } from "./swagger.ts";

export type DescriptionRequest = DescriptionOptions & {
  /** The version that a client gets that requests none. */
  readonly version: Version;
  /** Acceptable media types, the most preferred first. */
  readonly accept: readonly MediaType[];
};

export type Description = { readonly contentType: string; readonly body: string };

/**
 * The response to `GET /rest/v1/` and `GET /rest/v1/openapi.json`. `Accept: application/openapi+json;version=3` requests OpenAPI 3.1, and
 * `version=2` the document of PostgREST. Throws PGRST107 if no acceptable media type is available, and PGRST106 if the schema is not served.
 */
export function apiDescription(catalog: Catalog, { accept, version, ...options }: DescriptionRequest): Description {
  for (const wanted of accept) {
    const form = formOf(wanted);
    if (form !== undefined)
      return {
        contentType: `${form.contentType}; charset=utf-8`,
        body: bodyOf(catalog, form.version ?? version, options),
      };
  }
  throw notAcceptable(accept.map(({ type }) => type));
}

const WRITERS = { "3.1": openApi, "2.0": swagger } as const;
export type Version = keyof typeof WRITERS;
/** The version is null if the client requests none. */
type Form = { readonly version: Version | null; readonly contentType: string };

const JSON_FORM: Form = { version: null, contentType: "application/json" };
const ANY_VERSION: Form = { version: null, contentType: "application/openapi+json" };
const OPENAPI_FORM: Form = { version: "3.1", contentType: "application/openapi+json;version=3" };
const SWAGGER_FORM: Form = { version: "2.0", contentType: "application/openapi+json;version=2" };

/** By media type and requested version. */
const FORMS: ReadonlyMap<string, Form> = new Map([
  ["*/*;", JSON_FORM],
  ["application/*;", JSON_FORM],
  ["application/json;", JSON_FORM],
  ["application/openapi+json;", ANY_VERSION],
  ["application/openapi+json;3", OPENAPI_FORM],
  ["application/openapi+json;3.1", OPENAPI_FORM],
  ["application/openapi+json;2", SWAGGER_FORM],
  ["application/openapi+json;2.0", SWAGGER_FORM],
]);

const formOf = ({ type, parameters }: MediaType) => FORMS.get(`${type};${parameters.get("version") ?? ""}`);

/** Cached descriptions. A catalog is immutable, and its descriptions are garbage-collected with it. */
const cache = new WeakMap<Catalog, Map<string, string>>();

function bodyOf(catalog: Catalog, version: Version, options: DescriptionOptions): string {
  const bodies = cache.get(catalog) ?? new Map<string, string>();
  cache.set(catalog, bodies);
  const { schema, role, baseUrl, ignorePrivileges, hasReplicas } = options;
  const key = JSON.stringify([version, schema, role, baseUrl, ignorePrivileges, hasReplicas]);
  const body = bodies.get(key) ?? JSON.stringify(WRITERS[version](catalog, options));
  bodies.set(key, body);
  return body;
}
