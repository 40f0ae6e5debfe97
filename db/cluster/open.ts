import { readFile } from "node:fs/promises";
import { join } from "node:path";
import pg from "pg";
import type { UsersWrite } from "../../config/config.ts";
import { keepSecret } from "./data-directory.ts";
import { type Cluster, startCluster } from "./embedded.ts";
import { type MigrationLog, migrate } from "./migrate.ts";
import { type Logins, provisionLogins } from "./provision.ts";

export type OpenOptions = {
  /** The owner's login on a server of one's own; "" starts the embedded one. */
  readonly databaseUrl: string;
  /** The same without a pooler in between; "" when there is none. */
  readonly databaseDirectUrl: string;
  readonly dataDir: string;
  /** Passwords of the login roles are derived from it. */
  readonly secret: string;
  readonly migrate: boolean;
  readonly seed: "demo" | "none";
  readonly usersWrite: UsersWrite;
  /** The role of callers who are not signed in; "" when nobody may come like that. */
  readonly anonymousRole: string;
  /** The schemas that are served. */
  readonly schemas: readonly string[];
  /** What else is to be done as the owner, in tables that are there by then; null for nothing. */
  readonly tend: ((owner: pg.Client) => Promise<void>) | null;
  readonly log: MigrationLog;
};

/** A database that is ready to be served. */
export type OpenedDatabase = {
  readonly logins: Logins;
  /** A connection string for LISTEN. */
  readonly listenUrl: string;
  /** A connection string for who runs tasks, without a pooler in between; null where there are none. */
  readonly tasksUrl: string | null;
  /** The embedded server; null on a server of one's own. */
  readonly cluster: Cluster | null;
};

const DATABASE = "content";
/** The oldest PostgreSQL that is served. */
const OLDEST = 15;
const CONNECT_MILLISECONDS = 10_000;
const SEED = new URL("../seed.sql", import.meta.url);

/** Starts the embedded server where there is no other, then migrates, provisions and seeds what needs it. */
export async function openDatabase(options: OpenOptions): Promise<OpenedDatabase> {
  const cluster = options.databaseUrl === "" ? await startEmbedded(options) : null;
  try {
    const url = cluster?.url(DATABASE) ?? options.databaseUrl;
    return { ...(await prepare(url, options)), cluster };
  } catch (error) {
    await cluster?.stop();
    throw error;
  }
}

/** Resolves when the embedded database ends before it was to stop. */
export function lossOf({ cluster }: OpenedDatabase, isStopping: () => boolean): Promise<void> {
  const never = new Promise<void>(() => {});
  return cluster ? cluster.ended.then(() => (isStopping() ? never : undefined)) : never;
}

async function prepare(url: string, options: OpenOptions): Promise<Omit<OpenedDatabase, "cluster">> {
  const directUrl = options.databaseDirectUrl || url;
  await withClient(directUrl, refuseOldServer);
  if (!options.migrate) {
    await withClient(url, (client) => refuseUnservable(client, options));
    return { logins: { data: url, service: url, auth: url, tasks: url }, listenUrl: directUrl, tasksUrl: null };
  }
  await migrate(directUrl, options.log);
  const { secret, usersWrite, anonymousRole } = options;
  const logins = await provisionLogins(directUrl, url, secret, usersWrite, anonymousRole);
  if (options.tend) await withClient(directUrl, options.tend);
  if (options.seed === "demo")
    await withClient(directUrl, async (client) => client.query(await readFile(SEED, "utf8")));
  await withClient(logins.data, (client) => refuseUnservable(client, options));
  return {
    logins,
    listenUrl: withLogin(directUrl, logins.data),
    tasksUrl: withLogin(directUrl, logins.tasks),
  };
}

async function refuseOldServer(client: pg.Client): Promise<void> {
  const { rows } = await client.query("show server_version");
  const version: string = rows[0].server_version;
  if (Number.parseInt(version, 10) < OLDEST)
    throw new Error(`PostgreSQL ${version} is too old: ${OLDEST} or later is needed`);
}

/** Otherwise each request would fail, or find nothing, and say little about why. */
async function refuseUnservable(client: pg.Client, { anonymousRole, schemas }: OpenOptions): Promise<void> {
  const { rows } = await client.query(
    `select current_user as login,
       (select pg_has_role(oid, 'member') from pg_roles where rolname = $1) as member,
       (select string_agg(name, ', ') from unnest($2::text[]) as name
        where not exists (select from pg_namespace where nspname = name)) as missing`,
    [anonymousRole, schemas],
  );
  const { login, member, missing } = rows[0];
  if (missing !== null) throw new Error(`DB_SCHEMAS names what is no schema: ${missing}`);
  if (anonymousRole === "") return;
  if (member === null) throw new Error(`the role "${anonymousRole}" of DB_ANON_ROLE does not exist`);
  if (!member) throw new Error(`the login "${login}" may not become "${anonymousRole}": grant it, or set DB_ANON_ROLE`);
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
    // The server's log goes to ours, and the DETAIL of an error quotes rows.
    await client.query(`alter database ${DATABASE} set log_error_verbosity = 'terse'`);
  });
  return cluster;
}

async function withClient(connectionString: string, callback: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: CONNECT_MILLISECONDS });
  await client.connect().catch((error: Error) => {
    throw new Error(`the database does not let us in: ${reasonOf(error)}`, { cause: error });
  });
  try {
    await callback(client);
  } finally {
    await client.end();
  }
}

/** A name with several addresses fails with one error for each, and no message of its own. */
function reasonOf(error: Error): string {
  return error instanceof AggregateError
    ? [...new Set(error.errors.map(({ message }) => message))].join("; ")
    : error.message;
}

/** The address of the first, the name and password of the second. */
function withLogin(address: string, login: string): string {
  const url = new URL(address);
  const { username, password } = new URL(login);
  url.username = username;
  url.password = password;
  return url.href;
}
