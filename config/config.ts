import { isJwk, readJwks } from "./json-web-keys.ts";
import { readPostgrest, type Translated } from "./postgrest-names.ts";
import { ConfigError, parseValue } from "./setting-types.ts";
import { SETTINGS, type Setting } from "./settings.ts";

export { ConfigError } from "./setting-types.ts";

type Parsed = { readonly [K in keyof typeof SETTINGS]: (typeof SETTINGS)[K] extends Setting<infer T> ? T : never };

/** The settings of one run; what depends on whether the database is embedded is settled here. */
export type Config = Omit<Parsed, "seed" | "graphiql" | "docs" | "usersWrite"> & {
  readonly embedded: boolean;
  readonly seed: "demo" | "none";
  readonly graphiql: boolean;
  readonly docs: boolean;
  readonly usersWrite: UsersWrite;
  /** What every transaction is told besides: `[["app.settings.tenant", "7"]]`. */
  readonly appSettings: readonly (readonly [name: string, value: string])[];
  /** Names of PostgREST's settings that were set and have no meaning here. */
  readonly ignored: readonly string[];
};

/** Who may change and delete users at /users: every caller, or only the user and admins. */
export type UsersWrite = "open" | "owner";

export type Environment = Readonly<Record<string, string | undefined>>;

/** Settings are read from names with these beginnings alone by this service: one that is unknown is a slip of the pen. */
const FAMILIES = /^(API_V\d+|DB|GRAPHQL|JWT|LOGIN|MFA|REST|TASK|USERS|WS)_/;

/**
 * Reads and checks the settings, under our names and under PostgREST's; the only reader of the environment. Throws
 * ConfigError.
 *
 *   readConfig({ PORT: "8080" }).port               // 8080
 *   readConfig({ PGRST_SERVER_PORT: "8080" }).port  // 8080
 *   readConfig({ PORT: "http" })                    // throws: PORT must be a whole number (is "http")
 */
export function readConfig(environment: Environment = process.env): Config {
  refuseUnknown(Object.keys(environment));
  const { translated, defaults, appSettings, ignored } = readPostgrest(environment);
  const parsed = Object.fromEntries(
    Object.entries<Setting<unknown>>(SETTINGS).map(([key, setting]) => {
      const theirs = translated.filter(({ name, text }) => name === setting.name && text !== "");
      return [key, readSetting(setting, environment[setting.name], theirs, defaults[setting.name])];
    }),
  ) as Parsed;
  const embedded = parsed.databaseUrl === "";
  refuseContradictions(parsed, embedded);
  return {
    ...parsed,
    embedded,
    seed: parsed.seed || (embedded ? "demo" : "none"),
    graphiql: parsed.graphiql === "" ? embedded : parsed.graphiql,
    docs: parsed.docs === "" ? embedded : parsed.docs,
    usersWrite: parsed.usersWrite || (embedded ? "open" : "owner"),
    appSettings,
    ignored,
  };
}

/** The value that was set, under whichever name; throws when two names say different things. */
function readSetting(
  { name, type, fallback }: Setting<unknown>,
  own: string | undefined,
  translated: readonly Translated[],
  otherDefault: string | undefined,
): unknown {
  const said = [...(own ? [{ from: name, text: own }] : []), ...translated];
  const [first, ...others] = said.map(({ from, text }) => ({ from, value: parseValue(from, type, text) }));
  if (first === undefined) return parseValue(name, type, otherDefault ?? fallback);
  const other = others.find(({ value }) => JSON.stringify(value) !== JSON.stringify(first.value));
  if (other) throw new ConfigError(`${first.from} and ${other.from} say different things: set one of them`);
  return first.value;
}

function refuseUnknown(names: readonly string[]): void {
  const known = new Set<string>(Object.values(SETTINGS).map((setting) => setting.name));
  for (const name of names) {
    if (FAMILIES.test(name) && !known.has(name)) {
      throw new ConfigError(`${name} is no setting of this service; npm start -- --help lists them`);
    }
  }
}

function refuseContradictions(parsed: Parsed, embedded: boolean): void {
  const { migrate, jwtSecret } = parsed;
  const refusals: readonly (readonly [refused: boolean, message: string])[] = [
    [
      // Where nobody needs a key, tokens may be of no use.
      !embedded && jwtSecret === "" && parsed.jwtPrivateKey === "" && (migrate || parsed.apiKeyRequired),
      "JWT_SECRET (or JWT_PRIVATE_KEY) is required with DATABASE_URL",
    ],
    [embedded && parsed.databaseDirectUrl !== "", "DATABASE_DIRECT_URL needs a DATABASE_URL"],
    [embedded && !migrate, "MIGRATE=off needs a DATABASE_URL"],
    [!migrate && parsed.seed === "demo", "SEED=demo needs MIGRATE=on"],
    [!migrate && parsed.usersWrite === "open", "USERS_WRITE=open needs MIGRATE=on"],
    [migrate && parsed.anonymousRole === "", "DB_ANON_ROLE=none needs MIGRATE=off"],
    [migrate && parsed.jwtRoleClaim.join() !== "role", "JWT_ROLE_CLAIM needs MIGRATE=off"],
    [!migrate && parsed.jwtPreviousSecret !== "", "JWT_PREVIOUS_SECRET needs MIGRATE=on"],
    [!migrate && parsed.jwtPreviousKey !== "", "JWT_PREVIOUS_PUBLIC_KEY needs MIGRATE=on"],
    // Others know it: it may be the public half of a pair.
    [migrate && isJwk(jwtSecret), "JWT_SECRET is a JSON Web Key, which needs MIGRATE=off"],
  ];
  for (const [refused, message] of refusals) if (refused) throw new ConfigError(message);
  if (!migrate && isJwk(jwtSecret)) refuseBadKeys(jwtSecret);
}

function refuseBadKeys(jwks: string): void {
  try {
    readJwks(jwks);
  } catch (error) {
    throw new ConfigError(`JWT_SECRET ${(error as Error).message}`);
  }
}

/** Every setting as documentation: name, default ("" is unset) and meaning, in order. */
export const describeSettings = (): { name: string; fallback: string; about: string }[] =>
  Object.values(SETTINGS).map(({ name, fallback, about }) => ({ name, fallback, about }));

/** What `npm start -- --help` prints. */
export function helpText(): string {
  const width = Math.max(...describeSettings().map(({ name }) => name.length)) + 2;
  const lines = describeSettings().map(({ name, fallback, about }) => {
    const shown = fallback === "" ? "" : ` Default: ${fallback}.`;
    return `  ${name.padEnd(width)}${about}${shown}`;
  });
  return [
    "Content Service turns a PostgreSQL database into an API.",
    "",
    "  npm start              start the service; settings are environment variables",
    "  npm start -- --help    this text",
    "",
    "Settings:",
    ...lines,
    "",
    "The names of PostgREST's settings, PGRST_…, are understood as well: see docs/configuration.md.",
    "",
  ].join("\n");
}
