import type pg from "pg";
import type { Configured } from "../app/configured.ts";
import { COMMAND } from "../config/command.ts";
import type { Config } from "../config/config.ts";
import { sentenceOf, setupOf } from "../db/advisor/finding.ts";
import { findChanges } from "../db/changes/mode.ts";
import { type TableState, tablesQuery } from "../db/changes/publication-plan.ts";
import { withClient, withoutJit } from "../db/cluster/client.ts";
import { refuseOldServer, refuseUnservable } from "../db/cluster/open.ts";
import { whyNoServiceKey } from "../db/cluster/service-key.ts";
import { isPooled } from "../db/transaction/preparation.ts";
import type { Check } from "../rest-gateway/auth/federated/diagnosis.ts";
import { readAdvice } from "./advise.ts";

/** Seconds by which the clocks may differ. Tokens are accepted with a tolerance of 30 seconds, in which the network has a part. */
const CLOCK_SECONDS = 5;

type Checks = AsyncGenerator<Check>;

const ok = (text: string): Check => ({ level: "ok", text });
const warning = (text: string): Check => ({ level: "warning", text });
const error = (text: string): Check => ({ level: "error", text });

/** Checks the database at `url`, which the service would use with these settings. Nothing is changed. */
export async function checkDatabase(url: string, configured: Configured): Promise<readonly Check[]> {
  const { config } = configured;
  const directUrl = config.databaseDirectUrl || url;
  const found: Check[] = [];
  const collect = async (subject: string, checks: Checks) => {
    try {
      for await (const check of checks) found.push({ ...check, text: `${subject}: ${onOneLine(check.text)}` });
    } catch (cause) {
      found.push(error(`${subject}: ${onOneLine((cause as Error).message)}`));
    }
  };
  await collect("connection", checkConnections([...new Set([url, directUrl])]));
  if (found.some(({ level }) => level === "error")) return found;
  await withClient(url, async (client) => {
    await collect("version", checkVersion(client));
    await collect("roles", checkRoles(client, config));
    await collect("grants", checkGrants(directUrl, config));
    await collect("changes", checkChanges(client, directUrl, config));
    await collect("pooler", checkPooler(client, directUrl, config));
    await collect("clock", checkClock(client));
    await collect("extensions", checkExtensions(client, config));
    await collect("settings", checkSettings(client, config));
    await collect("advice", checkAdvice(client, configured));
  });
  return found;
}

const onOneLine = (text: string) => text.trim().replace(/\s+/g, " ");

async function* checkConnections(urls: readonly string[]): Checks {
  for (const url of urls) {
    const login = await withClient(url, async (client) => (await client.query("select current_user as name")).rows[0]);
    yield ok(`${login.name} at ${new URL(url).host}`);
  }
}

async function* checkVersion(client: pg.Client): Checks {
  await refuseOldServer(client);
  const { rows } = await client.query(
    "select current_setting('server_version') as version, pg_is_in_recovery() as copy",
  );
  const [{ version, copy }] = rows;
  if (copy) yield error("the server is a replica, where the service cannot LISTEN: name the primary in DATABASE_URL");
  else yield ok(`PostgreSQL ${version}`);
}

async function* checkRoles(client: pg.Client, config: Config): Checks {
  const { logins } = await setupOf(client, config);
  const { rows } = await client.query(
    `select name, rolsuper or rolbypassrls as "isUnrestricted"
     from unnest($1::text[]) as name left join pg_roles on rolname = name`,
    [logins],
  );
  const missing = rows.filter(({ isUnrestricted }) => isUnrestricted === null).map(({ name }) => name);
  if (missing.length > 0) {
    yield error(`there is no login ${missing.join(", ")}: start the service once, or set MIGRATE=off`);
    return;
  }
  if (!config.isManaged) {
    await refuseUnservable(client, { anonymousRole: config.dbAnonRole, schemas: config.dbSchemas });
  }
  yield ok(`${logins.join(", ")} may become the roles of callers`);
  const noServiceKey = config.isManaged ? await whyNoServiceKey(client) : null;
  if (noServiceKey !== null) yield warning(noServiceKey);
}

async function* checkGrants(directUrl: string, config: Config): Checks {
  const rows = await withClient(directUrl, async (client) => {
    await withoutJit(client);
    const { logins } = await setupOf(client, config);
    const read = [config.dbSchemas, logins, config.changesPublication];
    return (await client.query<TableState>(tablesQuery, read)).rows;
  });
  const readable = rows.filter(({ isReadable }) => isReadable).length;
  if (readable > 0) yield ok(`callers may read ${readable} of ${rows.length} tables`);
  else yield warning(`callers may read no table: grant select on … to ${config.dbAnonRole || "their roles"}`);
}

/** With MIGRATE=on, the start of the service gives the right to read changes, and creates the publication. */
async function* checkChanges(client: pg.Client, directUrl: string, config: Config): Checks {
  const { changesPublication: publication, dbSchemas: schemas, changesUrl } = config;
  if (!config.hasFeed) {
    const { mode, reason } = await findChanges(directUrl, { publication, schemas, changesUrl });
    yield mode === "logical" ? ok(`publication ${publication}`) : warning(reason);
    return;
  }
  const { rows } = await client.query("select current_setting('wal_level') as level");
  if (rows[0].level === "logical") yield ok("wal_level is logical");
  else yield warning(`wal_level is ${rows[0].level}: alter system set wal_level = logical, and restart the server`);
}

async function* checkPooler(client: pg.Client, directUrl: string, config: Config): Checks {
  if (await withClient(directUrl, isPooled)) {
    yield error("notifications need a connection past the pooler: set DATABASE_DIRECT_URL to the server");
  }
  if (!(await isPooled(client))) yield ok("DATABASE_URL names the server");
  else if (config.dbPreparedStatements === 0) yield ok("DATABASE_URL names a pooler, and DB_PREPARED_STATEMENTS is 0");
  else
    yield warning(
      "DATABASE_URL names a pooler: set DB_PREPARED_STATEMENTS=0, unless the pooler keeps prepared statements",
    );
}

async function* checkClock(client: pg.Client): Checks {
  const sent = Date.now();
  const { rows } = await client.query("select extract(epoch from clock_timestamp())::float8 as now");
  yield clockCheck({ sent, received: Date.now(), database: 1000 * rows[0].now });
}

/** Milliseconds since 1970: when the question was sent and answered, and the time of the database in between. */
export function clockCheck({ sent, received, database }: Readonly<Record<string, number>>): Check {
  const seconds = Math.max(sent! - database!, database! - received!, 0) / 1000;
  if (seconds <= CLOCK_SECONDS) return ok("this machine and the database agree");
  return error(`this machine and the database differ by ${Math.round(seconds)} s: synchronize both with NTP`);
}

async function* checkExtensions(client: pg.Client, { migrate }: Config): Checks {
  const { rowCount } = await client.query("select from pg_available_extensions where name = 'pg_trgm'");
  if (migrate !== "on") yield ok("none is required");
  else if (rowCount === 0) yield error("pg_trgm is not available: install the contrib package of PostgreSQL");
  else yield ok("pg_trgm is available");
}

async function* checkSettings(client: pg.Client, { dbPool }: Config): Checks {
  const { rows } = await client.query(
    `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as max`,
  );
  if (dbPool <= rows[0].max) yield ok("they are valid");
  else yield error(`DB_POOL is ${dbPool}, and the server accepts ${rows[0].max} connections: set DB_POOL lower`);
}

async function* checkAdvice(client: pg.Client, configured: Configured): Checks {
  const { findings } = await readAdvice(client, configured);
  const shown = findings.filter(({ level }) => level !== "note");
  if (shown.length === 0) yield ok(`${COMMAND} advise has no errors or warnings`);
  for (const finding of shown) yield { level: finding.level, text: sentenceOf(finding) };
}
