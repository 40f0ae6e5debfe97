import type pg from "pg";
import type { Configured } from "../../../app/configured.ts";
import { openParts } from "../../../cli/open-parts.ts";
import { COMMAND } from "../../../config/command.ts";
import type { Config } from "../../../config/config.ts";
import { withDatabaseSettings } from "../../../config/database-settings.ts";
import { WITHOUT_EFFECT, WITHOUT_EFFECT_IN_DATABASE } from "../../../config/postgrest-names.ts";
import { findChanges, PUBLICATION, warningOf } from "../../../db/changes/changes-config.ts";
import { noChangesOf, planReplicaIdentities } from "../../../db/changes/publication-plan.ts";
import { type TableState, tablesQuery } from "../../../db/changes/publication-state.ts";
import { withClient } from "../../../db/cluster/client.ts";
import { shortageOf } from "../../../db/cluster/connections.ts";
import {
  passwordStep,
  refusalsOf,
  SOURCE,
  whyNotSettable,
  withOtherPasswords,
} from "../../../db/cluster/login-passwords.ts";
import { pendingIn, readMigrationState } from "../../../db/cluster/migration-state.ts";
import { hasCurrent } from "../../../db/cluster/migrations-folder.ts";
import { hasModules } from "../../../db/cluster/modules.ts";
import { refuseOldServer, refuseUnservable, UNCOMMITTED } from "../../../db/cluster/open.ts";
import { findLogins, loginName } from "../../../db/cluster/provision.ts";
import { whyNoServiceKey } from "../../../db/cluster/service-key.ts";
import { readSettings, settingsInDatabase } from "../../../db/follow/live-settings.ts";
import { whyNotAnnounced } from "../../../db/follow/notifications.ts";
import { isPooled } from "../../../db/wire/connection.ts";
import { type Check, error, note, ok, warning } from "../../../identity/diagnosis.ts";
import { TASKS_NOT_RUN } from "../../../rest-gateway/tasks/own-task.ts";
import { setupOf } from "../setup.ts";
import { whyNoLogical } from "../why/database.ts";
import { checkAccounts } from "./account-checks.ts";
import { checkAdvice } from "./advice-check.ts";
import { whyNoCaller } from "./caller-id.ts";
import { warningsIn } from "./migration-warnings.ts";
import { faultOfPreRequest } from "./pre-request.ts";

/** Seconds by which the clocks may differ: tokens have a tolerance of 30, in which the network has a part. */
const CLOCK_SECONDS = 5;

type Checks = AsyncGenerator<Check>;

/** What the service needs, and the advice about tables, policies and functions, with which it runs all the same. */
export type DatabaseChecks = { readonly service: readonly Check[]; readonly advice: readonly Check[] };

/** Checks the database at `url`, which the service would use with these settings. Nothing is changed. */
export async function checkDatabase(url: string, given: Configured): Promise<DatabaseChecks> {
  const directUrl = given.config.databaseDirectUrl || url;
  const found: Check[] = [];
  const advice: Check[] = [];
  const collect = async (subject: string, checks: Checks, into = found) => {
    try {
      for await (const check of checks) into.push({ ...check, text: `${subject}: ${onOneLine(check.text)}` });
    } catch (cause) {
      found.push(error(`${subject}: ${onOneLine((cause as Error).message)}`));
    }
  };
  await collect("connection", checkConnections([...new Set([url, directUrl])]));
  if (found.some(({ level }) => level === "error")) return { service: found, advice };
  const effective = await settingsInDatabase(given.config, url).catch(({ message }: Error) => {
    found.push(error(`settings: ${message}`));
  });
  if (effective === undefined) return { service: found, advice };
  const { config, inDatabase } = effective;
  const configured = { ...given, config };
  await withClient(url, async (client) => {
    await collect("version", checkVersion(client));
    const isStarted = await hasStarted(client, config).catch(({ message }: Error) => {
      found.push(error(`migrations: ${message}`));
    });
    if (isStarted === undefined) return;
    const logins = await missingLogins(client, config);
    const hasLogins = isStarted && logins.missing.length === 0;
    if (hasLogins) {
      await collect("roles", checkRoles(client, config, inDatabase));
      await collect("grants", checkGrants(directUrl, config));
      await collect("passwords", checkPasswords(client, directUrl, config));
    } else found.push(isStarted ? withoutLogins(logins, config) : BEFORE_START);
    await collect("rights", checkRights(client, configured, isStarted));
    await collect("migrations", checkMigrations(client, configured));
    if (hasLogins) await collect("changes", checkChanges(client, directUrl, config));
    await collect("schema changes", checkAnnouncements(client));
    await collect("pooler", checkPooler(client, directUrl, config));
    await collect("clock", checkClock(client));
    await collect("extensions", checkExtensions(client, config));
    await collect("settings", checkSettings(url, configured));
    if (isStarted && config.hasAuth) await collect("accounts", checkAccounts(client, config));
    if (hasLogins) await collect("advice", checkAdvice(client, configured, found), advice);
  });
  return { service: found, advice };
}

/** Whether the database has what the first start makes: roles, logins and accounts. Rejects with MigrationFailure. */
const hasStarted = async (client: pg.Client, { isManaged }: Config): Promise<boolean> =>
  !isManaged || (await hasModules(client));

const BEFORE_START = note(
  "roles: the first start makes those of the service; run the command again then, to check grants, changes, accounts and advice",
);

/** A dump has no logins, and their names begin with that of the database. */
function withoutLogins({ missing, isAll }: Missing, { migrate }: Config): Check {
  const names = missing.join(", ");
  if (!isAll) return error(`roles: there is no login ${names}: start the service once, or set MIGRATE=off`);
  const where = "as after a restore under another name or on another server";
  return {
    level: migrate === "check" ? "error" : "note",
    text:
      `roles: the modules are here, and not the logins ${names}, ${where}: a start ${migrate === "check" ? "with MIGRATE=on " : ""}` +
      "makes them; run the command again then, to check grants, changes and advice",
  };
}

type Missing = { readonly missing: readonly string[]; readonly isAll: boolean };

async function missingLogins(client: pg.Client, config: Config): Promise<Missing> {
  const { logins } = await setupOf(client, config);
  const { rows } = await client.query<{ name: string }>(
    "select name from unnest($1::text[]) as name where not exists (select from pg_roles where rolname = name)",
    [logins],
  );
  return { missing: rows.map(({ name }) => name), isAll: rows.length === logins.length };
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

async function* checkRoles(client: pg.Client, config: Config, inDatabase: readonly string[]): Checks {
  const { logins } = await setupOf(client, config);
  if (!config.isManaged) {
    await refuseUnservable(client, { anonymousRole: config.dbAnonRole, schemas: config.dbSchemas, inDatabase });
    const noCaller = await whyNoCaller(client);
    if (noCaller !== null) yield warning(noCaller);
  }
  yield ok(`${logins.join(", ")} may become the roles of callers`);
  const fault = await faultOfPreRequest(client, config);
  if (fault !== null) yield error(fault);
  const noServiceKey = config.isManaged ? await whyNoServiceKey(client) : null;
  if (noServiceKey !== null) yield warning(noServiceKey);
}

/** A dump of the roles has no passwords, and those of the logins are derived. */
async function* checkPasswords(client: pg.Client, directUrl: string, config: Config): Checks {
  if (!config.isManaged) return;
  const secret = config.jwtSecret || config.jwtPrivateKey;
  // The embedded database has its secret beside it.
  if (secret === "" && config.embedded) return;
  if (secret === "") {
    yield note(`no login of the service was tried: ${SOURCE} is not set here`);
    return;
  }
  const { logins } = await findLogins(client, directUrl, secret);
  const refusals = await refusalsOf(Object.values(logins));
  const names = withOtherPasswords(refusals);
  for (const { message } of refusals.filter(({ hasOtherPassword }) => !hasOtherPassword)) yield error(message);
  if (refusals.length === 0) yield ok("the logins of the service can sign in");
  if (names.length === 0) return;
  const upgrade = `run ${COMMAND} upgrade --yes`;
  const obstacle = await whyNotSettable(client, names, upgrade);
  const isSetByStart = config.migrate !== "check" && obstacle === null;
  const cure = obstacle ?? (isSetByStart ? `a start sets them, or ${upgrade}` : upgrade);
  yield (isSetByStart ? note : error)(`${passwordStep(names)}: ${cure}`);
}

async function* checkGrants(directUrl: string, config: Config): Checks {
  const rows = await withClient(directUrl, async (client) => {
    const { logins, publication } = await setupOf(client, config);
    const read = [config.dbSchemas, logins, publication ?? PUBLICATION];
    return (await client.query<TableState>(tablesQuery, read)).rows;
  });
  const readable = rows.filter(({ isReadable }) => isReadable).length;
  if (readable > 0) yield ok(`callers may read ${readable} of ${rows.length} tables`);
  else yield warning(`callers may read no table: grant select on … to ${config.dbAnonRole || "their roles"}`);
}

/** Without them the first start fails; later, only one that makes roles, and migrations that make something in a schema. */
async function* checkRights(client: pg.Client, configured: Configured, isStarted: boolean): Checks {
  const { config, application } = configured;
  if (!config.isManaged) return;
  const part = (await openParts(configured)).find(({ missingRights }) => missingRights);
  if (!part) return yield note("they are not checked: PARTS leaves out development");
  const runsMigrations = config.migrate !== "modules" && application.migrationsFolder !== null;
  const missing = await part.missingRights!(client, {
    runsMigrations,
    makesRoles: config.migrate !== "check",
    schemas: config.dbSchemas,
  });
  if (missing === null) yield ok("the login may install the modules and run migrations");
  else yield (missing[isStarted ? "stopsLater" : "stopsFirst"] ? error : warning)(missing.cure);
}

/** With MIGRATE=check, a start does not do what is pending, and ends. */
async function* checkMigrations(client: pg.Client, { config, application }: Configured): Checks {
  if (!config.isManaged) return yield ok("MIGRATE=off: none are run");
  const folder = config.migrate === "modules" ? null : application.migrationsFolder;
  const state = await readMigrationState(client, { folder, modules: config.modules, userId: config.authUserId });
  const pending = pendingIn(state);
  const warnings = [...warningsIn(state), ...(folder !== null && (await hasCurrent(folder)) ? [UNCOMMITTED] : [])];
  if (pending.length === 0) yield ok("the database has all of this version");
  for (const step of pending) yield (config.migrate === "check" ? error : note)(step);
  yield* warnings.map(warning);
}

/** A start of the service tries to give the right to read changes, and publishes the tables that callers may read. */
async function* checkChanges(client: pg.Client, directUrl: string, config: Config): Checks {
  const { dbSchemas: schemas, changesUrl, hasFeed } = config;
  const { logins } = await setupOf(client, config);
  const { rows: here } = await client.query<{ name: string }>("select current_database() as name");
  const ofService = { requests: logins[0]!, changes: loginName(here[0]!.name, "changes") };
  const changes = hasFeed
    ? ({
        publication: PUBLICATION,
        manager: "service",
        missing: await whyNoLogical(client, ofService.changes),
      } as const)
    : await findChanges(directUrl, {
        schemas,
        ...(config.isManaged ? { changesUrl: "", logins: ofService, isOptional: true } : { changesUrl }),
      });
  const found = warningOf(changes);
  if (found !== null) yield warning(found);
  else yield ok(changes.missing ?? `publication ${changes.publication}`);
  if (!hasFeed) return;
  const { rows } = await client.query<TableState>(tablesQuery, [schemas, logins, changes.publication]);
  for (const table of rows.filter(({ isReadable }) => isReadable)) {
    const plan = planReplicaIdentities(table);
    if (typeof plan === "string") yield warning(noChangesOf(table, plan));
  }
}

async function* checkAnnouncements(client: pg.Client): Checks {
  const found = await whyNotAnnounced(client);
  if (found === null) yield ok("they are announced");
  else yield warning(`${found.fault}: ${found.fix}`);
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

async function* checkSettings(url: string, configured: Configured): Checks {
  const { config, application } = configured;
  const parts = await openParts(configured);
  const inDatabase = config.dbConfig ? withDatabaseSettings(config, await readSettings(url, config)).ignored : [];
  const warnings = [
    ...(config.ignored.length > 0 ? [`${WITHOUT_EFFECT}: ${config.ignored.join(", ")}`] : []),
    ...(inDatabase.length > 0 ? [`${WITHOUT_EFFECT_IN_DATABASE}: ${inDatabase.join(", ")}`] : []),
    ...(application.tasks.length > 0 && !(config.hasTasks && parts.some(({ tasks }) => tasks)) ? [TASKS_NOT_RUN] : []),
  ];
  const shortage = await withClient(config.databaseDirectUrl || url, (direct) => shortageOf(direct, config));
  if (shortage?.stops === "requests") yield error(shortage.message);
  if (shortage?.stops === "upgrade") warnings.push(shortage.message);
  if (shortage === null && warnings.length === 0) yield ok("they are valid");
  yield* warnings.map(warning);
}
