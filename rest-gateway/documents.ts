import type { IncomingMessage } from "node:http";
import type { Caller } from "../db/caller.ts";
import type { Catalog } from "../db/catalog/catalog.ts";
import { problem } from "../problems/problem.ts";
import { parseAccept } from "./conventions/headers.ts";
import { methodNotAllowed } from "./conventions/problem.ts";
import { apiDescription } from "./openapi/tables/description.ts";
import { typesOf } from "./openapi/typescript/database.ts";
import type { Answer } from "./table/answer/answer.ts";
import { profileHeader } from "./table/answer/answer.ts";
import { parseProfile } from "./table/parse/headers.ts";

export type DocumentOptions = {
  readonly openApi: "follow-privileges" | "ignore-privileges" | "off";
  /** The URL of the service, as clients see it. */
  readonly baseUrl: string;
  readonly hasReplicas: boolean;
};

const METHODS = ["OPTIONS", "GET", "HEAD"];

/**
 * The descriptions of the table interface: that of PostgREST at its root, which is the path "", OpenAPI 3.1 at `openapi.json`, and
 * TypeScript types at `types.ts`. Null if a table has this name.
 */
export function documentAt(
  path: string,
  { method = "GET", headers }: IncomingMessage,
  caller: Caller,
  catalog: Catalog,
  options: DocumentOptions,
): Answer | null {
  if (isTable(path, catalog)) return null;
  if (method === "OPTIONS") return { status: 200, headers: [["Allow", METHODS.join(",")]], body: null };
  if (!METHODS.includes(method)) throw methodNotAllowed(method, METHODS);
  if (path === "types.ts")
    return document(
      "text/plain; charset=utf-8",
      typesOf(catalog, options.openApi === "ignore-privileges" ? null : caller.role),
    );
  if (options.openApi === "off") throw problem("table description off");
  const schema = parseProfile(headers["accept-profile"]) ?? catalog.schemas.keys().next().value ?? "";
  const { contentType, body } = apiDescription(catalog, {
    schema,
    role: caller.role,
    baseUrl: options.baseUrl,
    hasReplicas: options.hasReplicas,
    ignorePrivileges: options.openApi === "ignore-privileges",
    version: path === "" ? "2.0" : "3.1",
    accept: parseAccept(headers.accept),
  });
  return document(contentType, body, profileHeader(catalog, schema));
}

const isTable = (name: string, { schemas }: Catalog) => [...schemas.values()].some(({ tables }) => tables.has(name));

const document = (type: string, text: string, profile: string | null = null): Answer => ({
  status: 200,
  headers: [["Content-Type", type], ...(profile === null ? [] : ([["Content-Profile", profile]] as const))],
  body: Buffer.from(text),
});
