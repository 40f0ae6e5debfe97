import { mayExecute, mayUseTable } from "../../../db/catalog/grants.ts";
import { OPEN } from "../../openapi/conventions/security.ts";
import type { Operation } from "../../openapi/document.ts";
import type { ActionDescription } from "../descriptions/index.ts";
import { type Resource, tableName } from "../resource.ts";
import type { ApiVersion } from "./version.ts";

type Use = "select" | "insert" | "update" | "delete";

/** For an operation that grants allow to anonymous callers; nothing for others. */
export function securityOf(api: ApiVersion, resource: Resource, use: Use): Pick<Operation, "security"> {
  const { catalog, anonymousRole, isOpen } = api;
  const { table, description } = resource;
  const isChange = use === "update" || use === "delete";
  const role = isChange && isOpen ? (description.editor ?? anonymousRole) : anonymousRole;
  return mayUseTable(catalog, role, table, use) ? OPEN : {};
}

/** An action changes the record with the rights of the caller. */
export function securityOfAction(api: ApiVersion, resource: Resource, action: ActionDescription) {
  const { schema, name } = tableName(action.function);
  const overloads = api.catalog.schemas.get(schema)?.functions.get(name) ?? [];
  const isExecutable = overloads.some((fn) => mayExecute(api.catalog, api.anonymousRole, fn));
  return isExecutable ? securityOf(api, resource, "update") : {};
}
