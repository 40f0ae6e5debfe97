import { mayExecute, mayUseTable } from "../../../db/catalog/grants.ts";
import type { SecurityRequirement, SecurityScheme } from "../../openapi/document.ts";
import type { ActionDescription } from "../descriptions/index.ts";
import { type Resource, tableName } from "../resource.ts";
import type { ApiVersion } from "./version.ts";

export const SECURITY_SCHEMES: Readonly<Record<string, SecurityScheme>> = {
  bearer: { type: "http", scheme: "bearer", bearerFormat: "JWT", description: "The access token of a signed-in user." },
  apiKey: {
    type: "apiKey",
    in: "header",
    name: "X-API-Key",
    description: "A key of the service, or of a user; `?api_key=` is the same.",
  },
  session: {
    type: "apiKey",
    in: "cookie",
    name: "SESSION",
    description: "The session of a browser. Changes need `X-CSRF-Token` beside it: see `GET /csrf-token`.",
  },
  basic: { type: "http", scheme: "basic", description: "Username and password. Over HTTPS." },
};

/** One of these is required by every operation without security requirements. */
export const SECURITY: readonly SecurityRequirement[] = [
  { bearer: [] },
  { apiKey: [] },
  { session: [] },
  { basic: [] },
];

type Use = "select" | "insert" | "update" | "delete";

/** For an operation that grants allow to anonymous callers; nothing for others. */
export function securityOf(
  api: ApiVersion,
  resource: Resource,
  use: Use,
): { security?: readonly SecurityRequirement[] } {
  return isOpenToAll(api, resource, use) ? OPEN : {};
}

export const OPEN = { security: [{}, ...SECURITY] } as const;

function isOpenToAll(
  { catalog, anonymousRole, isOpen }: ApiVersion,
  { description, table }: Resource,
  use: Use,
): boolean {
  const isChange = use === "update" || use === "delete";
  const role = isChange && isOpen && description.editor !== null ? description.editor : anonymousRole;
  return mayUseTable(catalog, role, table, use);
}

/** An action changes the record with the rights of the caller. */
export function securityOfAction(api: ApiVersion, resource: Resource, action: ActionDescription) {
  const { schema, name } = tableName(action.function);
  const overloads = api.catalog.schemas.get(schema)?.functions.get(name) ?? [];
  const isExecutable = overloads.some((fn) => mayExecute(api.catalog, api.anonymousRole, fn));
  return isExecutable ? securityOf(api, resource, "update") : {};
}
