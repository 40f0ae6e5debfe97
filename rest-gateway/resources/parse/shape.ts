import type { Operation, Parent, ResourceRequest } from "../request.ts";
import type { ResourceField } from "../resource.ts";

/** Everything about a request except its values. */
export function shapeOf(request: Omit<ResourceRequest, "shape">, fields: string | null): string {
  const { resource, style, operation } = request;
  const { name } = resource.description;
  return `${name} ${style.version}${style.isCamel} ${style.prefix} ${fields ?? "*"} ${operationShape(operation)}`;
}

function operationShape(operation: Operation): string {
  const { kind } = operation;
  const names = (fields: readonly ResourceField[]) => fields.map(({ name }) => name).join();
  const of = (parent: Parent | null) => (parent ? `${parent.resource.description.name}/${parent.collection.name}` : "");
  switch (operation.kind) {
    case "list": {
      const { parent, conditions, keyword, order, paging } = operation;
      const filters = conditions.map(({ filter }) => filter.name).join();
      const sort = order.map(({ field, direction }) => `${field.name}:${direction}`).join();
      return `${kind} ${of(parent)} ${filters} ${keyword !== null} ${sort} ${paging.limit} ${paging.offset}`;
    }
    case "read":
      return `${kind} ${of(operation.key.parent)}`;
    case "create":
      return `${kind} ${of(operation.parent)} ${names(operation.fields)} ${operation.isMany}${operation.fillsDefaults}`;
    case "update": {
      const { key, fields, reset, preconditions } = operation;
      return `${kind} ${of(key.parent)} ${names(fields)} ${names(reset)} ${JSON.stringify(preconditions)}`;
    }
    case "delete": {
      const { key, isCascading, preconditions } = operation;
      return `${kind} ${of(key.parent)} ${isCascading} ${JSON.stringify(preconditions)}`;
    }
    case "act":
      return `${kind} ${operation.action} ${JSON.stringify(operation.preconditions)}`;
  }
}
