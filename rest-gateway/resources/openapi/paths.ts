import type { PathItem } from "../../openapi/document.ts";
import { isWritable, type Resource } from "../resource.ts";
import {
  actOperation,
  createOperation,
  deleteOperation,
  listOperation,
  readOperation,
  replaceOperation,
  updateOperation,
} from "./operations.ts";
import { idName, idParameter } from "./parameters.ts";
import type { Place } from "./path.ts";
import { collectionsOf, type Edition } from "./version.ts";

/** `/articles`, `/articles/{articleId}`, `/articles/{articleId}/publish`. */
export function resourcePaths(edition: Edition, resource: Resource): [string, PathItem][] {
  const { name, actions } = resource.description;
  const own: Place = { resource, ids: [], parent: null };
  const one: Place = { ...own, ids: [idParameter(resource)] };
  const record = recordPath(`/${name}`, resource);
  return [
    [`/${name}`, collectionItem(edition, own, true)],
    [record, recordItem(edition, one)],
    ...Object.entries(actions).map(([action, description]): [string, PathItem] => [
      `${record}/${action}`,
      { post: actOperation(edition, one, action, description) },
    ]),
  ];
}

/** `/articles/{articleId}/comments`, `/articles/{articleId}/comments/{commentId}`. */
export const collectionPaths = (edition: Edition, resource: Resource): [string, PathItem][] =>
  collectionsOf(edition, resource).flatMap((collection) => {
    const inner = collection.resource();
    const parent = { resource, field: inner.fieldNamed.get(collection.field)! };
    const all: Place = { resource: inner, ids: [idParameter(resource)], parent };
    const one: Place = { ...all, ids: [...all.ids, idParameter(inner)] };
    const path = `${recordPath(`/${resource.description.name}`, resource)}/${collection.name}`;
    return [
      [path, collectionItem(edition, all, collection.isCreatable)],
      [recordPath(path, inner), recordItem(edition, one)],
    ];
  });

const recordPath = (path: string, { description }: Resource) => `${path}/{${idName(description.singular)}}`;

const collectionItem = (edition: Edition, place: Place, isCreatable: boolean): PathItem => ({
  get: listOperation(edition, place),
  ...(isCreatable && isWritable(place.resource) && { post: createOperation(edition, place) }),
});

const recordItem = (edition: Edition, place: Place): PathItem => ({
  get: readOperation(edition, place),
  ...(isWritable(place.resource) && {
    put: replaceOperation(edition, place),
    patch: updateOperation(edition, place),
    delete: deleteOperation(edition, place),
  }),
});
