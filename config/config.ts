import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { COMMAND } from "./command.ts";
import { ConfigError, refuse, valueOr } from "./config-error.ts";
import { rejectConflicts } from "./conflicts.ts";
import { type DeclaredSettings, knownSettings } from "./declared.ts";
import { type ModuleSettings, moduleSettings } from "./modules.ts";
import { type PostgrestSettings, readPostgrest, type Translated } from "./postgrest-names.ts";
import { ProviderReader } from "./providers.ts";
import { parseValue } from "./setting-types.ts";
import { fieldOf, hasCollector, type Parsed, REPLACED, SETTINGS, type Setting, type Settings } from "./settings.ts";
import { readText } from "./text-file.ts";
import type { TrustedIssuer } from "./trusted-issuers.ts";

export { ConfigError } from "./config-error.ts";
export type { PasswordClass } from "./setting-types.ts";

/**
 * All settings under their names in camelCase: `GRAPHQL_MAX_DEPTH` is `graphqlMaxDepth`. Defaults that depend on others are filled in. The
 * settings of parts are there too: `valuesOf` reads them.
 */
export type Config = Omit<Parsed, UnsetByDefault> &
  ModuleSettings & {
    /** Every setting, those of the parts included. */
    readonly known: Settings;
    readonly embedded: boolean;
    readonly seed: "demo" | "none";
    readonly dbRequestCredentials: boolean;
    readonly dbConfig: PostgrestSettings["dbConfig"];
    readonly metrics: boolean;
    /** Whether GraphQL is served. */
    readonly hasGraphQL: boolean;
    /** Whether GraphQL rows have a nodeId. */
    readonly graphqlNode: boolean;
    /** Whether requests are traced. */
    readonly tracing: boolean;
    /** "" if it has no name that survives a restart. */
    readonly instanceId: string;
    /** Whether DB_MAX_ROWS has another value than its default, or is set under a name of PostgREST. */
    readonly isDbMaxRowsSet: boolean;
    readonly jwtIssuers: readonly TrustedIssuer[];
    /** Reads the identity providers of AUTH_PROVIDERS and of the table. */
    readonly providers: ProviderReader;
    /** Session settings of every transaction: `[["app.settings.tenant", "7"]]`. */
    readonly appSettings: readonly (readonly [name: string, value: string])[];
    /** Settings of PostgREST that are set and have no effect here. */
    readonly ignored: readonly string[];
    /** The texts of the environment variables that the application declares. One that is empty is unset. */
    readonly declared: Readonly<Record<string, string | undefined>>;
  };

/** The settings whose default depends on others. */
type UnsetByDefault = "seed" | "instanceId" | "dbRequestCredentials" | "metrics" | "modules" | "jwtIssuers";

type ReadOptions = {
  readonly needsKeys?: boolean;
  readonly ofParts?: readonly DeclaredSettings[];
  readonly declared?: readonly string[];
  readonly settings?: Readonly<Partial<Record<SettingName, string | number | boolean>>>;
};

export type SettingName = keyof typeof SETTINGS;

export type Environment = Readonly<Record<string, string | undefined>>;

const HOW_TO_LIST = `${COMMAND} start --help lists all settings`;
/** Only this service uses names with these prefixes, so an unknown name is a typo. */
const FAMILIES = /^(AUTH_PROVIDER|AUTH_RETURN|(API_V\d+|CHANGES|CLIENT_ERROR|DB|GRAPHQL|JWT|LOGIN|MAIL|MFA|TASK)_)/;

/**
 * Reads and validates the settings, under our names and under PostgREST's. Nothing else reads the environment. With `needsKeys`, a
 * key for tokens is required unless the service can run without one. `ofParts` are the settings of the parts. `declared` are the names that the application declares, and
 * `settings` those that it sets, unless the environment does. Throws ConfigError.
 *
 *   readConfig({ PORT: "8080" }).port               // 8080
 *   readConfig({ PGRST_SERVER_PORT: "8080" }).port  // 8080
 *   readConfig({ PORT: "http" })                    // throws: PORT must be a whole number (is "http")
 */
export function readConfig(
  given: Environment = process.env,
  { needsKeys = true, ofParts = [], declared = [], settings = {} }: ReadOptions = {},
): Config {
  const known = knownSettings(ofParts);
  const environment = withFile(given, declared, known);
  const own = Object.keys(environment).filter((name) => !declared.includes(name));
  const { translated, defaults, appSettings, ignored, dbConfig } = readPostgrest(environment);
  const faults = own.flatMap((name) => faultOf(name, environment[name], known));
  const values = Object.entries(known).map(([name, setting]) => {
    const theirs = translated.filter((other) => other.name === name && other.text !== "");
    const ofApplication = settings[name as SettingName];
    const read = () => readSetting(name, setting, environment[name], theirs, ofApplication, defaults[name]);
    return [fieldOf(name), valueOr(faults, read)];
  });
  refuse(faults);
  const parsed = Object.fromEntries(values) as Parsed;
  const embedded = parsed.databaseUrl === "";
  const conflicts = ofParts.flatMap((part) => part.conflicts?.(parsed) ?? []);
  const callsFunction = parsed.migrate !== "off" && typeof dbConfig === "object";
  conflicts.push([callsFunction, "PGRST_DB_PRE_CONFIG requires MIGRATE=off"]);
  rejectConflicts(parsed, embedded, needsKeys, conflicts);
  const { authProviders: path } = parsed;
  const allowsLoopback = parsed.authProvidersNetworks.includes("loopback");
  const providers = new ProviderReader({ path, environment, allowsLoopback });
  return {
    ...parsed,
    known,
    embedded,
    ...moduleSettings(parsed),
    instanceId: parsed.instanceId || (embedded ? "embedded" : ""),
    seed: parsed.seed || (embedded ? "demo" : "none"),
    dbRequestCredentials: parsed.dbRequestCredentials === "" ? parsed.migrate === "off" : parsed.dbRequestCredentials,
    dbConfig: parsed.migrate === "off" && dbConfig,
    metrics: parsed.metrics === "" ? embedded : parsed.metrics,
    hasGraphQL: parsed.graphqlDocuments.mode !== "none",
    graphqlNode: parsed.graphqlExtras.includes("node"),
    tracing: hasCollector(environment),
    isDbMaxRowsSet:
      parsed.dbMaxRows !== Number(SETTINGS.DB_MAX_ROWS.fallback) ||
      translated.some(({ name }) => name === "DB_MAX_ROWS"),
    jwtIssuers: parsed.jwtIssuers || [],
    providers,
    appSettings,
    ignored,
    declared: Object.fromEntries(declared.map((name) => [name, environment[name] || undefined])),
  };
}

/** Returns the settings with some of them replaced by `values`. Throws ConfigError. */
export function overrideConfig(config: Config, values: readonly Translated[]): Config {
  const changes = values
    .filter(({ text }) => text !== "")
    .map(({ from, name, text }) => {
      const { type }: Setting<unknown> = SETTINGS[name as keyof typeof SETTINGS];
      return [fieldOf(name), parseValue(from, type, text)];
    });
  const given = Object.fromEntries(changes) as Partial<Config>;
  const isDbMaxRowsSet = config.isDbMaxRowsSet || given.dbMaxRows !== undefined;
  const changed = { ...config, isDbMaxRowsSet, ...given };
  rejectConflicts(changed, changed.embedded);
  return changed;
}

/** Whether the service itself uses the name; `known` are its settings. */
export const isSetting = (name: string, known: Settings): boolean => name in known || name.startsWith("PGRST_");

export const shellEnvironment = (): Environment => process.env;

/** The variables of the process with these names. */
export const variablesOf = (names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, process.env[name]]));

/** The folder of the application; undefined if the environment does not name one. */
export const folderIn = ({ APPLICATION }: Environment = process.env): string | undefined => APPLICATION || undefined;

/**
 * Adds the variables of the file `.env` of an application to the environment of this process, which keeps those that it has. Every
 * command but `start` reads it, unless SETTINGS_FILE names other settings. Returns the names of those that were added. Throws ConfigError.
 */
export function addDotEnv(folder: string): readonly string[] {
  const file = join(folder, ".env");
  if (!existsSync(file) || process.env.SETTINGS_FILE) return [];
  const given = Object.entries(parseEnv(readSettingsFile(file, file)));
  const added = given.filter(([name]) => process.env[name] === undefined);
  for (const [name, value] of added) process.env[name] = value;
  return added.map(([name]) => name);
}

/** The environment, with the settings of SETTINGS_FILE that it does not have. Throws ConfigError. */
function withFile(environment: Environment, declared: readonly string[], known: Settings): Environment {
  const { SETTINGS_FILE: file } = environment;
  if (!file) return environment;
  const settings = parseEnv(readSettingsFile(file));
  const isKnown = (name: string) => isSetting(name, known) || declared.includes(name);
  const unknown = Object.keys(settings).filter((name) => !isKnown(name));
  refuse(
    unknown.flatMap((name) =>
      Object.hasOwn(REPLACED, name) ? [] : `${name} in ${file} is not a setting of this service`,
    ),
  );
  return { ...settings, ...Object.fromEntries(Object.entries(environment).filter(([, value]) => value)) };
}

function readSettingsFile(file: string, name = "SETTINGS_FILE"): string {
  try {
    return readText(file);
  } catch (error) {
    throw new ConfigError(`${name} cannot be read: ${(error as Error).message}`);
  }
}

/** The value of a setting of the core or of a part; undefined if no part declares it. */
export const valueIn = (config: Config, name: string): unknown => config[fieldOf(name) as keyof Config];

/** The value of a setting under any of its names. Throws when two names have different values. */
function readSetting(
  name: string,
  { type, fallback }: Setting<unknown>,
  own: string | undefined,
  translated: readonly Translated[],
  ofApplication: string | number | boolean | undefined,
  postgrestDefault: string | undefined,
): unknown {
  const given = [...(own ? [{ from: name, text: own }] : []), ...translated];
  const [first, ...others] = given.map(({ from, text }) => ({ from, value: parseValue(from, type, text) }));
  if (first === undefined && ofApplication !== undefined)
    return parseValue(`${name} of the application`, type, String(ofApplication));
  if (first === undefined) return parseValue(name, type, postgrestDefault ?? fallback);
  const other = others.find(({ value }) => JSON.stringify(value) !== JSON.stringify(first.value));
  if (other) throw new ConfigError(`${first.from} and ${other.from} have different values; set only one of them`);
  return first.value;
}

/** Why a variable of the environment is refused; nothing for one that is not for this service. */
function faultOf(name: string, value = "", known: Settings): readonly string[] {
  if (Object.hasOwn(REPLACED, name)) return value === "" ? [] : [`${name} is no longer a setting: ${REPLACED[name]}`];
  return FAMILIES.test(name) && !(name in known) ? [`${name} is not a setting of this service; ${HOW_TO_LIST}`] : [];
}
