import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { ConfigError } from "../config/config-error.ts";
import type { Config, Part } from "./index.ts";
import { lineIn, placeOf } from "./origin.ts";

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

const CONTENTS = {
  environment: true,
  resources: true,
  dialects: true,
  routes: true,
  tasks: true,
  graphql: true,
  console: true,
} as const;
const OF_PART: Readonly<Record<keyof Part, true>> = { name: true, about: true, rules: true, ...CONTENTS };
const OF_CONFIG: Readonly<Record<keyof Config, true>> = {
  ...{ settings: true, seedAccounts: true, graphqlInternalStatus: true, parts: true },
  ...CONTENTS,
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
  refuseMembers(config, OF_CONFIG, `${file}: `, "defineConfig");
  if (!Array.isArray(config.parts ?? [])) throw new ConfigError(`${file}: parts must be a list`);
  for (const part of config.parts ?? []) refusePart(part, config.parts, found);
  return { folder: found, config };
}

function refuseMembers(value: object, members: object, place: string, define: string): void {
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(members, name));
  if (unknown !== undefined)
    throw new ConfigError(`${place}${unknown} is not a member of ${define}; it has ${Object.keys(members).join(", ")}`);
}

/** The names of parts of an application; those of the service are refused when all are chosen. */
const PART_NAME = /^[a-z]+(-[a-z]+)*$/;

function refusePart(part: Part | null, all: readonly Part[], folder: string): void {
  if (typeof part !== "object" || part === null)
    throw new ConfigError(`${CONFIG_FILE}: parts has an item that is no part: write definePart({ … })`);
  const place = placeOf(part, folder);
  refuseMembers(part, OF_PART, `${place}: `, "definePart");
  const fault = faultOf(part, all);
  if (fault !== null) throw new ConfigError(`${place}: ${fault}`);
}

function faultOf(part: Part, all: readonly Part[]): string | null {
  const { name, about } = part;
  if (typeof name !== "string" || !PART_NAME.test(name) || name === "none")
    return `the name of a part must be lower-case words with hyphens (is ${JSON.stringify(name)})`;
  if (typeof about !== "string" || about === "") return `the part ${name} says nothing in about`;
  if (part.rules !== undefined && !(part.rules instanceof URL && part.rules.protocol === "file:"))
    return `rules of the part ${name} must be a folder: new URL("rules", import.meta.url)`;
  const isAlone = all.filter((each) => each?.name === name).length === 1;
  return isAlone ? null : `parts has two with the name ${name}: rename one of them, or leave it out`;
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
