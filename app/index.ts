// What applications import as "content-service".
import type { Router } from "express";
import type { z } from "zod";
import type { SettingName } from "../config/config.ts";
import type { Description, Dialect } from "../rest-gateway/resources/description.ts";
import type { Route } from "../rest-gateway/routes/route.ts";
import type { OwnTask as Task } from "../rest-gateway/tasks/own-task.ts";
import { withOrigin } from "./origin.ts";

export { z } from "zod";
export type { Db, Query } from "../db/queries.ts";
export { DIALECTS } from "../rest-gateway/resources/description.ts";
export type { Context, Method, Route, RouteHandler } from "../rest-gateway/routes/route.ts";
export type { OwnTask as Task, TaskContext } from "../rest-gateway/tasks/own-task.ts";

/** Own environment variables by name, each with the zod type of its text. An unset variable is undefined. */
export type EnvironmentTypes = Readonly<Record<string, z.ZodType<unknown, any>>>;

/** The values of the environment variables. */
export type Values<Types extends EnvironmentTypes> = { readonly [Name in keyof Types]: z.output<Types[Name]> };

/** What the settings of a deployment decide. */
export type Deployment = {
  /** Whether the service runs its own database server, as in development. */
  readonly embedded: boolean;
  /** Whether the service has accounts: not with MIGRATE=off. */
  readonly hasAccounts: boolean;
};

/** A value, or a function of the environment that returns it. */
type OfEnvironment<T, Types extends EnvironmentTypes> = T | ((environment: Values<Types>, deployment: Deployment) => T);

/** A REST resource: its table, its fields, and what clients may do with them. */
export type Resource = Pick<Description, "name" | "singular" | "about" | "table" | "fields"> & Partial<Description>;

/** A link in the navigation of the console: `{ name: "Reports", url: "/reports" }`. `url` is a path of the service, or an http(s) URL. */
export type ConsoleLink = { readonly name: string; readonly url: string };

/** What an application consists of, and each of its parts. Tables, policies and functions are not here: they are SQL. */
type Contents<Types extends EnvironmentTypes> = {
  /** Own environment variables. They are checked at the start; names that begin with APP_ stay free of settings of the service. */
  readonly environment?: Types;
  readonly resources?: OfEnvironment<readonly Resource[], Types>;
  /** Response formats of the resources for clients that name none in the header Prefer. */
  readonly dialects?: OfEnvironment<readonly Dialect[], Types>;
  /** Own paths, after those of the service: routes, or routers of Express. */
  readonly routes?: OfEnvironment<readonly (Route | Router)[], Types>;
  readonly tasks?: OfEnvironment<readonly Task[], Types>;
  /**
   * Loads plugins of PostGraphile, which follow those of the service. A function with `import()`, because only GraphQL needs them:
   *
   *   graphql: () => import("./plugins/index.ts")  // export const plugins = [WordCountPlugin];
   */
  readonly graphql?: (environment: Values<Types>) => Promise<{ readonly plugins: readonly GraphileConfig.Plugin[] }>;
  /** What operators see in the console, after its pages. A page of your own is a route. */
  readonly console?: OfEnvironment<{ readonly links?: readonly ConsoleLink[] }, Types>;
};

/** What belongs together, in a folder of its own: it is deleted with its line in the configuration, and PARTS may leave it out. */
export type Part<Types extends EnvironmentTypes = any> = Contents<Types> & {
  /** Its name in PARTS: lower-case words with hyphens. */
  readonly name: string;
  /** What it is, in one line, for `content-service parts`. */
  readonly about: string;
  /** A folder with rules of the advisor in SQL: `new URL("rules", import.meta.url)` */
  readonly rules?: URL;
};

/** An application: what `content-service.config.ts` exports. What it has itself comes after its parts. */
export type Config<Types extends EnvironmentTypes = EnvironmentTypes> = Contents<Types> & {
  /** Settings of the service for every deployment. The environment and SETTINGS_FILE come first. Secrets are refused. */
  readonly settings?: Readonly<Partial<Record<SettingName, string | number | boolean>>>;
  readonly parts?: readonly Part[];
  /** The accounts that db/seed.sql creates, which the start prints: `ada, password …` */
  readonly seedAccounts?: string;
  /** HTTP status of a GraphQL response with an internal error. 200, as the specification says, if it is not set. */
  readonly graphqlInternalStatus?: OfEnvironment<200 | 400, Types>;
};

export const defineConfig = <const Types extends EnvironmentTypes = EnvironmentTypes>(config: Config<Types>) =>
  withOrigin(config, defineConfig);

export const definePart = <const Types extends EnvironmentTypes = EnvironmentTypes>(part: Part<Types>): Part<Types> =>
  withOrigin(part, definePart);

export const defineRoute = (route: Route): Route => withOrigin(route, defineRoute);

export const defineTask = <Payload = unknown>(task: Task<Payload>): Task<Payload> => withOrigin(task, defineTask);

export const defineResource = (resource: Resource): Resource => withOrigin(resource, defineResource);
