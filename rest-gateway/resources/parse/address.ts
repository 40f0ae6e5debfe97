import type { IncomingMessage } from "node:http";
import { problem } from "../../../problems/problem.ts";
import { isUuid, Parameters } from "../../conventions/parameters.ts";
import { badRequest } from "../../conventions/problem.ts";
import { chooseVersion, type Version } from "../../conventions/version.ts";
import type { CurrentResources } from "../current.ts";
import { invalidId, noSuchRow } from "../problem.ts";
import type { Preferences, RequestText } from "../request.ts";
import { isWritable, type Resource, type ResourceField } from "../resource.ts";
import { fits } from "./values.ts";

/** `v2.1` matches too: it is answered as an unsupported version. */
const VERSIONED = /^\/api\/v(-?[0-9][0-9.]*)(?=\/|$)/;

/** The text of a request without its body. Throws Problem for a version that is not served. */
export function parseUrl(
  { method = "GET", url = "/", headers }: Pick<IncomingMessage, "method" | "url" | "headers">,
  preferences: Preferences,
  supported: readonly Version[],
): RequestText {
  const at = url.indexOf("?");
  const path = at < 0 ? url : url.slice(0, at);
  const parameters = new Parameters(at < 0 ? "" : url.slice(at + 1));
  const [prefix, inPath = null] = VERSIONED.exec(path) ?? [""];
  const { version, contentType } = chooseVersion(inPath, headers, parameters.get("version"), supported);
  const style = {
    version,
    isCamel: version === 2 || preferences.dialects.has("case"),
    // Links lead to the same version, however it was chosen.
    prefix: prefix === "" && version === 2 ? "/api/v2" : prefix,
  };
  return { method, path, prefix, parameters, headers, preferences, style, contentType, body: null, isTask: false };
}

/** `/api/v2/users/7` → `["users", "7"]`. Throws Problem for what is not percent-encoded UTF-8. */
export const segmentsOf = ({ path, prefix }: RequestText): readonly string[] =>
  Array.from(path.slice(prefix.length + 1).split("/"), decodeSegment);

function decodeSegment(segment: string): string {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    throw badRequest("the path must be UTF-8, percent-encoded");
  }
}

/** What a path names. Ids are texts that Postgres accepts. */
export type Route =
  | { readonly kind: "collection"; readonly resource: Resource; readonly parent: RouteParent | null }
  | { readonly kind: "record"; readonly resource: Resource; readonly parent: RouteParent | null; readonly id: string }
  | { readonly kind: "action"; readonly resource: Resource; readonly id: string; readonly action: string };

/** `field` of each record in the collection has the id of the parent. */
export type RouteParent = {
  readonly resource: Resource;
  readonly field: ResourceField;
  readonly id: string;
  readonly isCreatable: boolean;
};

/**
 * `["posts", "7", "comments"]` → the comments of post 7. Throws Problem for unknown paths and invalid ids.
 */
export function parseRoute(
  [name = "", id, more, innerId, ...rest]: readonly string[],
  resources: Pick<CurrentResources, "get">,
): Route {
  const resource = resources.get(name);
  if (!resource || rest.length > 0) throw problem("no such path");
  if (id === undefined) return { kind: "collection", resource, parent: null };
  if (id === "") throw problem("no such path");
  if (more === undefined) return { kind: "record", resource, parent: null, id: parseId(id, resource) };
  if (innerId === undefined && Object.hasOwn(resource.description.actions, more)) {
    return { kind: "action", resource, id: parseId(id, resource), action: more };
  }
  const collection = resource.collections.get(more);
  if (!collection || innerId === "") throw problem("no such path");
  const parentId = parseId(id, resource);
  const inner = collection.resource();
  const field = inner.fieldNamed.get(collection.field)!;
  const parent = { resource, field, id: parentId, isCreatable: collection.isCreatable };
  if (innerId === undefined) return { kind: "collection", resource: inner, parent };
  return { kind: "record", resource: inner, parent, id: parseId(innerId, inner) };
}

/** `/posts/{id}/comments` */
export function templateOf(route: Route): string {
  const { name } = route.resource.description;
  if (route.kind === "action") return `/${name}/{id}/${route.action}`;
  const collection = route.parent ? `/${route.parent.resource.description.name}/{id}/${name}` : `/${name}`;
  return route.kind === "record" ? `${collection}/{id}` : collection;
}

/** The methods of a path, in the order of the header Allow. */
export function methodsOf(route: Route): readonly string[] {
  if (route.kind === "action") return ["POST", "OPTIONS"];
  const changes = isWritable(route.resource);
  if (route.kind === "record") return ["GET", "HEAD", ...(changes ? ["PUT", "PATCH", "DELETE"] : []), "OPTIONS"];
  const isCreatable = changes && (route.parent?.isCreatable ?? true);
  return ["GET", "HEAD", ...(isCreatable ? ["POST"] : []), "OPTIONS"];
}

const WHOLE_NUMBER = /^-?(?:0|[1-9][0-9]*)$/;

/**
 * The id as Postgres accepts it. Throws Problem: INVALID_ID for other texts (`abc`, `1.0`, `+1`), not found for an
 * integer that is out of range.
 */
function parseId(text: string, resource: Resource): string {
  const { shape } = resource.key.column;
  const isId = shape.name === "uuid" ? isUuid(text) : WHOLE_NUMBER.test(text);
  if (!isId) throw invalidId(text.slice(0, 50), resource);
  if (shape.name !== "uuid" && !fits(text, shape)) throw noSuchRow(resource);
  return text;
}
