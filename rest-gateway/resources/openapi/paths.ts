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
import type { OperationPath } from "./version.ts";
import { type ApiVersion, collectionsOf } from "./version.ts";

/** `/articles`, `/articles/{articleId}`, `/articles/{articleId}/publish`. */
export function resourcePaths(api: ApiVersion, resource: Resource): [string, PathItem][] {
  const { name, actions } = resource.description;
  const own: OperationPath = { resource, ids: [], parent: null };
  const one: OperationPath = { ...own, ids: [idParameter(resource)] };
  const record = recordPath(`/${name}`, resource);
  return [
    [`/${name}`, collectionItem(api, own, true)],
    [record, recordItem(api, one)],
    ...Object.entries(actions).map(([action, description]): [string, PathItem] => [
      `${record}/${action}`,
      { post: actOperation(api, one, action, description) },
    ]),
  ];
}

/** `/articles/{articleId}/comments`, `/articles/{articleId}/comments/{commentId}`. */
export const collectionPaths = (api: ApiVersion, resource: Resource): [string, PathItem][] =>
  collectionsOf(api, resource).flatMap((collection) => {
    const inner = collection.resource();
    const parent = { resource, field: inner.fieldNamed.get(collection.field)! };
    const all: OperationPath = { resource: inner, ids: [idParameter(resource)], parent };
    const one: OperationPath = { ...all, ids: [...all.ids, idParameter(inner)] };
    const url = `${recordPath(`/${resource.description.name}`, resource)}/${collection.name}`;
    return [
      [url, collectionItem(api, all, collection.isCreatable)],
      [recordPath(url, inner), recordItem(api, one)],
    ];
  });

const recordPath = (path: string, { description }: Resource) => `${path}/{${idName(description.singular)}}`;

const collectionItem = (api: ApiVersion, path: OperationPath, isCreatable: boolean): PathItem => ({
  get: listOperation(api, path),
  ...(isCreatable && isWritable(path.resource) && { post: createOperation(api, path) }),
});

const recordItem = (api: ApiVersion, path: OperationPath): PathItem => ({
  get: readOperation(api, path),
  ...(isWritable(path.resource) && {
    put: replaceOperation(api, path),
    patch: updateOperation(api, path),
    delete: deleteOperation(api, path),
  }),
});
