import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Router } from "express";
import { COMMAND } from "../config/command.ts";
import { isSetting, type Config as Settings } from "../config/config.ts";
import { ConfigError } from "../config/config-error.ts";
import { type DeclaredSettings, knownSettings } from "../config/declared.ts";
import { isPartOpen } from "../config/parts.ts";
import { parseValue } from "../config/setting-types.ts";
import { REPLACED } from "../config/settings.ts";
import type { Description, Dialect } from "../rest-gateway/resources/description.ts";
import type { Route } from "../rest-gateway/routes/route.ts";
import { faultOf, type OwnTask } from "../rest-gateway/tasks/own-task.ts";
import type { Config, ConsoleLink, Deployment, EnvironmentTypes, Part, Resource, Values } from "./index.ts";
import type { Definition } from "./load.ts";
import { lineIn, placeOf } from "./origin.ts";

/** An application in one environment, as the service uses it. */
export type Application = {
  /** The absolute path of its folder; null for a service without an application. */
  readonly folder: string | null;
  /** Its parts, whether they are open or not. */
  readonly parts: readonly Pick<Part, "name" | "about" | "rules">[];
  readonly resources: readonly Description[];
  readonly dialects: readonly Dialect[];
  readonly routes: readonly (Route | Router)[];
  readonly tasks: readonly OwnTask[];
  /** Its db/migrations; null if there is none. */
  readonly migrationsFolder: string | null;
  /** Its db/seed.sql, for SEED=demo; null if there is none. */
  readonly seedFile: string | null;
  /** Its folder mail, with templates of e-mails; null if there is none. */
  readonly mailFolder: string | null;
  /** The accounts of db/seed.sql, as a text for people. */
  readonly seedAccounts: string | null;
  /** In the navigation of the console. */
  readonly consoleLinks: readonly PageLink[];
  /** Loads its plugins of PostGraphile. */
  plugins(): Promise<readonly GraphileConfig.Plugin[]>;
  /** HTTP status of a GraphQL response with an internal error. */
  readonly internalStatus: number;
};

/** `path` is a path of the service, or a URL. */
type PageLink = { readonly name: string; readonly path: string };

/** The values that a description may leave out. */
const DEFAULTS = {
  modified: [],
  missing: "RESOURCE_NOT_FOUND",
  list: "envelope",
  pageSize: 20,
  order: [],
  sorts: [],
  filters: {},
  search: null,
  relations: {},
  collections: {},
  actions: {},
  cascade: [],
  editor: null,
  hasAccount: false,
} as const satisfies Omit<Description, keyof Pick<Description, "name" | "singular" | "about" | "table" | "fields">>;

/** What the settings of the service depend on: the application, and its parts. Throws ConfigError for settings that do not belong into the file. */
export function settingsOf({ folder, config }: Definition, ofParts: readonly DeclaredSettings[]) {
  const known = knownSettings(ofParts);
  const { settings = {} } = config;
  const refuse = (reason: string, place = placeOf(config, folder)): never => {
    throw new ConfigError(`${place}: ${reason}`);
  };
  const declared = contentsIn(config).flatMap((each) =>
    Object.keys(each.environment ?? {}).map((name) => [name, placeOf(each, folder)] as const),
  );
  for (const [name, place] of declared) {
    if (isSetting(name, known))
      refuse(`${name} is a setting of the service: use another name, such as APP_${name}`, place);
    const others = declared.filter(([each]) => each === name);
    if (others.length > 1) refuse(`${name} is declared by ${others.map(([, where]) => where).join(" and ")}`, place);
  }
  for (const [name, value] of Object.entries(settings)) {
    if (Object.hasOwn(REPLACED, name)) refuse(`${name} is no longer a setting: ${REPLACED[name]}`);
    if (!isSetting(name, known))
      refuse(`${name} is not a setting of the service; ${COMMAND} start --help lists all settings`);
    if (/(SECRET|KEY)$/.test(name) || hasPassword(String(value)))
      refuse(`${name} is a secret, which does not belong into a file of the application: set it in the environment`);
  }
  return { declared: declared.map(([name]) => name), settings, ofParts };
}

/** What an application consists of: its parts, and then itself. */
const contentsIn = (config: Config): readonly (Part | Config)[] => [...(config.parts ?? []), config];

const hasPassword = (value: string) => URL.parse(value)?.password || false;

/** The environment variables that an application declares, for people. */
export const describeOwn = ({ config }: Definition) =>
  contentsIn(config).flatMap(({ environment = {} }) =>
    Object.entries<EnvironmentTypes[string]>(environment).map(([name, type]) => ({
      name,
      about: type.description ?? "",
    })),
  );

/** The application with the values of these settings. Throws ConfigError, which names the file, its line and what to do. */
export function applicationOf(
  { folder, config }: Definition,
  settings: Pick<Settings, "declared" | "embedded" | "hasAuth" | "parts">,
): Application {
  const { parts = [] } = config;
  const closed = parts.filter((part) => !isPartOpen(part, settings));
  const open = contentsIn(config).filter((each) => !closed.some((part) => part === each));
  const all = open.map((each) => chosenOf(each, folder, settings));
  const resources = all.flatMap((each) => each.resources);
  refuseDuplicates(resources, folder);
  const routes = all.flatMap((each) => each.routes);
  for (const route of routes) refuse(route, faultOfRoute(route), folder);
  const tasks = all.flatMap((each) => each.tasks);
  refuseTasks(tasks, folder);
  const mailFolder = existingIn(folder, "mail");
  return {
    folder,
    parts,
    migrationsFolder: existingIn(folder, MIGRATIONS),
    seedFile: existingIn(folder, "db/seed.sql"),
    mailFolder,
    seedAccounts: config.seedAccounts ?? null,
    resources: resources.map((resource) => ({ ...DEFAULTS, ...resource })),
    dialects: all.flatMap((each) => each.dialects),
    routes,
    tasks,
    consoleLinks: all.flatMap((each) => each.links),
    internalStatus: all.at(-1)!.chosen(config.graphqlInternalStatus ?? 200),
    plugins: async () => (await Promise.all(all.map((each) => each.plugins()))).flat(),
  };
}

type Chosen = {
  readonly resources: readonly Resource[];
  readonly dialects: readonly Dialect[];
  readonly routes: readonly (Route | Router)[];
  readonly tasks: readonly OwnTask[];
};

/** What a part or the application itself consists of in this environment. */
function chosenOf(
  contents: Part | Config,
  folder: string | null,
  { declared, embedded, hasAuth }: Pick<Settings, "declared" | "embedded" | "hasAuth">,
) {
  const environment = valuesOf(contents.environment ?? {}, declared);
  const deployment: Deployment = { embedded, hasAccounts: hasAuth };
  const chosen = <T>(given: T | ((...values: [typeof environment, Deployment]) => T)): T =>
    given instanceof Function ? given(environment, deployment) : given;
  const { console = {}, graphql } = contents;
  const list = <N extends "resources" | "dialects" | "routes" | "tasks">(name: N) => {
    const items = chosen<readonly unknown[]>(contents[name] ?? []);
    if (Array.isArray(items) && items.every(Boolean)) return items as Chosen[N];
    throw new ConfigError(`${placeOf(contents, folder)}: ${name} must be a list, without an empty item`);
  };
  return {
    ...{ resources: list("resources"), dialects: list("dialects"), routes: list("routes"), tasks: list("tasks") },
    links: linksOf(chosen(console).links ?? [], placeOf(contents, folder)),
    plugins: async () => (graphql ? loadPlugins(() => graphql(environment), folder) : []),
    chosen,
  };
}

/** Characters of the name of a link. */
const MAX_NAME = 100;

/** Only what a browser opens as a page: a `javascript:` URL would run in the console. */
function linksOf(links: readonly ConsoleLink[], place: string): readonly PageLink[] {
  if (!Array.isArray(links)) throw new ConfigError(`${place}: console.links must be a list`);
  return links.map((link: ConsoleLink | null, i) => {
    const { name, url } = { name: link?.name, url: link?.url };
    const refuse = (reason: string): never => {
      throw new ConfigError(`${place}: console.links[${i}]: ${reason}`);
    };
    if (typeof name !== "string" || !/\S/.test(name) || name.length > MAX_NAME || /\p{Cc}/u.test(name))
      return refuse(`name must be a text of 1 to ${MAX_NAME} characters on one line (is ${JSON.stringify(name)})`);
    if (typeof url !== "string" || !isPageUrl(url))
      return refuse(
        `url must be a path, such as /reports, or an http or https URL without a password (is ${JSON.stringify(url)})`,
      );
    return { name, path: url };
  });
}

/** A path of this site, or an http(s) URL. `//host` and `/\host` are URLs of another site. */
function isPageUrl(url: string): boolean {
  if (/[\s\p{Cc}]/u.test(url)) return false;
  if (url.startsWith("/")) return !/^\/[/\\]/.test(url);
  const parsed = URL.parse(url);
  return parsed !== null && /^https?:$/.test(parsed.protocol) && parsed.username + parsed.password === "";
}

/** Rejects with ConfigError, which names the line. */
async function loadPlugins(load: () => ReturnType<NonNullable<Config["graphql"]>>, folder: string | null) {
  const loaded = await load().catch((error: Error) => {
    const line = lineIn(error.stack ?? "", folder ?? "/") ?? "graphql of content-service.config.ts";
    throw new ConfigError(`${line}: ${error.message}`, { cause: error });
  });
  if (Array.isArray(loaded.plugins)) return loaded.plugins;
  throw new ConfigError("graphql of content-service.config.ts must return { plugins: […] }");
}

/** Where the migrations of an application are. */
export const MIGRATIONS = "db/migrations";

function existingIn(folder: string | null, name: string): string | null {
  const path = folder && join(folder, name);
  return path && existsSync(path) ? path : null;
}

function valuesOf(types: EnvironmentTypes, declared: Settings["declared"]): Values<EnvironmentTypes> {
  const entries = Object.entries(types);
  return Object.fromEntries(entries.map(([name, type]) => [name, parseValue(name, type, declared[name])]));
}

function refuseDuplicates(resources: readonly Resource[], folder: string | null): void {
  const byName = new Map<string, Resource>();
  for (const resource of resources) {
    const other = byName.get(resource.name);
    if (other)
      throw new ConfigError(
        `${placeOf(resource, folder)}: there is another resource named ${resource.name}, ${placeOf(other, folder)}: rename one of them`,
      );
    byName.set(resource.name, resource);
  }
  const [first, second] = resources.filter(({ hasAccount }) => hasAccount);
  if (second)
    throw new ConfigError(
      `${placeOf(second, folder)}: only one resource may have accounts, and ${first!.name} has them: remove hasAccount from one of them`,
    );
}

function refuseTasks(tasks: readonly OwnTask[], folder: string | null): void {
  const byName = new Map<string, OwnTask>();
  for (const task of tasks) {
    const other = byName.get(task.name);
    const fault = other
      ? `there is another task named ${task.name}, ${placeOf(other, folder)}: rename one of them`
      : faultOf(task);
    refuse(task, fault, folder);
    byName.set(task.name, task);
  }
}

function refuse(item: object, fault: string | null, folder: string | null): void {
  if (fault !== null) throw new ConfigError(`${placeOf(item, folder)}: ${fault}`);
}

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/** Why a route cannot be served; null if it can. */
function faultOfRoute(route: Route | Router): string | null {
  if (typeof route === "function") return null;
  const { path, methods } = route;
  if (typeof path !== "string" || !path.startsWith("/")) return `a path begins with / (is ${JSON.stringify(path)})`;
  for (const [method, handle] of Object.entries(methods ?? {})) {
    if (!METHODS.includes(method)) return `${method} of ${path} is not a method: write ${METHODS.join(", ")}`;
    if (typeof handle !== "function") return `${method} of ${path} must be a function`;
  }
  return null;
}
