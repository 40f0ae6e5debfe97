import { nothingHere } from "../../conventions/problem.ts";
import type { CurrentResources } from "../current.ts";
import { type Collection, isWritable, type Resource } from "../resource.ts";
import { parseId } from "./id.ts";

/** Where an address leads; ids are text that Postgres takes. */
export type Route =
  | { readonly kind: "collection"; readonly resource: Resource; readonly parent: RouteParent | null }
  | { readonly kind: "record"; readonly resource: Resource; readonly parent: RouteParent | null; readonly id: string }
  | { readonly kind: "action"; readonly resource: Resource; readonly id: string; readonly action: string };

export type RouteParent = { readonly resource: Resource; readonly collection: Collection; readonly id: string };

/**
 * `["articles", "7", "comments"]` → the collection of comments of article 7. Throws RestError for addresses that lead
 * nowhere and for ids that are none.
 */
export function parseRoute(
  [name = "", id, more, innerId, ...rest]: readonly string[],
  resources: Pick<CurrentResources, "get">,
): Route {
  const resource = resources.get(name);
  if (!resource || rest.length > 0) throw nothingHere();
  if (id === undefined) return { kind: "collection", resource, parent: null };
  if (id === "") throw nothingHere();
  if (more === undefined) return { kind: "record", resource, parent: null, id: parseId(id, resource) };
  if (innerId === undefined && Object.hasOwn(resource.description.actions, more)) {
    return { kind: "action", resource, id: parseId(id, resource), action: more };
  }
  const collection = resource.collections.get(more);
  if (!collection || innerId === "") throw nothingHere();
  const parent = { resource, collection, id: parseId(id, resource) };
  const inner = collection.resource();
  if (innerId === undefined) return { kind: "collection", resource: inner, parent };
  return { kind: "record", resource: inner, parent, id: parseId(innerId, inner) };
}

/** The methods of an address, in the order of the header Allow. */
export function methodsOf(route: Route): readonly string[] {
  if (route.kind === "action") return ["POST", "OPTIONS"];
  const changes = isWritable(route.resource);
  if (route.kind === "record") return ["GET", "HEAD", ...(changes ? ["PUT", "PATCH", "DELETE"] : []), "OPTIONS"];
  const isCreatable = changes && (route.parent?.collection.isCreatable ?? true);
  return ["GET", "HEAD", ...(isCreatable ? ["POST"] : []), "OPTIONS"];
}
