import { randomInt } from "node:crypto";
import { join } from "node:path";
import type pg from "pg";
import { COMMAND } from "../../config/command.ts";
import type { Config } from "../../config/config.ts";
import type { UserIdType } from "../../config/modules.ts";
import { urlAt } from "../../config/postgres-url.ts";
import { type ChangesConfig, findChanges, prepareChanges, warningOf } from "../changes/changes-config.ts";
import { prepareStandby } from "../changes/requirements.ts";
import type { DatabaseLimits } from "../limits.ts";
import { refusePrivilegedRoles } from "./caller-roles.ts";
import { withClient } from "./client.ts";
import { keepSecret } from "./data-directory.ts";
import { type Cluster, startCluster } from "./embedded.ts";
import { userIdIn } from "./foreign-auth.ts";
import type { MigrationLog } from "./graphile-migrate.ts";
import { passwordStep, refusalsOf, whyNotSettable, withOtherPasswords } from "./login-passwords.ts";
import { type Installation, migrate } from "./migrate.ts";
import { explainFailure, MigrationFailure } from "./migration-failure.ts";
import { pendingIn, readMigrationState } from "./migration-state.ts";
import { hasCurrent } from "./migrations-folder.ts";
import { type Editor, findLogins, type Logins, loginsAt, provisionLogins, refuseForeignLogins } from "./provision.ts";
import { whyNoServiceKey } from "./service-key.ts";
import { readSql } from "./sql-file.ts";

export type OpenOptions = Config &
  Pick<DatabaseLimits, "recentSignIn"> & {
    /** The passwords of the login roles are derived from it. */
    readonly secret: string;
    /** The role of anonymous callers; "" when they are not allowed. */
    readonly anonymousRole: string;
    readonly editors: readonly Editor[];
    /** The migrations of the application; null if there are none. */
    readonly migrationsFolder: string | null;
    /** Whether the caller runs `current.sql`; otherwise the log says that it is not run. */
    readonly runsCurrent?: boolean;
    /** The SQL of SEED=demo; null if there is none. */
    readonly seedFile: string | null;
    /** The schemas that are served. */
    readonly schemas: readonly string[];
    /** Those of the settings DB_SCHEMAS and DB_ANON_ROLE that the database has, as for PostgREST. */
    readonly inDatabase?: readonly string[];
    /** Runs as the owner after the migrations and the seed. */
    readonly afterMigrations: (owner: pg.Client) => Promise<void>;
    /** Rejects with the failure of a migration, which it explains. */
    readonly explain: (error: unknown, url: string, runsMigrations: boolean) => Promise<never>;
    readonly log: MigrationLog;
  };

/** A database that is ready to be served. */
export type OpenedDatabase = {
  readonly logins: Logins;
  /** A connection string for LISTEN. */
  readonly listenUrl: string;
  /** A connection string for task workers that bypasses the pooler; null when the database has no tasks. */
  readonly tasksUrl: string | null;
  readonly changes: ChangesConfig;
  /** The type of the ids of its users; null without accounts. */
  readonly userId: UserIdType | null;
  /** Whether the role of the service key bypasses row-level security. */
  readonly hasServiceKey: boolean;
  /** The embedded server; null with an external one. */
  readonly cluster: Cluster | null;
  /** Whether this process logs what the advisor finds. Of several worker processes, the first does. */
  readonly logsAdvice: boolean;
  /** Whether another process has logged what is wrong with the database: the one that this one replaces. */
  readonly isReported: boolean;
  /** A random number, which is the same in all processes of the instance. */
  readonly instance: number;
};

const DATABASE = "content";
/** The oldest supported version of PostgreSQL. */
const OLDEST = 15;
export const UNCOMMITTED = `db/migrations/current.sql is not committed, and a start does not run it: ${COMMAND} migrate apply does, ${COMMAND} migrate commit commits it`;

/** Starts the embedded server if no other is configured, then migrates, provisions and seeds the database. */
export async function openDatabase(options: OpenOptions): Promise<OpenedDatabase> {
  const cluster = options.databaseUrl === "" ? await startEmbedded(options) : null;
  try {
    const url = cluster?.socketUrl(DATABASE) ?? options.databaseUrl;
    return {
      ...(await prepare(url, options)),
      cluster,
      logsAdvice: true,
      isReported: false,
      instance: randomInt(1, 2 ** 31 - 1),
    };
  } catch (error) {
    await cluster?.stop();
    throw error;
  }
}

/** Resolves when the embedded database ends unexpectedly. */
export function lossOf({ cluster }: OpenedDatabase, isStopping: () => boolean): Promise<void> {
  const never = new Promise<void>(() => {});
  return cluster ? cluster.ended.then(() => (isStopping() ? never : undefined)) : never;
}

type Prepared = Omit<OpenedDatabase, "cluster" | "logsAdvice" | "isReported" | "instance">;

async function prepare(url: string, options: OpenOptions): Promise<Prepared> {
  const directUrl = options.databaseDirectUrl || url;
  const { isManaged } = options;
  const mayChange = options.migrate !== "check";
  await withClient(directUrl, async (client) => {
    await refuseOldServer(client);
    if (isManaged) await refusePrivilegedRoles(client);
    if (isManaged && mayChange) await refuseForeignLogins(client);
  });
  if (!isManaged) {
    await withClient(url, (client) => refuseUnservable(client, options));
    const { schemas, changesUrl } = options;
    const changes = await findChanges(directUrl, { schemas, changesUrl });
    warnOfChanges(changes, options.log);
    return { logins: loginsAt(url), listenUrl: directUrl, tasksUrl: null, changes, userId: null, hasServiceKey: true };
  }
  const { modules, authUserId, migrationsFolder } = options;
  const folder = options.migrate === "modules" ? null : migrationsFolder;
  const installation = { folder, modules, userId: authUserId };
  if (mayChange)
    await migrate(directUrl, options.log, installation).catch((error) =>
      options.explain(error, directUrl, folder !== null),
    );
  else await refuseIncomplete(directUrl, installation, options.secret);
  if (!options.runsCurrent && folder !== null && (await hasCurrent(folder))) options.log("warning", UNCOMMITTED);
  const { secret, editors, anonymousRole, recentSignIn } = options;
  return withClient(directUrl, async (owner) => {
    const logins = mayChange
      ? await provisionLogins(owner, url, secret, editors, anonymousRole, recentSignIn, modules)
      : (await findLogins(owner, url, secret)).logins;
    await withClient(logins.data, (client) => refuseUnservable(client, options));
    const changesUrl = withLogin(directUrl, logins.changes);
    const standbyUrl = options.changesUrl && urlAt(options.changesUrl, changesUrl);
    const noServiceKey = await whyNoServiceKey(owner);
    if (noServiceKey !== null) options.log("warning", noServiceKey);
    const userId = options.hasAuth ? await userIdIn(owner) : null;
    if (mayChange && options.seed === "demo" && options.seedFile !== null) await runSeed(directUrl, options.seedFile);
    if (mayChange && options.hasAuth) await options.afterMigrations(owner);
    const { schemas } = options;
    const dataUrl = withLogin(directUrl, logins.data);
    const changes = options.hasFeed
      ? await prepareChanges(owner, { url: changesUrl, standbyUrl }, mayChange)
      : await findChanges(dataUrl, { schemas, changesUrl: standbyUrl || changesUrl, isOptional: true });
    if (options.hasFeed && standbyUrl !== "") await prepareStandby(owner, standbyUrl, mayChange);
    warnOfChanges(changes, options.log);
    return {
      logins,
      listenUrl: dataUrl,
      tasksUrl: options.hasTasks ? withLogin(directUrl, logins.tasks) : null,
      changes,
      userId,
      hasServiceKey: noServiceKey === null,
    };
  });
}

/** Once, and not in every process. */
function warnOfChanges(changes: ChangesConfig, log: MigrationLog): void {
  const warning = warningOf(changes);
  if (warning !== null) log("warning", warning);
  else if (changes.missing !== null) log("notice", changes.missing);
}

/**
 * On a connection of its own, which has the settings that the migrations have given the database; what the seed sets ends with it. Rejects
 * with MigrationFailure, which names the line.
 */
async function runSeed(url: string, path: string): Promise<void> {
  const text = readSql(path, SEED_FILE);
  await withClient(url, (client) => client.query(text)).catch(async (error) => {
    const { message } = (await explainFailure(error, url, { file: SEED_FILE, text })) as Error;
    throw new MigrationFailure(`${message}\n${SEED}`);
  });
}

const SEED_FILE = "db/seed.sql";
const SEED =
  "The seed runs after the committed migrations and before db/migrations/current.sql. If it needs what current.sql makes, commit that first, or " +
  `start with SEED=none. If ids have moved on since a failed seed, ${COMMAND} reset --yes makes a new embedded database`;

/** MIGRATE=check: rejects, and names what is missing, if a start with MIGRATE=on would change the database. */
async function refuseIncomplete(url: string, installation: Installation, secret: string): Promise<void> {
  const { pending, logins, missing } = await withClient(url, async (client) => ({
    pending: pendingIn(await readMigrationState(client, installation)),
    ...(await findLogins(client, url, secret)),
  }));
  const refused = missing.length > 0 ? [] : withOtherPasswords(await refusalsOf(Object.values(logins)));
  const passwords = refused.length > 0 ? [passwordStep(refused)] : [];
  const all = [...pending, ...missing.map((name) => `the login ${name}`), ...passwords];
  if (all.length === 0) return;
  const upgrade = `run ${COMMAND} upgrade --yes`;
  // An upgrade makes no logins.
  const cure = missing.length > 0 ? "an instance with MIGRATE=on does all of it" : upgrade;
  const obstacle =
    refused.length > 0 ? await withClient(url, (client) => whyNotSettable(client, refused, upgrade)) : null;
  throw new Error(
    `MIGRATE=check changes nothing, and the database is not up to date: ${all.join("; ")}. ${obstacle ?? `To change it, ${cure}`}`,
  );
}

/** Rejects for a server that is older than the oldest supported version. */
export async function refuseOldServer(client: pg.Client): Promise<void> {
  const { rows } = await client.query("show server_version");
  const version: string = rows[0].server_version;
  if (Number.parseInt(version, 10) < OLDEST)
    throw new Error(`PostgreSQL ${version} is too old: ${OLDEST} or later is required`);
}

/** Without these checks each request would fail, or find nothing, without a helpful message. */
export async function refuseUnservable(
  client: pg.Client,
  { anonymousRole, schemas, inDatabase = [] }: Pick<OpenOptions, "anonymousRole" | "schemas" | "inDatabase">,
): Promise<void> {
  const { rows } = await client.query(
    `select current_user as login,
       (select pg_has_role(oid, 'member') from pg_roles where rolname = $1) as member,
       (select rolbypassrls or rolsuper from pg_roles where rolname = $1) as bypasses,
       (select string_agg(name, ', ') from unnest($2::text[]) as name
        where not exists (select from pg_namespace where nspname = name)) as missing`,
    [anonymousRole, schemas],
  );
  const { login, member, bypasses, missing } = rows[0];
  const named = (setting: string) =>
    inDatabase.includes(setting) ? `pgrst.${setting.toLowerCase()}, a setting in the database,` : setting;
  if (missing !== null) throw new Error(`${named("DB_SCHEMAS")} names schemas that do not exist: ${missing}`);
  if (anonymousRole === "") return;
  if (member === null) throw new Error(`the role "${anonymousRole}" of ${named("DB_ANON_ROLE")} does not exist`);
  if (!member)
    throw new Error(
      `the login "${login}" may not become "${anonymousRole}": ` +
        // Its grant would let callers without a token read every row.
        (bypasses
          ? "that role bypasses policies: set DB_ANON_ROLE to another"
          : "grant it that role, or set DB_ANON_ROLE"),
    );
}

async function startEmbedded({ dataDir, log }: OpenOptions): Promise<Cluster> {
  const cluster = await startCluster({
    dataDir: join(dataDir, "postgres"),
    password: await keepSecret(join(dataDir, "postgres-password")),
    onLog: (line) => log("debug", line),
  });
  await withClient(cluster.url("postgres"), async (client) => {
    const { rowCount } = await client.query("select from pg_database where datname = $1", [DATABASE]);
    if (rowCount === 0) await client.query(`create database ${DATABASE}`);
    // The server's log is part of ours, and the DETAIL of an error quotes rows.
    await client.query(`alter database ${DATABASE} set log_error_verbosity = 'terse'`);
  });
  return cluster;
}

/** `databaseUrl` with the user name and password of `login`. */
function withLogin(databaseUrl: string, login: string): string {
  const url = new URL(databaseUrl);
  const { username, password } = new URL(login);
  url.username = username;
  url.password = password;
  return url.href;
}
