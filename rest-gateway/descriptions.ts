import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Config } from "../config/config.ts";
import type { Caller } from "../db/caller.ts";
import type { Catalog } from "../db/catalog/catalog.ts";
import type { LiveCatalog } from "../db/catalog/live.ts";
import { problem } from "../problems/problem.ts";
import type { PasswordRules } from "./auth/passwords.ts";
import type { Routes } from "./auth/route.ts";
import type { Endpoint, RestAnswer } from "./conventions/endpoint.ts";
import { type ErrorDialect, methodNotAllowed } from "./conventions/problem.ts";
import type { Lifecycle, Version } from "./conventions/version.ts";
import type { CurrentResources } from "./resources/current.ts";
import type { Route } from "./routes/route.ts";
import type { Answer } from "./table/answer/answer.ts";

/** Describes the REST interfaces. */
export type Descriptions = {
  /** The document of the tables at one of these paths: that of PostgREST at "", OpenAPI 3.1, or TypeScript types. Throws Problem. */
  ofTables(path: string, headers: IncomingHttpHeaders, catalog: Catalog, options: TableDescriptionOptions): Answer;
  /** Returns what writes the OpenAPI document of the resources in a version. */
  ofResources(options: ResourceDescriptionOptions): (version: Version) => RestAnswer;
  /** TypeScript types of the database of these settings. */
  typesOf(config: Config): Promise<string>;
};

export type TableDescriptionOptions = {
  /** Whose privileges count; null for all tables and functions. */
  readonly role: string | null;
  /** The URL of the service, as clients see it. */
  readonly baseUrl: string;
  /** Whether reads may be answered by replicas. */
  readonly hasReplicas: boolean;
};

export type ResourceDescriptionOptions = Omit<TableDescriptionOptions, "role"> & {
  readonly catalog: Pick<LiveCatalog, "current">;
  readonly resources: Pick<CurrentResources, "byName">;
  readonly lifecycle: Lifecycle;
  readonly anonymousRole: string;
  /** The paths of the application. */
  readonly routes: readonly Route[];
  readonly hasTasks: boolean;
  /** The form of problems of the resources without `Prefer: dialect`. */
  readonly errorDialect: ErrorDialect;
  /** The routes of authentication, those of parts included. */
  readonly authRoutes: Routes;
  /** The rules for passwords; null without accounts. */
  readonly passwords: PasswordRules | null;
  /** Maximum records of one POST. */
  readonly maxRecords: number;
};

type DocumentOptions = Omit<TableDescriptionOptions, "role"> & {
  /** Null without the part for them. */
  readonly descriptions: Descriptions | null;
  readonly mode: Config["openapi"];
};

const METHODS = ["OPTIONS", "GET", "HEAD"];

/** The description of the table interface at a path of `Descriptions.ofTables`. Null if a table has this name. */
export function documentAt(
  path: string,
  { method = "GET", headers }: IncomingMessage,
  caller: Caller,
  catalog: Catalog,
  { descriptions, mode, ...options }: DocumentOptions,
): Answer | null {
  if ([...catalog.schemas.values()].some(({ tables }) => tables.has(path))) return null;
  if (method === "OPTIONS") return { status: 200, headers: [["Allow", METHODS.join(",")]], body: null };
  if (!METHODS.includes(method)) throw methodNotAllowed(method, METHODS);
  if (descriptions === null || (mode === "off" && path !== "types.ts")) throw problem("table description off");
  const role = mode === "ignore-privileges" ? null : caller.role;
  return descriptions.ofTables(path, headers, catalog, { ...options, role });
}

/** `/openapi.json`: the document of the requested version, the same for every caller. `write` is null if there is none. */
export const descriptionEndpoint = (write: ((version: Version) => RestAnswer) | null): Endpoint => ({
  methodsAt: ({ length }) => (length === 1 ? ["GET", "HEAD", "OPTIONS"] : null),
  async answer({ parameters, version }) {
    if (write === null) throw problem("description off");
    parameters.allowOnly([]);
    return write(version);
  },
});
