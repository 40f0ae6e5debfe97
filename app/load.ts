import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { ConfigError } from "../config/config-error.ts";
import type { Config } from "./index.ts";
import { lineIn } from "./origin.ts";

export const CONFIG_FILE = "content-service.config.ts";
/** The same in an image, which has JavaScript. */
const COMPILED_FILE = "content-service.config.js";

/** The configuration of the application in a folder; null if there is none. */
export const configFileIn = (folder: string): string | null =>
  [CONFIG_FILE, COMPILED_FILE].map((name) => join(folder, name)).find((file) => existsSync(file)) ?? null;

/** The configuration of an application, before the environment is known. */
export type Definition = {
  /** The absolute path of its folder; null for a service without an application. */
  readonly folder: string | null;
  readonly config: Config;
};

/** Tables, GraphQL and realtime of a database, and nothing else. */
export const NO_APPLICATION: Definition = { folder: null, config: {} };

/** The members of `Config`. */
const MEMBERS: Readonly<Record<keyof Config, true>> = {
  settings: true,
  environment: true,
  seedAccounts: true,
  resources: true,
  dialects: true,
  routes: true,
  tasks: true,
  graphql: true,
  graphqlInternalStatus: true,
  console: true,
};

/**
 * Imports the configuration of the application in `folder`; without it, of the nearest folder at or above the current one that has one.
 * Throws ConfigError, which names the file, its line and what to do.
 */
export async function loadApplication(folder?: string): Promise<Definition> {
  const found = findApplication(folder);
  if (found === null) return NO_APPLICATION;
  const file = configFileIn(found);
  if (file === null) throw new ConfigError(`${found} is not an application: it has no ${CONFIG_FILE}`);
  const { default: config } = await import(pathToFileURL(file).href).catch((error) => {
    throw new ConfigError(`${lineOf(error, found) ?? file}: ${(error as Error).message}`, { cause: error });
  });
  if (typeof config !== "object" || config === null)
    throw new ConfigError(`${file}: it has no default export: write export default defineConfig({ … })`);
  const unknown = Object.keys(config).find((name) => !Object.hasOwn(MEMBERS, name));
  if (unknown !== undefined)
    throw new ConfigError(
      `${file}: ${unknown} is not a member of defineConfig; it has ${Object.keys(MEMBERS).join(", ")}`,
    );
  return { folder: found, config };
}

/** The absolute path of the folder of the application, or of the nearest one. */
export const findApplication = (folder?: string): string | null =>
  folder === undefined ? nearestFolder(process.cwd()) : resolve(folder);

function nearestFolder(from: string): string | null {
  if (configFileIn(from) !== null) return from;
  const parent = dirname(from);
  return parent === from ? null : nearestFolder(parent);
}

/** The line of the application that has caused an error, if it is known. */
const lineOf = (error: unknown, folder: string): string | null =>
  error instanceof Error ? (lineIn(error.stack ?? "", folder) ?? importIn(error)) : null;

/** The line of an import that finds nothing: its error names only the file. */
function importIn({ message }: Error): string | null {
  const [, module = "", file = ""] = /^Cannot find (?:module|package) '(.+)' imported from (.+)$/.exec(message) ?? [];
  if (!existsSync(file)) return null;
  const name = module.replace(/^.*\//, "");
  const line = readFileSync(file, "utf8")
    .split("\n")
    .findIndex((text) => text.includes(name));
  return line < 0 ? file : `${file}:${line + 1}`;
}
