import type { IncomingHttpHeaders } from "node:http";
import type { Catalog } from "../../db/catalog/catalog.ts";
import { type MediaType, parseAccept } from "../../rest-gateway/conventions/headers.ts";
import type { TableDescriptionOptions } from "../../rest-gateway/descriptions.ts";
import type { Answer } from "../../rest-gateway/table/answer/answer.ts";
import { profileHeader } from "../../rest-gateway/table/answer/answer.ts";
import { parseProfile } from "../../rest-gateway/table/parse/headers.ts";
import { notAcceptable } from "../../rest-gateway/table/problem.ts";
import { type DescriptionOptions, openApi } from "./tables/openapi.ts";
import { swagger } from "./tables/swagger.ts";
import { typesOf } from "./typescript/database.ts";

/**
 * The descriptions of the table interface: that of PostgREST at its root, which is the path "", OpenAPI 3.1 at `openapi.json`, and
 * TypeScript types at `types.ts`.
 */
export function tableDocument(
  path: string,
  headers: IncomingHttpHeaders,
  catalog: Catalog,
  options: TableDescriptionOptions,
): Answer {
  const { role } = options;
  if (path === "types.ts") {
    const text = cached(catalog, ["types", role], () => typesOf(catalog, role));
    return document("text/plain; charset=utf-8", text);
  }
  const schema = parseProfile(headers["accept-profile"]) ?? catalog.schemas.keys().next().value ?? "";
  const version = path === "" ? "2.0" : "3.1";
  const accept = parseAccept(headers.accept);
  const { contentType, body } = apiDescription(catalog, { ...options, schema, version, accept });
  return document(contentType, body, profileHeader(catalog, schema));
}

const document = (type: string, text: string, profile: string | null = null): Answer => ({
  status: 200,
  headers: [["Content-Type", type], ...(profile === null ? [] : ([["Content-Profile", profile]] as const))],
  body: Buffer.from(text),
});

/** Texts by catalog, which is immutable. Without them, each request would block the event loop for tenths of a second with 1000 tables. */
const texts = new WeakMap<Catalog, Map<string, string>>();

function cached(catalog: Catalog, dependsOn: readonly unknown[], write: () => string): string {
  const known = texts.get(catalog) ?? new Map<string, string>();
  texts.set(catalog, known);
  const key = JSON.stringify(dependsOn);
  const text = known.get(key) ?? write();
  known.set(key, text);
  return text;
}

const WRITERS = { "3.1": openApi, "2.0": swagger } as const;
export type Version = keyof typeof WRITERS;

export type DescriptionRequest = DescriptionOptions & {
  /** The version that a client gets that requests none. */
  readonly version: Version;
  /** Acceptable media types, the most preferred first. */
  readonly accept: readonly MediaType[];
};

/**
 * `Accept: application/openapi+json;version=3` requests OpenAPI 3.1, and `version=2` the document of PostgREST. Throws PGRST107 if no
 * acceptable media type is available, and PGRST106 if the schema is not served.
 */
export function apiDescription(catalog: Catalog, { accept, version: usual, ...options }: DescriptionRequest) {
  const form = accept
    .map(({ type, parameters }) => FORMS.get(`${type};${parameters.get("version") ?? ""}`))
    .find((each) => each !== undefined);
  if (form === undefined) throw notAcceptable(accept.map(({ type }) => type));
  const [contentType, version = usual] = form;
  const { schema, role, baseUrl, hasReplicas } = options;
  const body = cached(catalog, [version, schema, role, baseUrl, hasReplicas], () =>
    JSON.stringify(WRITERS[version](catalog, options)),
  );
  return { contentType: `${contentType}; charset=utf-8`, body };
}

const OPENAPI = "application/openapi+json";

/** The content type and version of the response, by media type and requested version. */
const FORMS: ReadonlyMap<string, readonly [contentType: string, version?: Version]> = new Map([
  ["*/*;", ["application/json"]],
  ["application/*;", ["application/json"]],
  ["application/json;", ["application/json"]],
  [`${OPENAPI};`, [OPENAPI]],
  [`${OPENAPI};3`, [`${OPENAPI};version=3`, "3.1"]],
  [`${OPENAPI};3.1`, [`${OPENAPI};version=3`, "3.1"]],
  [`${OPENAPI};2`, [`${OPENAPI};version=2`, "2.0"]],
  [`${OPENAPI};2.0`, [`${OPENAPI};version=2`, "2.0"]],
]);
