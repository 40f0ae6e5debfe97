import type pg from "pg";
import { type Config, ConfigError } from "../../config/config.ts";
import { DATABASE_SETTINGS, type DatabaseSetting, withDatabaseSettings } from "../../config/database-settings.ts";
import { quoteName } from "../catalog/catalog.ts";
import { withClient } from "../cluster/client.ts";
import { quoteIdentifier } from "../sql.ts";
import { Debounced } from "./debounced.ts";

export type LiveSettingsOptions = {
  /** The settings of the environment. */
  readonly config: Config;
  /** The login whose settings are read. */
  readonly url: string;
  readonly log: {
    onIgnored(names: readonly string[]): void;
    /** The settings could not be read or are invalid: the previous ones remain in use. */
    onFailed(error: Error): void;
  };
};

/** The settings of the environment and, with MIGRATE=off, those in the database. */
export class LiveSettings {
  readonly #options: LiveSettingsOptions;
  readonly #reads: Debounced;
  readonly #listeners: ((config: Config) => void)[] = [];
  #environment: Config;
  #current: Config;
  #text = "[]";

  constructor(options: LiveSettingsOptions) {
    this.#options = options;
    this.#environment = options.config;
    this.#current = options.config;
    this.#reads = new Debounced(() => this.#read(), options.log.onFailed);
  }

  get current(): Config {
    return this.#current;
  }

  /** The settings of the environment. */
  get environment(): Config {
    return this.#environment;
  }

  /** The first read. Rejects with ConfigError if a setting is invalid. */
  async start(): Promise<Config> {
    if (this.#options.config.dbConfig) await this.#reads.first();
    return this.#current;
  }

  /** Schedules another read. */
  soon(): void {
    if (this.#options.config.dbConfig) this.#reads.soon();
  }

  /** Replaces the settings of the environment, and calls back. Rejects, and changes nothing, if a setting is invalid. */
  async rebase(environment: Config): Promise<void> {
    const settings = environment.dbConfig ? await readSettings(this.#options.url, environment) : [];
    const { config, ignored } = withDatabaseSettings(environment, settings);
    this.#environment = environment;
    this.#text = JSON.stringify(settings);
    this.#use(config, ignored);
  }

  onChange(listener: (config: Config) => void): void {
    this.#listeners.push(listener);
  }

  /** Calls back now and after each change. */
  follow(listener: (config: Config) => void): void {
    listener(this.#current);
    this.onChange(listener);
  }

  close(): Promise<void> {
    return this.#reads.close();
  }

  async #read(): Promise<void> {
    const { url } = this.#options;
    const settings = await readSettings(url, this.#environment);
    const text = JSON.stringify(settings);
    if (text === this.#text) return;
    // Invalid settings are reported once, not with each retry.
    this.#text = text;
    const { config, ignored } = withDatabaseSettings(this.#environment, settings);
    this.#use(config, ignored);
  }

  #use(config: Config, ignored: readonly string[]): void {
    this.#current = config;
    if (ignored.length > 0) this.#options.log.onIgnored(ignored);
    for (const listener of this.#listeners) listener(config);
  }
}

/** The settings with those in the database, before the service starts, and the names of these, such as `DB_SCHEMAS`. */
export async function settingsInDatabase(
  config: Config,
  url: string,
): Promise<{ readonly config: Config; readonly inDatabase: readonly string[] }> {
  if (!config.dbConfig) return { config, inDatabase: [] };
  const settings = await readSettings(url, config);
  const inDatabase = settings.map(([name]) => name.toUpperCase());
  return { config: withDatabaseSettings(config, settings).config, inDatabase };
}

const LOGIN_SETTINGS = `
  select distinct on (name) name, value
  from (
    select substr(split_part(setting, '=', 1), 7) as name, substr(setting, strpos(setting, '=') + 1) as value,
      s.setdatabase <> 0 as "isOfDatabase"
    from pg_db_role_setting as s, unnest(s.setconfig) as setting
    where s.setrole = (select oid from pg_roles where rolname = current_user) and setting like 'pgrst.%'
      and s.setdatabase in (0, (select oid from pg_database where datname = current_database()))
  ) as settings
  order by name, "isOfDatabase" desc`;

/** In order of precedence: the settings of the login in this database, those of the login, those of the pre-config function. */
export async function readSettings(url: string, config: Config): Promise<readonly DatabaseSetting[]> {
  const found = new Map<string, string>();
  await withClient(url, async (client) => {
    const { rows: ofLogin } = await client.query<Setting>(LOGIN_SETTINGS);
    // The login may name the function too.
    const { dbConfig } = withDatabaseSettings(config, ofLogin.map(pairOf)).config;
    const ofFunction = typeof dbConfig === "object" && dbConfig ? await settingsOf(dbConfig, client) : [];
    for (const { name, value } of [...ofFunction, ...ofLogin]) found.set(name, value);
  });
  return [...found];
}

type FunctionName = NonNullable<Config["dbPreRequest"]>;
type Setting = { readonly name: string; readonly value: string };
const pairOf = ({ name, value }: Setting): DatabaseSetting => [name, value];

/** The settings after a call of the function, which is undone. */
async function settingsOf(fn: FunctionName, client: pg.Client): Promise<readonly Setting[]> {
  const name = fn.schema === null ? quoteIdentifier(fn.name) : quoteName({ schema: fn.schema, name: fn.name });
  try {
    await client.query(`begin; select ${name}()`);
    const { rows } = await client.query<Setting>(
      `select name, current_setting('pgrst.' || name, true) as value from unnest($1::text[]) as name
       where current_setting('pgrst.' || name, true) <> ''`,
      [DATABASE_SETTINGS],
    );
    return rows;
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    throw new ConfigError(
      `pgrst.db_pre_config: ${message}${code === FORBIDDEN ? await missingGrants(fn, client) : ""}`,
    );
  }
}

/** SQLSTATE of a missing privilege. */
const FORBIDDEN = "42501";

/** The grants that the login lacks to call the function, as the end of a message; "" if the function itself lacks a privilege. */
async function missingGrants({ schema, name }: FunctionName, client: pg.Client): Promise<string> {
  await client.query("rollback");
  const { rows } = await client.query<{ grants: string }>(
    `select concat_ws('; ',
         case when not has_schema_privilege(n.oid, 'usage') then format('grant usage on schema %I to %I', n.nspname, current_user) end,
         case when not has_function_privilege(p.oid, 'execute')
           then format('grant execute on function %I.%I() to %I', n.nspname, p.proname, current_user) end) as grants
     from pg_proc as p
     join pg_namespace as n on n.oid = p.pronamespace
     where p.proname = $1 and p.pronargs = 0 and case when $2::text is null then pg_function_is_visible(p.oid) else n.nspname = $2 end`,
    [name, schema],
  );
  const grants = rows[0]?.grants ?? "";
  return grants === "" ? "" : `. The login role calls it: ${grants}`;
}
